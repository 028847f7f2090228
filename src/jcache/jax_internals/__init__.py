"""JAX's private parts: the only room, beside `runs.recorder`, that knows what a version of JAX looks like inside.

It imports `formats`, `fingerprint` and the ground floor, and JAX inside functions. A new release of JAX changes this
room alone. Begin with `cache_hook`, which puts jcache's cache in the place of JAX's own.
"""
