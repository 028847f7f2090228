"""Executions of programs: the recorder that notes what JAX does, and the reports that are made of its notes.

It imports `store` and `jax_internals`, and what is below them. Begin with `report`, which turns a log into a report;
`recorder` is the file that runs inside the program.
"""
