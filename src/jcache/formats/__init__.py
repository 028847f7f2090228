"""Byte formats as pure functions: compression, entries, digests, and the facts in a compiled program.

It imports the ground floor alone and touches no directory. Begin with `executable` and `envelope`, which define the
bytes of entries; `pytrees` encodes the values of graphs.
"""
