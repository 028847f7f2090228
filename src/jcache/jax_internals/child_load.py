"""Load executables with the installed jaxlib: a separate program, since an executable may crash it.

`jcache.verify.load_check` runs it and talks to it in lines of JSON. First it prints the version of jaxlib:

    {"jaxlib": str}

and then, for each path (a string) from stdin, the result for that entry:

    {"result": "loads" | "refused" | "elsewhere" | "gone", "evidence": str}

It ends with exit code 0 when stdin does. It compiles nothing, runs no executable and touches no cache: it deserializes
an executable as JAX does on a hit, for the devices that it was compiled for, and drops it. XLA (jax 0.10.2, 0.12) does
not refuse another number of devices but ends the process, so they are looked up in the entry first.

It runs with any jax from 0.4.31 to 0.12, on Python 3.11 or later, whether or not jcache is installed for that Python.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_ANY_RATIO_BYTES: Final = 64 << 20  # up to this size, content may have any ratio to the stored bytes
_MAX_RATIO: Final = 100
_MAX_REASON_CHARS: Final = 300
_FAULTS_OF_THE_MACHINE: Final = (  # in jaxlib's errors about undamaged executables
    "RESOURCE_EXHAUSTED",  # another process has the accelerator's memory
    "No FFI handler registered",  # the program imports a library that registers it
    "Target arch mismatch",  # the executable is for a CPU of another architecture
)

Answer = tuple[str, str]


class _CannotLoadHere(Exception):
    """An executable needs something that this machine, or this process, lacks."""


def main() -> None:
    """Answer every line of stdin."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as replies:
        os.dup2(2, 1)  # output of libraries goes to stderr
        _stay_small()
        clients, problem = _clients()
        from jaxlib import version

        # last, so that no other package of jcache's environment takes the place of one of this environment
        sys.path.append(sys.argv[2])
        import jcache.formats.inspection  # noqa: F401  so that a failure comes before the first answer

        print(json.dumps({"jaxlib": version.__version__}), file=replies, flush=True)
        for line in sys.stdin:
            signal.alarm(int(sys.argv[1]))  # ends this process where its parent was killed
            result, evidence = _open(json.loads(line), clients, problem)
            signal.alarm(0)
            print(json.dumps({"result": result, "evidence": evidence}), file=replies, flush=True)
    os._exit(0)  # without JAX's own exit handlers, which may fail


def _stay_small() -> None:
    """Leave no core files, be the first to go when memory is short, and leave Ctrl-C to the parent."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _clients() -> tuple[dict[str, Any], str | None]:
    """Return JAX's client for each platform, the default one first, and the reason if there is none."""
    from jax._src.xla_bridge import backends

    try:
        return dict(sorted(backends().items(), key=lambda item: item[0] == "cpu")), None
    except RuntimeError as error:
        return {}, _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:_MAX_REASON_CHARS]}" if lines else type(error).__name__


def _open(path: str, clients: dict[str, Any], problem: str | None) -> Answer:
    """Load an entry and return the result and the evidence."""
    try:
        _load(Path(path), clients, problem)
    except FileNotFoundError:
        return "gone", ""
    except OSError as error:
        return "elsewhere", f"it cannot be read: {error.strerror}"
    except _CannotLoadHere as error:
        return "elsewhere", str(error)
    except (MemoryError, ImportError) as error:  # zstandard, say
        return "elsewhere", _first_line(error)
    except Exception as error:  # noqa: BLE001  (jaxlib raises various errors)
        text = _first_line(error)
        return ("elsewhere" if any(words in text for words in _FAULTS_OF_THE_MACHINE) else "refused"), text
    return "loads", ""


def _load(path: Path, clients: dict[str, Any], problem: str | None) -> None:
    from jcache.formats.executable import unpack_executable
    from jcache.formats.inspection import inspect

    with open(path, "rb", opener=_open_to_look) as file:
        data = file.read()
    if not _is_plausible(data):
        raise _CannotLoadHere(f"it holds over {_MAX_RATIO} times its bytes, as if it were made to fill a memory")
    inspection = inspect(data)
    if not clients:
        raise _CannotLoadHere(f"JAX has no device here: {problem}")
    platform = inspection.platform or next(iter(clients))
    if platform not in clients:
        raise _CannotLoadHere(f"it is for {platform}, and JAX has {' and '.join(clients)} here")
    content = unpack_executable(data).payload
    del data
    client = clients[platform]
    here = {device.id: device for device in client.local_devices()}
    _deserialize(client, content, _compiled_for(content, platform, here))


def _is_plausible(data: bytes) -> bool:
    """Return whether the size of an entry's content is that of a program; other damage is not looked for here."""
    import zlib

    limit = max(_ANY_RATIO_BYTES, _MAX_RATIO * len(data))
    if data[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard

        try:
            return bool(zstandard.frame_content_size(data) <= limit)
        except zstandard.ZstdError:
            return True
    stream, seen, rest = zlib.decompressobj(), 0, data
    try:
        while rest and seen <= limit:
            seen += len(stream.decompress(rest, 1 << 20))
            rest = stream.unconsumed_tail
    except zlib.error:
        return True
    return seen <= limit


def _open_to_look(path: str, flags: int) -> int:
    """Open a file so that its access time stays, where that is allowed: a check is no use of the entry."""
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        return os.open(path, flags)


def _compiled_for(content: bytes, platform: str, here: dict[int, Any]) -> tuple[Any, ...]:
    """Return the devices that an executable was compiled for; the first device where damage hides them."""
    from jcache.errors import DamagedEntry

    try:
        wanted = _assignment(content)
    except DamagedEntry:
        wanted = []
    if missing := [number for number in wanted if number not in here]:
        one = len(missing) == 1
        raise _CannotLoadHere(
            f"it needs {platform} {'device' if one else 'devices'} {', '.join(map(str, missing[:8]))}"
            f"{', …' if len(missing) > 8 else ''}, which {'is' if one else 'are'} not here"
        )
    return tuple(here[number] for number in wanted) or (next(iter(here.values())),)


def _assignment(content: bytes) -> list[int]:
    """Return the ids of the devices, replica by replica, from the compile options in an entry.

    CompileOptionsProto {3 ExecutableBuildOptionsProto {9 DeviceAssignmentProto {3 computations {1 ids by replica}}}}
    """
    from jcache.formats.inspection import open_message, split_metadata

    opened = open_message(split_metadata(memoryview(content))[1])
    assignment = opened and opened[0].message(2, 3, 9)
    computations = [c.varints(1) for c in assignment.messages(3)] if assignment else []
    return [number for replica in zip(*computations, strict=False) for number in replica]


def _deserialize(client: Any, content: bytes, devices: tuple[Any, ...]) -> None:  # noqa: ANN401
    try:
        client.deserialize_executable(content, devices)  # with the options that are in it
    except TypeError:  # before jax 0.6.1 the devices are in the options alone
        client.deserialize_executable(content)


if __name__ == "__main__":
    main()
