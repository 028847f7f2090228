"""Runs of programs: the recorder that logs what JAX's cache does, and the reports on its logs.

This room imports `store`, `jax_internals` and lower rooms. Begin with `report`, which turns a log into a report;
`recorder` runs inside the program.
"""
