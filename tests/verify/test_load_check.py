"""Opening executables with the JAX that is installed, and surviving those that it does not survive."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jcache import clock
from jcache.findings import Damage
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.jax_internals import child
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.checks import Claim
from jcache.verify.load_check import LoadOutcome, LoadResult, NoJax, check_loading, try_loading
from tests.helpers.entries import add, digits, key
from tests.helpers.jax_entries import (
    JaxEntries,
    cpu_entries_fixture as cpu_entries_fixture,
    h200_entry,
)
from tests.helpers.waiting import until

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


@pytest.mark.full
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


KIND = Kind.EXECUTABLES


def claims(*keys: str) -> list[Claim]:
    return [Claim(KIND, a_key) for a_key in keys]


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_what_loads_here(plain: Root, cpu_entries: JaxEntries) -> None:
    """This machine's executables load; a GPU's cannot load here, which is no damage; a changed one is not
    called sound.
    """
    step, other = cpu_entries.path("jit_named_step"), f"jit_stage-{digits(1)}"
    mine = step.name.removesuffix("-cache")
    add(plain.path, mine, step.read_bytes())
    add(plain.path, other, h200_entry("jit_stage"))
    content = unpack_executable(step.read_bytes()).payload
    add(
        plain.path, key(3), pack_executable(content[: len(content) // 2], 1, unpack_executable(step.read_bytes()).codec)
    )
    seen: list[Path] = []

    def watch(paths: object) -> list[Path]:
        seen.extend(paths)  # type: ignore[arg-type]
        return seen

    with Store(plain) as store:
        loads = check_loading(store, claims(mine, other, key(3), key(4)), progress=watch)
    assert loads.results[mine].outcome is LoadOutcome.LOADS
    assert loads.results[other].outcome is LoadOutcome.ELSEWHERE and loads.results[other].evidence
    assert loads.results[key(3)].outcome is not LoadOutcome.LOADS
    assert loads.count(LoadOutcome.LOADS) == 1 and key(4) not in loads.results
    assert [path.name for path in seen] == [f"{a_key}-cache" for a_key in (mine, other, key(3))]


@pytest.mark.parametrize(
    ("loading", "writer", "damage"),
    [
        (LoadOutcome.LOADS, "0.9", None),
        (LoadOutcome.ELSEWHERE, "0.9", None),
        (LoadOutcome.REFUSED, "0.9", Damage.REFUSED),
        (LoadOutcome.REFUSED, "0.8", None),
        (LoadOutcome.REFUSED, None, None),
        (LoadOutcome.CRASHED, None, Damage.CRASHES),
        (LoadOutcome.CRASHED, "0.8", Damage.CRASHES),
        (LoadOutcome.TIMED_OUT, None, Damage.HANGS),
    ],
)
def test_what_is_damage(
    plain: Root, monkeypatch: pytest.MonkeyPatch, loading: LoadOutcome, writer: str | None, damage: Damage | None
) -> None:
    """Entries that crash or hang are damaged; refused ones only if the same version of jaxlib wrote them."""
    path = add(plain.path, key(1), b"x")
    answer = LoadResult(path, loading, "its words", "0.9")
    monkeypatch.setattr("jcache.verify.load_check.try_loading", lambda paths, python, progress: [answer])
    with Store(plain) as store:
        store.ledger.record([Known(KIND, key(1), jaxlib=writer)])
        loads = check_loading(store, claims(key(1)))
    assert [finding.damage for finding in loads.findings] == ([] if damage is None else [damage])
    if loading is LoadOutcome.REFUSED and damage is None:
        assert loads.results[key(1)].outcome is LoadOutcome.ELSEWHERE
    for finding in loads.findings:
        assert finding.stamp is not None and finding.path == path and "its words" in finding.evidence


def test_only_executables_are_opened(plain: Root) -> None:
    """Traces and graphs are passed over; without any other no process is started."""
    add(plain.directory(Kind.TRACES), key(1), b"x")
    others = [Claim(Kind.TRACES, key(1)), Claim(KIND, key(3))]
    before = sys.modules.get("jax")
    with Store(plain) as store:
        assert check_loading(store, others).results == {}
    assert sys.modules.get("jax") is before
