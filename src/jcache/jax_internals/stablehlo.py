"""StableHLO modules, as JAX gives them to XLA: signature, custom calls and portable form; and markers of programs.

These interfaces change with JAX, so this module is tested with many versions. The functions import JAX, so that
importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any, Final
from weakref import WeakValueDictionary

MARKER: Final = "jcache_trace"  # the names of operations
WITNESS: Final = f"{MARKER}_witness"
_CUSTOM_CALL: Final = "stablehlo.custom_call"
_LAPACK: Final = ("lapack_", "blas_")
_CALLBACK: Final = re.compile(r"xla_(?:ffi_)?(?:partitioned_)?python_(?:cpu|gpu)_callback")
_LOGGING_OPTION: Final = "xla_detailed_logging"
_PLAIN: Final = "module @jcache { }"
_MAX_MARKER_POSITION: Final = 64  # a marker's call is among the first operations
_MESH: Final = re.compile(r"^\s*sdy\.mesh @(\S+) = (.*)$", re.MULTILINE)
_SYMBOL: Final = re.compile(r"@([\w.$-]+)")
_replays: Final[WeakValueDictionary[str, Callable[[], Any]]] = WeakValueDictionary()


def bind_marker(
    trace: str,
    operands: Sequence[Any],
    results: Sequence[Any],
    replay: Callable[[], Any] | None = None,
    callbacks: Sequence[Callable[..., Any]] = (),
    effects: Collection[Any] = (),
) -> list[Any]:
    """Put a marker into the program that is being traced, in place of a program whose trace is stored.

    Args:
        trace: the name of the stored trace.
        operands: the arguments that its executable takes.
        results: the abstract values of its results.
        replay: begins a replay of the trace; `replay_of` returns it once the marker is lowered, for as long as JAX
            keeps the program around the marker.
        callbacks: what the program calls back on the host.
        effects: its effects.
    """
    more: dict[str, Any] = {"callbacks": tuple(callbacks), "program_effects": frozenset(effects)}
    bound: list[Any] = marker().bind(*operands, trace=trace, results=tuple(results), replay=replay, **more)
    return bound


def replay_of(trace: str) -> Callable[[], Any] | None:
    """Return the `replay` of the marker of a trace that was lowered last; None if JAX has dropped its program."""
    return _replays.get(trace)


@cache
def marker() -> Any:
    """Return the primitive of markers."""
    from jax._src.core import Primitive  # importing `jax.extend` takes longer than all else of a hit
    from jax.interpreters import mlir

    primitive: Any = Primitive(MARKER)
    primitive.multiple_results = True
    primitive.def_effectful_abstract_eval(
        lambda *_, trace, results, replay, callbacks, program_effects: (list(results), set(program_effects))
    )
    mlir.register_lowering(primitive, _lower)
    return primitive


def bind_witness(value: Any, when_lowered: Callable[[Any], None]) -> Any:
    """Return the same array, and have a function called with the module when JAX lowers the program around it."""
    return _witness().bind(value, when_lowered=when_lowered)


@cache
def _witness() -> Any:
    from jax._src.core import Primitive
    from jax.interpreters import mlir

    def lower(ctx: Any, operand: Any, *, when_lowered: Callable[[Any], None]) -> list[Any]:
        when_lowered(ctx.module_context.module)
        return [operand]

    primitive: Any = Primitive(WITNESS)
    primitive.def_abstract_eval(lambda value, **_: value)
    always: dict[str, Any] = (
        {"cacheable": False} if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {}
    )
    mlir.register_lowering(primitive, lower, **always)
    return primitive


def _lower(
    ctx: Any, *operands: Any, trace: str, results: Any, replay: Any, callbacks: Any, program_effects: Any
) -> Any:
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import dialects

    if replay is not None:
        _replays[trace] = replay
    for each in callbacks:
        ctx.module_context.add_host_callback(each)
    if program_effects and ctx.tokens_in is not None:
        ctx.set_tokens_out(ctx.tokens_in)
    ir, to_type = _ir(), vars(mlir)["aval_to_ir_type"]
    first = (ctx.module_context,) if next(iter(inspect.signature(to_type).parameters)) == "ctx" else ()
    types = [to_type(*first, aval) for aval in ctx.avals_out]
    call = vars(dialects)["hlo"].CustomCallOp(
        types,
        list(operands),
        call_target_name=ir.StringAttr.get(MARKER),
        backend_config=ir.StringAttr.get(trace),
    )
    return call.results


def trace_of(module: Any) -> str | None:
    """Return the trace in a marker, None if the module is no marker."""
    for operation in islice(_main(module).regions[0].blocks[0].operations, _MAX_MARKER_POSITION):
        if _target(operation) == MARKER:
            return str(operation.attributes["backend_config"].value)
    return None


def inputs_of(module: Any) -> int:
    """Return how many arguments a program takes."""
    return len(_main(module).regions[0].blocks[0].arguments)


def targets_of(module: Any) -> frozenset[str]:
    """Return the targets of the custom calls in a module."""
    found: set[str | None] = set()

    def visit(block: Any) -> None:
        for operation in block.operations:
            found.add(_target(operation))
            for region in operation.regions:
                for inner in region.blocks:
                    visit(inner)

    visit(module.body)
    return frozenset(target for target in found if target is not None)


def unknown_target(targets: frozenset[str], *, calls_back: bool = False) -> str | None:
    """Return a target that JAX itself does not have in every process of its version; None if it has all of them.

    Args:
        targets: of the custom calls in a program.
        calls_back: whether the callbacks of the program are kept.
    """
    from jax._src.export import _export

    unknown = targets - _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE
    if calls_back:
        unknown = frozenset(each for each in unknown if not _CALLBACK.fullmatch(each))
    return min(unknown - _registered_by_jaxlib(), default=None) if unknown else None


def _registered_by_jaxlib() -> set[str]:
    """Return the targets that jaxlib registers whenever JAX is imported: a trace is of one version of it."""
    found: set[str] = set()
    for name, module in sys.modules.copy().items():
        registrations = getattr(module, "registrations", None) if name.startswith("jaxlib.") else None
        listed = registrations().values() if callable(registrations) else ()
        found.update(target[0] for each in listed if type(each) is list for target in each)
    return found


def call_back(targets: Iterable[str]) -> bool:
    """Return whether one of some targets calls a function on the host."""
    return any(map(_CALLBACK.fullmatch, targets))


def prepare_targets(targets: frozenset[str]) -> None:
    """Initialise LAPACK as JAX does when it lowers a call to it; without that, running such a call ends the process."""
    if any(target.startswith(_LAPACK) for target in targets):
        from jaxlib import lapack

        vars(lapack)["_lapack"].initialize()


def signature(module: Any) -> str:
    """Return a digest of the types of arguments and results, with sharding, donation, layout, memory and meshes."""
    main, whole = _main(module).operation.attributes, module.operation.attributes
    texts = [str(main[name]) if name in main else "" for name in ("function_type", "arg_attrs", "res_attrs")]
    texts += [str(whole[name]) if name in whole else "" for name in ("mhlo.num_partitions", "mhlo.num_replicas")]
    meshes = [str(other) for other in module.body.operations if other.operation.name == "sdy.mesh"]
    return _sha256("\n".join(_with_meshes(texts, dict(_MESH.findall("\n".join(meshes))))))


def _with_meshes(texts: Sequence[str], meshes: Mapping[str, str]) -> list[str]:
    """Return texts and the meshes that they name, renamed: JAX numbers names by the content of the whole program."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return f"@{numbers.setdefault(found[1], str(len(numbers)))}" if found[1] in meshes else found[0]

    renamed = [_SYMBOL.sub(number, text) for text in texts]
    return renamed + [meshes[name] for name in numbers]


def device_key(of: str, backend: Any, devices: Any, compile_options: Any) -> str:
    """Return a digest of a program's signature, and of everything but the program in JAX's keys."""
    from jax._src import cache_key

    with _ir().Context():  # the dialects in the program's own context would change the plain module's bytes
        plain = _ir().Module.parse(_PLAIN)
        with without_logging_option(compile_options):
            surroundings = cache_key.get(plain, devices, compile_options, backend)
    return _sha256(f"{of}\n{surroundings}")


@contextmanager
def without_logging_option(compile_options: Any) -> Iterator[None]:
    """Turn off the option that JAX sets for programs of many operations, within the ``with`` block."""
    debugging = compile_options.executable_build_options.debug_options
    detailed = getattr(debugging, _LOGGING_OPTION, None)
    _set_if_there(debugging, _LOGGING_OPTION, value=False)
    try:
        yield
    finally:
        _set_if_there(debugging, _LOGGING_OPTION, value=detailed)


def set_logging_option(module: Any, compile_options: Any) -> None:
    """Set the option that JAX derives from a program, so that the real program has its usual key."""
    from jax._src import compiler

    detailed = getattr(compiler, "use_detailed_logging", None)
    if detailed is not None:
        _set_if_there(compile_options.executable_build_options.debug_options, _LOGGING_OPTION, value=detailed(module))


def to_artifact(module: Any) -> bytes:
    """Return a module as a portable artifact of StableHLO, as `jax.export` makes it."""
    from jax._src.export import _export

    artifact: bytes = _export._module_to_bytecode(module)
    return artifact


def module_of(artifact: bytes) -> Any:
    """Return the module of a portable artifact, in a context of its own."""
    from jax._src.interpreters import mlir

    context, deserialize = mlir.make_ir_context(), _mlir().deserialize_portable_artifact
    wants_context = "context" in str(deserialize.__doc__).split("->", maxsplit=1)[0]
    with context:
        module = deserialize(artifact, *((context,) if wants_context else ()))
        return _ir().Module.parse(module) if isinstance(module, str | bytes) else module


def _ir() -> Any:
    from jax._src.lib import mlir

    return vars(mlir)["ir"]


def _mlir() -> Any:
    from jax._src import lib

    inner = getattr(lib, "_jax", None)
    return vars(lib)["xla_client"]._xla.mlir if inner is None else inner.mlir


def _main(module: Any) -> Any:
    named = (f for f in module.body.operations if "sym_name" in f.attributes)
    return next(f for f in named if f.attributes["sym_name"].value == "main")


def _target(operation: Any) -> str | None:
    return operation.attributes["call_target_name"].value if operation.operation.name == _CUSTOM_CALL else None


def _set_if_there(options: Any, name: str, *, value: Any) -> None:
    if hasattr(options, name):
        setattr(options, name, value)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
