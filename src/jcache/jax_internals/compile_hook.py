"""Hooks in JAX's compiler: record the compilation of a program, or replay one that another process has recorded.

A program whose trace is stored is given to JAX as a marker: one operation with the arguments and results of the real
program. JAX lowers it to a module of one call, whose ``main`` has the signature of the real program, donations and
shardings included, and asks for its executable. The hook returns the real program's executable: from JAX's cache, under
the real program's key, or compiled from its StableHLO. JAX itself does the rest (dispatch, donation, shardings,
devices). The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from jcache.errors import NotStorable
from jcache.jax_internals import cache_keys, compile_recipe, effects, lowering, meshes, preload, replaying, stablehlo
from jcache.jax_internals.cache_hook import version, versions
from jcache.jax_internals.compile_record import CannotReplay, Compilation, Replay
from jcache.jax_internals.module_text import text_digest
from jcache.jax_internals.versions import CALLBACKS_NUMBERED
from jcache.patching import Patch

_COMPILE_PARAMETERS: Final = ("backend", "computation", "devices", "compile_options", "host_callbacks")
_GET_PARAMETERS: Final = ("cache_key", "compile_options", "backend")
_NOT_REPLAYED: Final = {
    "keepalive": "it holds on to Python objects",
    "mut": "it changes references",
}


class _ThreadState(threading.local):
    """The record to fill, or the replay, at the next compilation in this thread."""

    def __init__(self) -> None:
        self.expected: Compilation | Replay | None = None
        self.keys: list[str] = []


_thread = _ThreadState()
_patches: list[Patch] = []


def expect(what: Compilation | Replay | None) -> None:
    """Have the next program that this thread compiles be recorded, or replayed; None for neither."""
    _thread.expected = what


def install() -> str | None:
    """Install the hooks, until `uninstall`.

    Returns:
        The reason why this JAX cannot have them, or None.
    """
    if _patches:
        return None
    if reason := _impossible():
        return reason
    from jax._src import compiler
    from jax._src.interpreters import mlir, pxla

    try:  # before a program is traced: importing it meanwhile would make JAX trace the program again
        from jax._src.export import _export  # noqa: F401
    except ImportError as error:  # up to jax 0.6 it needs absl-py, which is not installed with it
        hint = "; `pip install absl-py`" if error.name == "absl" else ""
        return f"`jax.export` cannot be imported: {error}{hint}"

    stablehlo.marker()
    _patches.append(Patch(mlir, "jaxpr_subcomp", lowering.note_own_rules))
    _patches.append(Patch(pxla.UnloadedMeshExecutable, "from_hlo", _record_compilations))
    _patches.append(Patch(compiler, "compile_or_get_cached", _replay_markers))
    cache_keys.hear(_note_key)
    return None


def uninstall() -> None:
    """Remove the hooks."""
    cache_keys.hear(None)
    while _patches:
        _patches.pop().undo()


def _impossible() -> str | None:
    from jax._src import compilation_cache, compiler
    from jax._src.interpreters import mlir, pxla

    get = getattr(compilation_cache, "get_executable_and_time", None)
    from_hlo = getattr(getattr(pxla, "UnloadedMeshExecutable", None), "from_hlo", None)
    for name, function, begins, has in (
        ("jaxpr_subcomp", getattr(mlir, "jaxpr_subcomp", None), ("ctx", "jaxpr"), set()),
        ("from_hlo", from_hlo, ("name", "hlo"), {"kept_var_idx", "host_callbacks", "keepalive"}),
        ("compile_or_get_cached", getattr(compiler, "compile_or_get_cached", None), _COMPILE_PARAMETERS, set()),
        ("get_executable_and_time", get, _GET_PARAMETERS, set()),
    ):
        parameters = () if function is None else tuple(inspect.signature(function).parameters)
        if parameters[: len(begins)] != begins or not has <= set(parameters):
            return f"jax {versions()[0]} compiles in a way that jcache does not know ({name})"
    if cache_keys.unexpected():
        return f"jax {versions()[0]} computes its keys in a way that jcache does not know"
    return None


def _record_compilations(original: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(_patched_original("from_hlo"))

    def from_hlo(*args: Any, **kwargs: Any) -> Any:
        expected = _thread.expected
        if isinstance(expected, Compilation):
            given = parameters.bind(*args, **kwargs).arguments
            if _is_of(expected, given["hlo"]):
                expected.kept = tuple(sorted(given["kept_var_idx"]))
                expected.mesh = meshes.mesh_of(given.get("intermediate_shardings") or ())
                reasons = [text for name, text in _NOT_REPLAYED.items() if given.get(name)]
                expected.reason = reasons[0] if reasons else lowering.own_rule(given["hlo"]) or _own_mesh(given)
                expected.reason = expected.reason or _hoisted() or _other_inputs(expected.kept, given)
                expected.reason = expected.reason or _calls_back(expected, given)
        return original(*args, **kwargs)

    return from_hlo


def _calls_back(expected: Compilation, given: Mapping[str, Any]) -> str | None:
    """Keep what a program calls back on the host, before it runs; return why that cannot be."""
    called = given.get("host_callbacks")
    try:
        expected.effects = effects.names_of([*(given.get("unordered_effects") or ()), *_ordered(given)])
        if not called:
            return None
        if expected.keep is None or version() < CALLBACKS_NUMBERED:
            return "it calls back to the host"
        expected.callbacks = expected.keep(called)
    except NotStorable as error:
        return str(error)
    return None


def _is_of(expected: Compilation, module: Any) -> bool:
    """Return whether a module that JAX compiles is the expected one."""
    return not expected.done and (expected.module is None or expected.module.operation == module.operation)


def _patched_original(name: str) -> Callable[..., Any]:
    from jax._src.interpreters import pxla

    function: Callable[..., Any] = getattr(pxla.UnloadedMeshExecutable, name)
    return function


def _own_mesh(given: Mapping[str, Any]) -> str | None:
    if meshes.needs_unreachable_mesh(given.get("intermediate_shardings") or (), given.get("in_shardings") or ()):
        return "it names a mesh whose axes are not all `Auto`, and none of its arguments lies on that mesh"
    return None


def _hoisted() -> str | None:
    import jax

    if getattr(jax.config, "jax_use_simplified_jaxpr_constants", False):
        return "jax_use_simplified_jaxpr_constants gives its constants as arguments"
    return None


def _ordered(given: Mapping[str, Any]) -> Sequence[Any]:
    """Return the ordered effects of a program, for each of which it takes and returns a token."""
    return given.get("ordered_effects") or ()


def _other_inputs(kept: Sequence[int], given: Mapping[str, Any]) -> str | None:
    same = stablehlo.inputs_of(given["hlo"]) == len(kept) + len(_ordered(given))
    return None if same else "its program takes more or fewer arguments than JAX says that it keeps"


def _note_key(key: str) -> None:
    if _thread.expected is not None:
        _thread.keys.append(key)


def _replay_markers(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_or_get_cached(
        backend: Any, computation: Any, devices: Any, compile_options: Any, *rest: Any, **kwargs: Any
    ) -> Any:
        def compile_it(program: Any) -> tuple[Any, str | None]:
            _thread.keys.clear()
            executable = original(backend, program, devices, compile_options, *rest, **kwargs)
            return executable, _thread.keys[0] if _thread.keys else None

        expected = _thread.expected
        if isinstance(expected, Compilation) and _is_of(expected, computation):
            expected.done = True
            if expected.reason is None:
                _describe(expected, computation, backend, devices, compile_options)  # before JAX changes the options
            executable, key = compile_it(computation)
            if expected.reason is None:
                expected.executable_key = key
            return executable
        expected = _replay_of(computation)
        if expected is not None:
            return replaying.executable_of(expected, computation, backend, devices, compile_options, rest, compile_it)
        return original(backend, computation, devices, compile_options, *rest, **kwargs)

    return compile_or_get_cached


def _replay_of(computation: Any) -> Replay | None:
    """Return the replay of a marker, None if the module is no marker."""
    expected, trace = _thread.expected, stablehlo.trace_of(computation)
    if trace is None:
        return None
    if isinstance(expected, Replay) and expected.trace == trace and not expected.signature:
        return expected
    begin = stablehlo.replay_of(trace)  # JAX compiles it again, as it does for other devices
    if begin is None:
        raise CannotReplay
    replay: Replay = begin()
    return replay


def keys_of(call: Callable[[], None]) -> list[str]:
    """Return the keys that JAX computes in this thread during a call."""
    _thread.keys.clear()
    before, _thread.expected = _thread.expected, Compilation(done=True)
    try:
        call()
        return list(_thread.keys)
    finally:
        _thread.expected = before


def _describe(told: Compilation, computation: Any, backend: Any, devices: Any, compile_options: Any) -> None:
    try:
        told.targets = stablehlo.targets_of(computation)
        unknown = stablehlo.unknown_target(told.targets, calls_back=told.callbacks is not None)
        if unknown is not None:
            told.reason = f"it calls {unknown!r}, which may not be there in another process"
            return
        told.load_context = preload.load_context_of(devices, compile_options, told.targets)
        told.signature = stablehlo.signature(computation)
        told.device_key = stablehlo.device_key(told.signature, backend, devices, compile_options)
        told.artifact = stablehlo.to_artifact(computation)
        told.text = text_digest(computation)
        with suppress(Exception):  # a record without a recipe can be served
            told.recipe = "" if told.callbacks is not None else compile_recipe.recipe_of(devices, compile_options)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever fails in JAX here
        told.reason = f"its StableHLO cannot be made ({type(error).__name__})"
