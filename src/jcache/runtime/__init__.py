"""What a running program uses: `jcache.enable()`, the cache that JAX then reads and writes, and verified reads.

It imports `verify`, `runs`, `store`, `jax_internals` and what is below them. Begin with `enable`, then `session`;
`executable_cache` answers JAX.
"""
