"""Checks of entries, findings, and repair; a check never changes a byte.

It imports `store` and `jax_internals`, and what is below them. Begin with `verification`, which checks a root or a part
of it; `checks` holds the checks of one entry, and `repair` acts on findings.
"""
