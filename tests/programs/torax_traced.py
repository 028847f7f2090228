"""Torax's basic configuration, with its own `jax.jit` as it is, or replaced by `jcache.jit`.

python torax_traced.py jax|jcache DIRECTORY

Prints JSON: seconds from the configuration to the end of the first step, of the CPU and by the clock, how often
functions of Torax were traced as the outermost ones, and what the simulation has computed.
"""

import contextlib
import functools
import io
import json
import sys
import time

import jax

OUTERMOST = {"SimulationStepFn.__call__", "get_initial_state_and_post_processed_outputs"}


def counted(function):
    """Return a function that reports each run, which happens when it is traced."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        print(f"traced {function.__qualname__}")
        return function(*args, **kwargs)

    return call if function.__qualname__ in OUTERMOST else function


def jit_of_torax(jit, original):
    """Return `jit` for Torax's own functions, and JAX's for all others."""

    def replaced(function=None, **options):
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("torax"):
            return original(function, **options) if function is not None else original(**options)
        if function is None:
            return lambda function: jit(counted(function), **options)
        return jit(counted(function), **options)

    return replaced


class Timed:
    """A step function that reports the end of its first step."""

    def __init__(self, step_fn, ended):
        self._step_fn, self._ended = step_fn, ended

    def __call__(self, *args):
        result = self._step_fn(*args)
        if not self._ended:
            jax.block_until_ready(result)
            self._ended += (time.process_time(), time.perf_counter())
        return result

    def __getattr__(self, name):
        return getattr(self._step_fn, name)


def main():
    whose, directory = sys.argv[1:]
    import chex  # noqa: F401 - who jit functions while they are imported
    import equinox  # noqa: F401
    import optax  # noqa: F401

    original = jax.jit
    if whose == "jcache":
        import jcache

        jcache.enable(directory, strict=True)
        jax.jit = jit_of_torax(jcache.jit, original)
    else:
        jax.config.update("jax_compilation_cache_dir", directory)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.jit = jit_of_torax(original, original)
    sys.argv[1:] = []
    sys.path.insert(0, __file__.rpartition("/")[0])
    import torax_basic

    jax.jit = original
    from torax._src.orchestration import run_loop

    ended, loop = [], run_loop.run_loop
    run_loop.run_loop = lambda *args, step_fn, **options: loop(*args, step_fn=Timed(step_fn, ended), **options)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        began = time.process_time(), time.perf_counter()
        torax_basic.main()
    cpu, wall = (end - begin for begin, end in zip(began, ended, strict=True))
    lines = printed.getvalue().splitlines()
    traced = sum(line.startswith("traced") for line in lines)
    print(json.dumps({"cpu": cpu, "wall": wall, "traced": traced, "digest": lines[-1]}))


main()
