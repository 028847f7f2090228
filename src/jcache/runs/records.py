"""Make the record of a run from the recordings of its processes, and find the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jcache.layout import Root
from jcache.runs.calls import HIT
from jcache.runs.key_lines import KeyLines, Line
from jcache.runs.log import Program, Recording
from jcache.runs.record import Argument, ProcessRecord, ProgramRecord, RunRecord, record_from
from jcache.runs.secrets import without_secrets
from jcache.store.run_records import read_records

_RUNS: Final = 100  # the latest, among which the last run of a command is looked for


def record_of(
    recordings: Sequence[Recording], *, run_id: str, command: Sequence[str], started_ns: int
) -> RunRecord | None:
    """Return the record of a run; None if nothing is known of any key and nothing was bypassed.

    Args:
        recordings: the recordings of its processes.
        run_id: the run's identifier.
        command: the command that was run.
        started_ns: the time when it began, in nanoseconds since 1970.
    """
    processes = tuple(_process(recording) for recording in recordings if recording.programs)
    return RunRecord(run_id, without_secrets(command), started_ns, processes) if processes else None


def used_before(root: Root, command: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the executables that the last recorded run of a command used, in their order.

    Args:
        root: the root with the records.
        command: the program and its arguments.
    """
    wanted = tuple(without_secrets(command))
    for latest in (1, _RUNS):  # most often it is the last one, and a program waits
        for data in reversed(read_records(root, latest=latest)):
            record = record_from(data)
            if record is not None and tuple(record.command) == wanted:
                return _keys_of(record)
    return ()


def last_runs(root: Root) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return, for each command of the latest recorded runs, the keys that its last run used, in their order."""
    found = dict[tuple[str, ...], tuple[str, ...]]()
    for data in read_records(root, latest=_RUNS):
        record = record_from(data)
        if record is not None and (keys := _keys_of(record)):
            found[tuple(record.command)] = keys
    return found


def _keys_of(record: RunRecord) -> tuple[str, ...]:
    programs = (program for process in record.processes for program in process.programs)
    return tuple(dict.fromkeys(program.key for program in programs if program.key))


def _process(recording: Recording) -> ProcessRecord:
    keys = recording.keys
    programs = tuple(
        _program(program, seconds, keys, keys.by_key.get(program.key or "", {}))
        for program, seconds in zip(recording.programs, recording.front_seconds, strict=True)
    )
    used = {(part, value) for program in programs for part, value in program.parts.items()}
    values = {
        part: {name: text for name, text in of_part.items() if (part, name) in used}
        for part, of_part in keys.values.items()
    }
    return ProcessRecord(
        pid=recording.pid,
        host=keys.process.get("host", ""),
        rank=keys.process.get("rank", 0),
        jax=recording.jax,
        jaxlib=recording.jaxlib,
        platform=recording.platform,
        devices=_strings(keys.process.get("devices")),
        variables=_strings_by_name(keys.process.get("variables")),
        digests=_strings_by_name(keys.process.get("digests")),
        options=tuple(map(_strings_by_name, keys.options.values())),
        values=values,
        programs=programs,
    )


def _program(program: Program, front_seconds: tuple[float, float], keys: KeyLines, line: Line) -> ProgramRecord:
    is_hit = program.outcome == HIT
    options = list(keys.options)
    return ProgramRecord(
        key=program.key,
        name=program.name,
        outcome=program.outcome,
        reason=program.reason,
        function=str(line.get("function", "")),
        source=str(line.get("source", "")),
        parts=_strings_by_name(keys.parts_of(line)),
        arguments=tuple(map(_argument, _items(line.get("arguments")))),
        static=_strings_by_name(line.get("static")),
        constants=_strings(line.get("constants")),
        options=options.index(line["options"]) if line.get("options") in options else None,
        trace_seconds=front_seconds[0],
        lower_seconds=front_seconds[1],
        compile_seconds=None if is_hit else program.seconds,
        retrieve_seconds=program.seconds if is_hit else None,
    )


def _argument(data: object) -> Argument:
    name, kind, donated, sharding, *_ = [*_items(data), "", "", False, ""]
    return Argument(str(name), str(kind), bool(donated), str(sharding))


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: object) -> tuple[str, ...]:
    return tuple(map(str, _items(value)))


def _strings_by_name(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
