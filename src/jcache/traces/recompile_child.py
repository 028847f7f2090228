"""Compile stored programs of traces for this machine, in a process of its own: compiling needs JAX and may crash.

`jcache.traces.recompile` starts it and exchanges lines of JSON with it. The child first sends the version of jaxlib.
Then it reads a program's key from each line of stdin, and answers with the outcome::

    {"jaxlib": str}
    {"result": "recompiled" | "there" | "elsewhere" | "failed", "evidence": str}

At the end of stdin it ends with exit code 0. JAX stores each executable in the root that `jcache.enable` has put in
use, as it does in any program, and an entry beside the trace names the executable.
"""

import json
import os
import signal
import sys
from typing import Any, Final

_LONGEST: Final = 300  # characters of an error's first line
_OPTION: Final = "option "  # the beginning of the labels of JAX's options among the key parts of a trace

Answer = tuple[str, str]


class _Elsewhere(Exception):
    """A program cannot be used on this machine, or cannot be compiled before its first call."""


class _Failed(Exception):
    """A program could not be compiled or stored, although this machine could use it."""


def main() -> None:
    """Answer every line of stdin."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as replies:
        os.dup2(2, 1)  # what libraries print goes to stderr
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
        import jax
        from jaxlib import version

        # after importing JAX, so that no package beside jcache is found instead of one of the user's environment
        sys.path.append(sys.argv[2])
        import jcache

        jcache.enable(sys.argv[3])
        print(json.dumps({"jaxlib": version.__version__}), file=replies, flush=True)
        for line in sys.stdin:
            signal.alarm(int(sys.argv[1]))  # ends this process if the parent is no longer there to do so
            result, evidence = _recompile(json.loads(line))
            signal.alarm(0)
            print(json.dumps({"result": result, "evidence": evidence}), file=replies, flush=True)
        jcache.disable()
        del jax
    os._exit(0)  # skip JAX's handlers at exit, which may fail


def _recompile(program: str) -> Answer:
    from jcache.jax_internals.compile_recipe import CannotCompile

    try:
        return _compiled(program)
    except (_Elsewhere, CannotCompile) as error:
        return "elsewhere", str(error)
    except _Failed as error:
        return "failed", str(error)
    except Exception as error:  # noqa: BLE001  (XLA may raise any error)
        lines = [line for line in str(error).splitlines() if line.strip()]
        text = f": {lines[0].strip()[:_LONGEST]}" if lines else ""
        return "failed", f"{type(error).__name__}{text}"


def _compiled(key: str) -> Answer:
    from jcache.jax_internals import compile_recipe, stablehlo, tracing
    from jcache.store.lineage import belongs_to
    from jcache.traces.format import Trace, has_executable
    from jcache.traces.stored_trace import StoredTrace
    from jcache.traces.trace_places import traces_in_use

    traces = traces_in_use()
    program = _opened(traces, key)
    trace = _opened(traces, program.header.parents[0])
    if not belongs_to(program.header, trace.header):
        raise _Elsewhere("its trace has given way to another")
    stored = StoredTrace(traces.store, trace, Trace.of(trace.payload))
    if stored.trace.callbacks is not None:
        raise _Elsewhere("it calls back to the host, so it is compiled where it is called")
    parts, known = program.header.key_parts, trace.header.key_parts
    _check(known)
    options = {label.removeprefix(_OPTION): text for label, text in known.items() if label.startswith(_OPTION)}
    configured = compile_recipe.configured(options, tracing.settings())
    try:
        devices = compile_recipe.devices_of(parts.get("recipe", ""))
        backend = devices[0].client
        stablehlo.prepare_targets(frozenset(stored.trace.targets))
        module = stablehlo.module_of(bytes(program.payload))
        compile_options = compile_recipe.options_of(parts["recipe"], module, devices, backend)
        device = stablehlo.device_key(parts["signature"], backend, devices, compile_options)
        if any(has_executable(traces.store.root, one) for one in stored.executables(parts["signature"], device)):
            return "there", ""
        executable = _compile(module, devices, compile_options, backend)
    finally:
        configured.restore()
    if not has_executable(traces.store.root, executable):
        raise _Failed("JAX did not store what it compiled")
    if reason := traces.keeping.put_program(trace.header, parts["signature"], device, executable):
        raise _Failed(reason)
    return "recompiled", ""


def _opened(traces: Any, key: str) -> Any:  # noqa: ANN401  (its types cannot be imported before JAX)
    from jcache.runtime.sealed_store import OpenedEntry, open_entry
    from jcache.traces.format import TRACES

    found = open_entry(traces.store.root, TRACES, key)
    if found is None:
        raise _Failed(f"{key} is not there")
    if not isinstance(found, OpenedEntry):
        raise _Failed(f"{key} is damaged: {found.evidence.rstrip('.')}")
    return found


def _check(known: Any) -> None:  # noqa: ANN401
    """Check that a call on this machine would look up the key of a trace with these key parts.

    Raises:
        _Elsewhere: the key of such a call is another one.
    """
    from jcache.jax_internals import tracing

    for name, mine in tracing.setup().items():
        theirs = known.get(name)
        if theirs != mine:
            raise _Elsewhere(f"it was traced with {name} {theirs}, and a call with {mine} is traced anew")


def _compile(module: Any, devices: Any, options: Any, backend: Any) -> str:  # noqa: ANN401
    """Compile a module, and return the executable's key in JAX's cache."""
    from jcache.jax_internals import compile_hook, compile_recipe, stablehlo

    stablehlo.set_logging_option(module, options)
    keys = compile_hook.keys_of(lambda: compile_recipe.compile_stored(module, devices, options, backend))
    if not keys:
        raise _Failed("JAX's cache is not in use")
    return keys[0]


if __name__ == "__main__":
    main()
