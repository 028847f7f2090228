"""Byte formats, as pure functions: compression, the sealed envelope, digests, and what a compiled program contains.

It imports the ground floor alone and touches no directory. Begin with `envelope`, which defines what an entry's bytes
are; `pytrees` encodes the values of graphs.
"""
