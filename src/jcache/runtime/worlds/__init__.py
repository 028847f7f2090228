"""Worlds: what a program can be made of, so that a trace or graph is served only where it was compared.

It imports `fingerprint`, `store` and what is below them. Begin with `world.take`; `comparisons` remembers in which
worlds an entry was compared, and `judgement` says whether it may be served in this one.
"""
