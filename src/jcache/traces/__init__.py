"""`jcache.jit`: traced programs that a later process starts without tracing, lowering or compiling them.

It imports `runtime` and what is below it. Begin with `jit`; `resolver` decides what serves a call, `miss` traces;
`structures` and `callbacks` are what JAX itself does not keep of a program: pytrees, and functions on the host.
"""
