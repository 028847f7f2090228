"""Opening executables with the JAX that is installed, and surviving those that it does not survive."""

import itertools
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from jcache import clock
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.jax_internals import child
from jcache.verify.load_check import LoadOutcome, LoadResult, NoJax, try_loading
from tests.helpers.entries import tree
from tests.helpers.jax_entries import H200, JaxEntries, cpu_entries_fixture as cpu_entries_fixture, entries_of
from tests.helpers.waiting import until

SEVERAL_DEVICES = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

def on_four(x): return x.sum(), x * 2
def on_two(x): return x.sum(), x * 3
def root(x): return jnp.linalg.cholesky(x)
def spread(*devices):
    return jax.device_put(np.arange(8.0), NamedSharding(Mesh(np.array(devices), "a"), PartitionSpec("a")))
jax.jit(on_four)(spread(*jax.devices()))
jax.jit(on_two)(spread(jax.devices()[2], jax.devices()[1]))
jax.jit(root)(np.eye(3, dtype=np.float32))
"""

# Speaks the loader's language without JAX, and does what the names of the entries tell it to.
PRETENDER = f"""#!{sys.executable}
import json, os, signal, sys
with open(os.environ["PIDS"], "a") as pids:
    print(os.getpid(), file=pids)
print(json.dumps({{"jaxlib": "0.0"}}), flush=True)
poisoned = False
for line in sys.stdin:
    name = os.path.basename(json.loads(line))
    if "crash" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "exit" in name:
        sys.exit(3)
    while "hang" in name:
        print("not an answer", file=sys.stderr)
    if "babble" in name:
        print('{{"result": "no", "evidence": ""}}', flush=True)
    poisoned = poisoned or "poison" in name
    print(json.dumps({{"result": "loads", "evidence": ""}}), flush=True)
if poisoned:
    os.abort()
"""


@pytest.fixture(scope="session")
def several_devices(tmp_path_factory: pytest.TempPathFactory) -> JaxEntries:
    """Entries for four devices, for the devices 2 and 1, and one that calls LAPACK."""
    return entries_of(SEVERAL_DEVICES, tmp_path_factory.mktemp("devices") / "several_devices.py")


@pytest.fixture
def pretender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make an interpreter that crashes and hangs on request, and check that none of its processes is left."""
    path = tmp_path / "pretender"
    path.write_text(PRETENDER)
    path.chmod(0o755)
    pids = tmp_path / "pids"
    monkeypatch.setenv("PIDS", str(pids))
    yield str(path)
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):  # which a zombie would not raise
            os.kill(int(pid), 0)


@pytest.fixture(autouse=True)
def plain_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX on the CPU, with one device."""
    for name in [name for name in os.environ if name.startswith(("JAX_", "XLA_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*-cache"))


def changed(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    """An entry whose executable has other bytes in some place."""
    entry = unpack_executable(source.read_bytes())
    assert old in entry.payload and len(old) == len(new)
    target.write_bytes(pack_executable(entry.payload.replace(old, new), entry.seconds, entry.codec))
    return target


def verdicts(loaded: Iterable[LoadResult]) -> dict[str, LoadOutcome]:
    return {one.path.name: one.outcome for one in loaded}


@pytest.mark.smoke
@pytest.mark.jax
def test_what_this_jax_wrote_loads(cpu_entries: JaxEntries) -> None:
    """Every entry of the installed JAX loads, and the results are in the order of the entries."""
    paths = entries(cpu_entries.directory)[::-1]
    found = list(try_loading(paths))
    assert [one.path for one in found] == paths
    assert {(one.outcome, one.evidence, one.jaxlib) for one in found} == {(LoadOutcome.LOADS, "", version("jaxlib"))}


@pytest.mark.jax
def test_nothing_is_touched(cpu_entries: JaxEntries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the entries nor the user's cache directory change, and the working directory stays clean."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = tree(cpu_entries.directory)
    assert set(verdicts(try_loading(entries(cpu_entries.directory))).values()) == {LoadOutcome.LOADS}
    assert tree(cpu_entries.directory) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.jax
def test_entries_of_a_gpu_are_for_elsewhere() -> None:
    """An entry of a platform that is not here is no damaged one."""
    found = list(try_loading(entries(H200)))
    assert [one.outcome for one in found] == [LoadOutcome.ELSEWHERE] * 3
    assert {one.evidence for one in found} == {"it is for cuda, and JAX has cpu here"}


@pytest.mark.jax
def test_several_devices(several_devices: JaxEntries, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable for several devices loads if there are enough devices; otherwise its outcome is ELSEWHERE."""
    paths = [several_devices.path("jit_on_four"), several_devices.path("jit_on_two")]
    assert [(one.outcome, one.evidence) for one in try_loading(paths)] == [
        (LoadOutcome.ELSEWHERE, "it needs cpu devices 1, 2, 3, which are not here"),
        (LoadOutcome.ELSEWHERE, "it needs cpu devices 2, 1, which are not here"),
    ]
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    assert {one.outcome for one in try_loading(paths)} == {LoadOutcome.LOADS}


@pytest.mark.jax
def test_the_users_platforms_count(cpu_entries: JaxEntries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executables for the CPU load whatever JAX_PLATFORMS says; if a platform fails, that is the reason why
    none loads.
    """
    path = cpu_entries.path("jit_odd_types")
    monkeypatch.setenv("JAX_PLATFORMS", "nonesuch")
    (found,) = try_loading([path])
    assert found.outcome is LoadOutcome.ELSEWHERE
    assert "JAX has no device here: RuntimeError: Unable to initialize backend 'nonesuch'" in found.evidence
    monkeypatch.delenv("JAX_PLATFORMS")
    assert verdicts(try_loading([path])) == {path.name: LoadOutcome.LOADS}


@pytest.mark.jax
@pytest.mark.skipif(version("jaxlib").startswith("0.4."), reason="looks for handlers when the executable runs")
def test_what_a_program_would_have_registered(several_devices: JaxEntries, tmp_path: Path) -> None:
    """An executable that calls a target of the program's own libraries is undamaged, but cannot load here."""
    path = several_devices.path("jit_root")
    assert verdicts(try_loading([path])) == {path.name: LoadOutcome.LOADS}
    (found,) = try_loading([changed(path, tmp_path / "x-cache", b"lapack_spotrf_ffi", b"mypack_spotrf_ffi")])
    assert found.outcome is LoadOutcome.ELSEWHERE
    assert "No FFI handler registered for mypack_spotrf_ffi" in found.evidence


@pytest.mark.jax
def test_refusals_have_a_reason(cpu_entries: JaxEntries, tmp_path: Path) -> None:
    """Refusals of the codec or of jaxlib are reported with their message; unreadable entries are ELSEWHERE."""
    good = cpu_entries.path("jit_named_step")
    entry = unpack_executable(good.read_bytes())
    torn, cut, hidden, gone, zlib = (tmp_path / name for name in ("torn", "cut", "hidden", "gone", "zlib"))
    torn.write_bytes(good.read_bytes()[:-100])
    cut.write_bytes(pack_executable(entry.payload[:-100], entry.seconds, entry.codec))
    hidden.mkdir()
    zlib.write_bytes(pack_executable(entry.payload, entry.seconds, Codec.ZLIB))
    found = list(try_loading([torn, gone, cut, hidden, zlib]))
    refused = {"torn": LoadOutcome.REFUSED, "cut": LoadOutcome.REFUSED}
    assert verdicts(found) == refused | {"hidden": LoadOutcome.ELSEWHERE, "zlib": LoadOutcome.LOADS}
    assert found[0].evidence.startswith("DamagedEntry: A zstd frame cannot be read")
    assert re.match(r"\w+RuntimeError: [A-Z_]+: ", found[1].evidence)
    assert found[2].evidence == "it cannot be read: Is a directory"


@pytest.mark.jax
def test_flipped_bits_reach_xla_and_nothing_else(
    cpu_entries: JaxEntries, tmp_path: Path, chance: random.Random
) -> None:
    """Whatever a flipped bit in an executable does to jaxlib, each entry gets a result, and this process survives."""
    for number in range(40):
        entry = unpack_executable(chance.choice(entries(cpu_entries.directory)).read_bytes())
        payload = bytearray(entry.payload)
        payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
        (tmp_path / f"{number:02}-cache").write_bytes(pack_executable(bytes(payload), entry.seconds, entry.codec))
    found = list(try_loading(entries(tmp_path), time_limit_s=20.0))
    assert sorted(one.path for one in found) == entries(tmp_path)
    assert all(one.evidence or one.outcome is LoadOutcome.LOADS for one in found)


@pytest.mark.jax
def test_crashing_entries_are_found_among_good_ones(cpu_entries: JaxEntries, tmp_path: Path) -> None:
    """LLVM ends the process over a malformed data layout: exactly the entries that have one are to blame."""
    source = cpu_entries.path("jit_named_step")
    layout = re.search(rb"e-m:[eo]-", unpack_executable(source.read_bytes()).payload)
    if layout is None:
        pytest.skip("executables of this jaxlib do not name their data layout")
    expected = {}
    for number in range(12):
        path = tmp_path / f"{number:02}-cache"
        bad = number in {3, 4, 9}
        changed(source, path, layout.group(), layout.group().replace(b":", b"8" if bad else b":"))
        expected[path.name] = LoadOutcome.CRASHED if bad else LoadOutcome.LOADS
    found = list(try_loading(entries(tmp_path)))
    assert verdicts(found) == expected
    assert {one.evidence for one in found if one.outcome is LoadOutcome.CRASHED} == {"SIGABRT"}


def test_only_those_to_blame_are_blamed(pretender: str) -> None:
    """Only entries that end their process when they are alone have crashed, at once, at an exit or at the
    batch's end.
    """
    bad = {7: "crash", 8: "exit", 20: "poison", 21: "poison", 70: "poison", 71: "crash", 99: "crash", 200: "babble"}
    paths = [Path(f"{number:03}-{bad.get(number, 'good')}") for number in range(250)]
    found = {one.path: one for one in try_loading(paths, python=pretender, batch=16)}
    assert found.keys() == set(paths)
    blamed = {path: one.evidence for path, one in found.items() if one.outcome is not LoadOutcome.LOADS}
    assert blamed.keys() == {paths[number] for number in bad}
    assert (blamed[paths[7]], blamed[paths[8]], blamed[paths[20]]) == ("SIGSEGV", "exit code 3", "SIGABRT")
    assert {found[path].outcome for path in blamed} == {LoadOutcome.CRASHED}


def test_a_hanging_entry_is_given_up(pretender: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit is one entry's, and the others of its batch are still opened."""
    seconds = itertools.count()  # as if each look at what it says, of which those that hang say much, took one
    monkeypatch.setattr(clock, "monotonic", lambda: float(next(seconds)))
    paths = [Path(name) for name in ("a", "b-hang", "c", "d-hang", "e")]
    found = list(try_loading(paths, python=pretender, time_limit_s=200))
    assert verdicts(found) == {
        path.name: LoadOutcome.TIMED_OUT if "hang" in path.name else LoadOutcome.LOADS for path in paths
    }
    assert {one.evidence for one in found if one.outcome is LoadOutcome.TIMED_OUT} == {"no answer within 200 s"}


@pytest.mark.jax
def test_a_hang_in_the_real_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that does not answer, like a pipe without a writer, is given up as well."""
    path, limit, writers = tmp_path / "x-cache", 7200.0, []
    os.mkfifo(path)

    def opened() -> bool:
        with suppress(OSError):  # nobody reads it
            writers.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    def asked(process: child.Child, *question: Any) -> list[str]:
        """Asks, and lets the limit pass when it has opened the pipe."""
        moments = iter([1.0])
        monkeypatch.setattr(clock, "monotonic", lambda: next(moments, None) or (until(opened) and 2 * limit))
        return ask(process, *question)

    ask = child.Child.ask
    monkeypatch.setattr(child.Child, "ask", asked)
    try:
        assert verdicts(try_loading([path], time_limit_s=limit)) == {path.name: LoadOutcome.TIMED_OUT}
    finally:
        for writer in writers:
            os.close(writer)


def test_progress_and_interruption(pretender: str) -> None:
    """Progress counts every entry, and Ctrl-C in the middle of a batch leaves no process behind."""
    seen: list[Path] = []

    def interrupted(paths: Sequence[Path]) -> Iterator[Path]:
        for path in paths:
            seen.append(path)
            if len(seen) == 3:
                raise KeyboardInterrupt
            yield path

    paths = [Path(str(number)) for number in range(5)]
    with pytest.raises(KeyboardInterrupt):
        list(try_loading(paths, python=pretender, progress=interrupted))
    assert seen == paths[:3]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "No such file or directory"),
        (f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', "ModuleNotFoundError: No module named 'jax'"),
        ("#!/bin/sh\n", "exit code 0"),
        ("#!/bin/sh\necho hello\n", "its answer is malformed"),
        ("#!/bin/sh\nkill -9 $$\n", "SIGKILL"),
    ],
)
def test_no_jax(tmp_path: Path, script: str | None, reason: str) -> None:
    """Without JAX, one sentence names the interpreter, the reason and the next command."""
    python = tmp_path / "python"
    if script is not None:
        python.write_text(script)
        python.chmod(0o755)
    with pytest.raises(NoJax) as caught:
        list(try_loading([tmp_path / "x-cache"], python=str(python)))
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        f"{python} cannot open executables with JAX ({reason}): "
        f"install it with '{python} -m pip install jax', or name an interpreter that has it by JCACHE_PYTHON."
    )


def test_jax_stays_out_of_this_process() -> None:
    """The module imports neither JAX nor numpy, and starts no process without entries."""
    code = "import sys; from jcache.verify.load_check import try_loading; loads = [*try_loading([], python='-')]\n"
    code += "print({'jax', 'jaxlib', 'numpy'} & {*sys.modules}, loads)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() []\n"
