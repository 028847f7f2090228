"""JAX's internals: beside `runs.recorder` the only room that depends on the inside of a version of JAX.

It imports `formats`, `fingerprint` and the ground floor, and JAX inside functions. A new release of JAX changes this
room alone. Begin with `cache_hook`, which replaces JAX's cache by jcache's.
"""
