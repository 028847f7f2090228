"""Opens executables with the installed jaxlib: a program of its own, since what it opens may crash it.

`jcache.verify.load_check` runs it and talks to it in lines of JSON. First it says who opens the entries:

    {"jaxlib": str}

and then, for each path (a string) read from stdin, what became of that entry:

    {"result": "loads" | "refused" | "elsewhere" | "gone", "evidence": str}

It ends with exit code 0 when stdin does. It compiles nothing, runs no executable and touches no cache: an executable is
deserialized as JAX does it on a hit, for the very devices that it was compiled for, and dropped. Another number of
devices is not refused by XLA (jax 0.10.2, 0.12) but ends the process, so they are looked up in the entry first.

Runs with any jax from 0.4.31 to 0.12, on Python 3.11 or later, whether or not jcache is installed for that Python.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_MAX_CONTENT_BYTES: Final = 64 << 20  # bytes, which no ratio is held against
_MAX_RATIO: Final = 100
_MAX_REASON_CHARS: Final = 300  # characters of an error's first line
_FAULTS_OF_THE_MACHINE: Final = (  # in what jaxlib says of executables that are whole
    "RESOURCE_EXHAUSTED",  # memory of the accelerator, which somebody else has
    "No FFI handler registered",  # by a library that the program imports, and nobody here
    "Target arch mismatch",  # a CPU of another architecture
)

Answer = tuple[str, str]


class _CannotLoadHere(Exception):
    """What this machine, or this process, has not."""


def main() -> None:
    """Answer every line of stdin."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as replies:
        os.dup2(2, 1)  # what libraries print goes to stderr
        _stay_small()
        clients, problem = _clients()
        from jaxlib import version

        # only now: of the environment that jcache is in, nothing else may be found in place of this one's
        sys.path.append(sys.argv[2])
        import jcache.formats.inspection  # noqa: F401  to fail before the first answer, if at all

        print(json.dumps({"jaxlib": version.__version__}), file=replies, flush=True)
        for line in sys.stdin:
            signal.alarm(int(sys.argv[1]))  # for when nobody is left to end this process
            result, evidence = _open(json.loads(line), clients, problem)
            signal.alarm(0)
            print(json.dumps({"result": result, "evidence": evidence}), file=replies, flush=True)
    os._exit(0)  # not through JAX's own end, which may fail for reasons of its own


def _stay_small() -> None:
    """Leave no core files, go first when memory is short, and let Ctrl-C be the parent's business."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _clients() -> tuple[dict[str, Any], str | None]:
    """JAX's client for each platform, the default one first, and why there is none."""
    from jax._src.xla_bridge import backends

    try:
        return dict(sorted(backends().items(), key=lambda item: item[0] == "cpu")), None
    except RuntimeError as error:
        return {}, _first_line(error)


def _devices(client: Any) -> dict[int, Any]:  # noqa: ANN401  (its class has another name in each version)
    return {device.id: device for device in client.local_devices()}


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:_MAX_REASON_CHARS]}" if lines else type(error).__name__


def _open(path: str, clients: dict[str, Any], problem: str | None) -> Answer:
    """What becomes of an entry."""
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
    except Exception as error:  # noqa: BLE001  (whatever jaxlib says no with)
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
    _deserialize(client, content, _compiled_for(content, platform, _devices(client)))


def _is_plausible(data: bytes) -> bool:
    """Whether an entry holds no more than a program does; what is damaged otherwise is for others to tell."""
    import zlib

    limit = max(_MAX_CONTENT_BYTES, _MAX_RATIO * len(data))
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
    """Opens a file so that its access time stays, where that is allowed: this is no use of it."""
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        return os.open(path, flags)


def _compiled_for(content: bytes, platform: str, here: dict[int, Any]) -> tuple[Any, ...]:
    """The devices that an executable was compiled for; the first one where damage hides them, as it is for most."""
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
    """The ids of the devices, replica by replica, from the compile options in an entry.

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
