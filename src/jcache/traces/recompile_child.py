"""Compiles stored programs of traces for this machine: a program of its own, since compiling takes JAX, and may crash.

`jcache.traces.recompile` runs it and talks to it in lines of JSON. First it says who compiles, and is told of programs
by their keys; it answers what became of each::

    {"jaxlib": str}
    {"result": "recompiled" | "there" | "elsewhere" | "failed", "evidence": str}

It ends with exit code 0 when stdin does. What it compiles goes the way of any program's executable, into the root that
`jcache.enable` has put in use, and the program's trace is told where it is.
"""

import json
import os
import signal
import sys
from typing import Any, Final

_LONGEST: Final = 300  # characters of an error's first line
_OPTION: Final = "option "  # how labels of JAX's options begin, among what a trace was made from

Answer = tuple[str, str]


class _Elsewhere(Exception):
    """What can be of no use on this machine."""


class _Failed(Exception):
    """What ought to have been compiled, and was not."""


def main() -> None:
    """Answer every line of stdin."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as replies:
        os.dup2(2, 1)  # what libraries print goes to stderr
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
        import jax
        from jaxlib import version

        # only now: of the environment that jcache is in, nothing else may be found in place of this one's
        sys.path.append(sys.argv[2])
        import jcache

        jcache.enable(sys.argv[3])
        print(json.dumps({"jaxlib": version.__version__}), file=replies, flush=True)
        for line in sys.stdin:
            signal.alarm(int(sys.argv[1]))  # for when nobody is left to end this process
            result, evidence = _recompile(json.loads(line))
            signal.alarm(0)
            print(json.dumps({"result": result, "evidence": evidence}), file=replies, flush=True)
        jcache.disable()
        del jax
    os._exit(0)  # not through JAX's own end, which may fail for reasons of its own


def _recompile(program: str) -> Answer:
    from jcache.jax_internals.compile_recipe import CannotCompile

    try:
        return _compiled(program)
    except (_Elsewhere, CannotCompile) as error:
        return "elsewhere", str(error)
    except _Failed as error:
        return "failed", str(error)
    except Exception as error:  # noqa: BLE001  (whatever XLA says no with)
        lines = [line for line in str(error).splitlines() if line.strip()]
        text = f": {lines[0].strip()[:_LONGEST]}" if lines else ""
        return "failed", f"{type(error).__name__}{text}"


def _compiled(key: str) -> Answer:
    from jcache.jax_internals import compile_recipe, stablehlo, tracing
    from jcache.store.lineage import belongs_to
    from jcache.traces.format import Trace, has_executable
    from jcache.traces.stored_trace import Kept
    from jcache.traces.trace_places import shelf_in_use

    shelf = shelf_in_use()
    program = _opened(shelf, key)
    trace = _opened(shelf, program.header.parents[0])
    if not belongs_to(program.header, trace.header):
        raise _Elsewhere("its trace has given way to another")
    kept = Kept(shelf.store, trace, Trace.of(trace.payload))
    if kept.trace.callbacks is not None:
        raise _Elsewhere("it calls back to the host, so it is compiled where it is called")
    parts, known = program.header.key_parts, trace.header.key_parts
    _check(known)
    options = {label.removeprefix(_OPTION): text for label, text in known.items() if label.startswith(_OPTION)}
    configured = compile_recipe.configured(options, tracing.settings())
    try:
        devices = compile_recipe.devices_of(parts.get("recipe", ""))
        backend = devices[0].client
        stablehlo.prepare_targets(frozenset(kept.trace.targets))
        module = stablehlo.module_of(bytes(program.payload))
        compile_options = compile_recipe.options_of(parts["recipe"], module, devices, backend)
        device = stablehlo.device_key(parts["signature"], backend, devices, compile_options)
        if any(has_executable(shelf.store.root, one) for one in kept.executables(parts["signature"], device)):
            return "there", ""
        executable = _compile(module, devices, compile_options, backend)
    finally:
        configured.restore()
    if not has_executable(shelf.store.root, executable):
        raise _Failed("JAX did not store what it compiled")
    if reason := shelf.keeping.found(kept, parts["signature"], device, executable):
        raise _Failed(reason)
    return "recompiled", ""


def _opened(shelf: Any, key: str) -> Any:  # noqa: ANN401  (JAX has been imported: only now may jcache be)
    from jcache.runtime.sealed_store import OpenedEntry, open_entry
    from jcache.traces.format import TRACES

    found = open_entry(shelf.store.root, TRACES, key)
    if found is None:
        raise _Failed(f"{key} is not there")
    if not isinstance(found, OpenedEntry):
        raise _Failed(f"{key} is damaged: {found.evidence.rstrip('.')}")
    return found


def _check(known: Any) -> None:  # noqa: ANN401
    """Whether calls are looked up here under the key of a trace that was made from this."""
    from jcache.jax_internals import tracing

    for name, mine in tracing.setup().items():
        theirs = known.get(name)
        if theirs != mine:
            raise _Elsewhere(f"it was traced with {name} {theirs}, and a call with {mine} is traced anew")


def _compile(module: Any, devices: Any, options: Any, backend: Any) -> str:  # noqa: ANN401
    """The key under which JAX's cache has what it compiled."""
    from jcache.jax_internals import compile_hook, compile_recipe, stablehlo

    stablehlo.set_logging_option(module, options)
    keys = compile_hook.keys_of(lambda: compile_recipe.compile_stored(module, devices, options, backend))
    if not keys:
        raise _Failed("JAX's cache is not in use")
    return keys[0]


if __name__ == "__main__":
    main()
