"""The record of a run: what the key of each executable that it requested was made of.

The report of a run (`jcache.runs.report`) counts; the record explains. `jcache.runs.recorder.key_recorder` takes its
contents from the calls that JAX makes to compute keys, `jcache.runs.log` reads them, and `jcache.explain` compares
records. A record is stored as JSON (`to_json`) and is untrusted input when it is read again (`record_from`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

SCHEMA_VERSION: Final = 1
COMPUTATION: Final = "computation"  # the part that is the lowered module; its hash is the module's name


class Argument(NamedTuple):
    """An argument of a compiled function, one leaf of its pytrees.

    Attributes:
        name: as JAX's messages name it, such as ``params['w']``; empty if JAX has none.
        type: type and shape as JAX writes them, such as ``f32[64,128]``, with ``{weak_type=True}`` behind it.
        donated: whether it is donated.
        sharding: its sharding as text; empty if it has none.
    """

    name: str
    type: str
    donated: bool = False
    sharding: str = ""


class ProgramRecord(NamedTuple):
    """An executable that a run requested, with the parts of its key.

    Attributes:
        key: key of the executable; None if it has none, as where the cache is bypassed.
        name: name of the module, such as ``jit_step``; None if it is not known.
        outcome: ``hit``, ``stored``, ``not_stored`` or ``bypassed``, as in `jcache.runs.report`.
        reason: the reason of the outcome; None if there is none.
        function: name of the function, such as ``step``; empty if it is not known.
        source: file and line of the function, such as ``/home/me/train.py:37``; empty if it is not known.
        parts: SHA-256 of each part of the key, as hexadecimal text, by JAX's name of the part. Parts have the names and
            the order that this version of JAX gives them, such as ``computation``, ``jax_lib version``, ``XLA flags``.
        arguments: the arguments.
        static: the values of static arguments, as text, by name or position.
        constants: types of the arrays that the function captures, such as ``f32[5]``.
        options: index into `ProcessRecord.options`.
        trace_seconds, lower_seconds: time of tracing and of lowering.
        compile_seconds: time of compilation; None for a hit.
        retrieve_seconds: time of reading a hit; None for a miss.
    """

    key: str | None
    name: str | None
    outcome: str
    reason: str | None = None
    function: str = ""
    source: str = ""
    parts: Mapping[str, str] = {}
    arguments: tuple[Argument, ...] = ()
    static: Mapping[str, str] = {}
    constants: tuple[str, ...] = ()
    options: int | None = None
    trace_seconds: float = 0.0
    lower_seconds: float = 0.0
    compile_seconds: float | None = None
    retrieve_seconds: float | None = None


class ProcessRecord(NamedTuple):
    """A process of a run.

    Attributes:
        pid: its number.
        host: name of its host.
        rank: its index among the processes of a distributed JAX program; 0 in all others.
        jax, jaxlib: versions; empty if the process does not use JAX.
        platform: JAX's default platform; empty if it is not known.
        devices: the devices, as texts such as ``8 x cpu`` or ``1 x NVIDIA H100 80GB HBM3``.
        variables: values of the environment's variables that JAX and XLA read and that cannot hold a secret.
        digests: of each other variable a digest, keyed by a secret of the root: it tells whether the value changed.
        options: the values of JAX's options, once for each change of them.
        values: readable values of parts of keys, by the part's name and then by its hash. Flags and versions are texts;
            ``compile_options`` is the base64 text of XLA's CompileOptionsProto.
        programs: the executables that were requested, in their order.
    """

    pid: int
    host: str = ""
    rank: int = 0
    jax: str = ""
    jaxlib: str = ""
    platform: str = ""
    devices: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    digests: Mapping[str, str] = {}
    options: tuple[Mapping[str, str], ...] = ()
    values: Mapping[str, Mapping[str, str]] = {}
    programs: tuple[ProgramRecord, ...] = ()


class RunRecord(NamedTuple):
    """The record of a run.

    Attributes:
        id: the run's identifier, as in its report.
        command: the command, with the values of options that may be secrets left out.
        started_ns: when it began, in nanoseconds since 1970.
        processes: its processes.
    """

    id: str
    command: tuple[str, ...]
    started_ns: int
    processes: tuple[ProcessRecord, ...]

    def to_json(self) -> dict[str, object]:
        """Return the record as data for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **_as_json(self)}


def _as_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if hasattr(value, "_asdict"):
        return {name: _as_json(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def record_from(data: object) -> RunRecord | None:
    """Return the record in data from JSON; None if they are not a well-formed record of this schema."""
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        return None
    try:
        fields = {name: data[name] for name in RunRecord._fields}
        record = RunRecord(**fields)._replace(
            command=tuple(_texts(fields["command"])),
            processes=tuple(_process(one) for one in _list(fields["processes"])),
        )
    except (KeyError, TypeError, ValueError):
        return None
    return record if isinstance(record.id, str) and isinstance(record.started_ns, int) else None


def _process(data: Any) -> ProcessRecord:  # noqa: ANN401 - any JSON value
    process = ProcessRecord(**data)
    return process._replace(
        pid=_int(process.pid),
        host=_text(process.host),
        rank=_int(process.rank),
        jax=_text(process.jax),
        jaxlib=_text(process.jaxlib),
        platform=_text(process.platform),
        devices=tuple(_texts(process.devices)),
        variables=_texts_by_name(process.variables),
        digests=_texts_by_name(process.digests),
        options=tuple(_texts_by_name(one) for one in _list(process.options)),
        values={_text(part): _texts_by_name(values) for part, values in dict(process.values).items()},
        programs=tuple(_program(one) for one in _list(process.programs)),
    )


def _program(data: Any) -> ProgramRecord:  # noqa: ANN401 - any JSON value
    program = ProgramRecord(**data)
    return program._replace(
        key=None if program.key is None else _text(program.key),
        name=None if program.name is None else _text(program.name),
        outcome=_text(program.outcome),
        reason=None if program.reason is None else _text(program.reason),
        function=_text(program.function),
        source=_text(program.source),
        parts=_texts_by_name(program.parts),
        arguments=tuple(_argument(one) for one in _list(program.arguments)),
        static=_texts_by_name(program.static),
        constants=tuple(_texts(program.constants)),
        options=None if program.options is None else _int(program.options),
        trace_seconds=_seconds(program.trace_seconds) or 0.0,
        lower_seconds=_seconds(program.lower_seconds) or 0.0,
        compile_seconds=_seconds(program.compile_seconds),
        retrieve_seconds=_seconds(program.retrieve_seconds),
    )


def _argument(data: Any) -> Argument:  # noqa: ANN401 - any JSON value
    name, kind, donated, sharding = (data[name] for name in Argument._fields)
    return Argument(_text(name), _text(kind), bool(donated), _text(sharding))


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _texts(value: object) -> list[str]:
    return [_text(item) for item in _list(value)]


def _texts_by_name(value: Any) -> dict[str, str]:  # noqa: ANN401 - any JSON value
    return {_text(name): _text(text) for name, text in dict(value).items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _int(value: object) -> int:
    if not isinstance(value, int) or abs(value) >= 2**63:
        raise TypeError("not a number")
    return value


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not (isfinite(value) and 0 <= value < 1e15):
        raise ValueError("no time")
    return float(value)
