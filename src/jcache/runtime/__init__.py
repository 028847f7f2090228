"""The runtime of a program: `jcache.enable()`, the cache that JAX then reads and writes, and verified reads.

This room imports `verify`, `runs`, `store`, `jax_internals` and lower rooms. Begin with `enable`, then `session`; JAX
calls `executable_cache`.
"""
