"""`jcache.jit`: traced programs that a later process starts without tracing, lowering or compiling them.

It imports `runtime` and the rooms below it. Begin with `jit`; `resolver` decides what serves a call, and `miss` has the
state of a call that is traced. `structures` and `callbacks` store what JAX itself cannot store of a program: pytrees,
and callbacks on the host.
"""
