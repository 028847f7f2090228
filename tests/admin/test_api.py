"""`jcache.info`, `jcache.clear` and `jcache.prune`: what the commands do and print, as frozen values and errors."""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.admin.api import clear, info, prune
from jcache.admin.census import Census
from jcache.admin.removal import PruneLimits
from jcache.errors import CannotWrite, InvalidValue, JcacheError, LedgerUnavailable, Locked, NoCacheHere, OutOfReach
from jcache.formats.envelope import seal
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.lookup import find_pins
from jcache.store.order import Order
from jcache.store.policy import Policy, Reason, reasons
from jcache.store.removal import Removed
from jcache.store.roots import InUse, put_in_use
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.command_line import call
from tests.helpers.entries import DAY, HOLD_LOCK, SECOND, add, executable, files_of, key, process, tree, unread

START = time.time_ns()
TRACE, PINNED, LEGACY = key(90, "trace"), key(3), key(80)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No root is in use, and the environment names only one that does not exist."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_MAX_SIZE", "JCACHE_LOCK_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JCACHE_DIR", str(tmp_path / "nothing"))
    yield
    put_in_use(None)


def fill(root: Root) -> Root:
    """Make ten executables, where the n-th was unused for n days, every other one has a sidecar and one is pinned; and
    a trace, a legacy entry, XLA's kernels and a foreign file.
    """
    directory = root.directory(Kind.EXECUTABLES)
    for n in range(10):
        used_ns = START - n * DAY - SECOND
        add(directory, key(n), executable(n), used_ns=used_ns if n % 2 else None, written_ns=used_ns)
    sealed = seal(b"trace" * 99, kind=Kind.TRACES, name="trace", key=TRACE, build_seconds=1.0, created_ns=1)
    add(root.directory(Kind.TRACES), TRACE, sealed, used_ns=START - DAY, written_ns=START - DAY)
    (directory / LEGACY).write_bytes(executable(8))
    (directory / "xla_gpu_kernel_cache_file").write_bytes(b"kernels")
    (directory / "notes.txt").write_text("mine")
    with Store(root) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, PINNED, pinned_ns=START)])
    return root


@pytest.fixture(params=["native", "plain"])
def root(request: pytest.FixtureRequest, native: Root, plain: Root) -> Root:
    """Return the root of `fill`, with jcache's layout or with JAX's."""
    return fill(native if request.param == "native" else plain)


def numbers(root: Root) -> set[int]:
    """Return the numbers of those of the ten executables that still exist."""
    left = files_of(root.directory(Kind.EXECUTABLES))
    return {n for n in range(10) if key(n) in left}


def assert_sound(root: Root) -> None:
    """Assert that `verify` finds nothing, and that foreign files still exist."""
    with Store(root) as store:
        assert verify(store, VerifyRequest()).findings == []
    assert (root.directory(Kind.EXECUTABLES) / "notes.txt").read_text() == "mine"


def printed(*arguments: str | Path) -> Any:
    """Return the JSON that a command prints."""
    result = call([sys.executable, "-m", "jcache", *map(str, arguments), "--json"])
    assert result.code == 0, result.err
    return json.loads(result.out)


def as_printed(done: Removed) -> dict[str, Any]:
    """A removal in the words of `prune --json`."""
    return {
        "schema_version": 2,
        "root": str(done.root.path),
        "dry_run": done.dry_run,
        "removed": [
            {"key": e.key, "kind": e.kind.value, "bytes": e.bytes, "reason": reason.name.lower(), "trace": None}
            for e, reason in done.removed
        ],
        "removed_entries": len(done.removed),
        "freed_bytes": done.freed_bytes,
        "xla_bytes": done.xla_bytes,
        "kept": {r.name.lower(): {"entries": n, "bytes": size} for r, (n, size) in reasons(done.kept).items()},
        "kept_entries": len(done.kept),
        "kept_pinned": [{"key": e.key, "kind": e.kind.value} for e, r in done.kept if r is Reason.PINNED],
        "kept_for_traces": [],
        "failed": [],
        "sidecars_made": done.sidecars_made,
    }


# -- info


def test_info_is_what_the_command_prints(root: Root) -> None:
    """Every number, name and sentence of `jcache info --json` is in the value, and the other way round."""
    census, shown = info(root.path), printed("info", "--root", root.path)
    assert shown["root"] == str(census.root.path) and (shown["layout"] == "jax") is census.root.plain
    assert {kind: (n["entries"], n["bytes"], n["pinned"]) for kind, n in shown["kinds"].items()} == {
        kind.value: (n.entries, n.bytes, n.pinned) for kind, n in census.kinds.items()
    }
    assert {name: (g["files"], g["bytes"], tuple(g["names"])) for name, g in shown["neighbours"].items()} == {
        name: (group.files, group.bytes, group.names) for name, group in census.neighbours.items()
    }
    assert (shown["total_bytes"], shown["health"]) == (census.total_bytes, census.health)
    assert census.kinds[Kind.EXECUTABLES].entries == 10 and census.kinds[Kind.EXECUTABLES].pinned == 1
    assert census.notices == ()


def test_the_root_in_use_is_the_one_meant(native: Root, plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument, functions use the root that is in use in this process; if there is none, that of the
    environment.
    """
    for n, root in enumerate((native, plain), 1):
        for i in range(n):
            add(root.directory(Kind.EXECUTABLES), key(i), executable())
    monkeypatch.setenv("JCACHE_DIR", str(native.path))
    assert info().root == native
    put_in_use(InUse(plain))
    assert info().root == plain and info(native.path).root == native
    assert len(prune(max_size=0, dry_run=True).removed) == 2 and len(clear(dry_run=True).removed) == 2
    put_in_use(None)
    assert info().root == native and len(clear(dry_run=True).removed) == 1


def test_a_root_in_use_may_be_empty(plain: Root) -> None:
    """A plain directory in use is a root before its first entry, and none any more once it is gone."""
    put_in_use(InUse(plain))
    assert info().kinds[Kind.EXECUTABLES].entries == 0 and clear().removed == ()
    shutil.rmtree(plain.path)
    for call_it in (info, clear, lambda: prune(legacy=True)):
        with pytest.raises(NoCacheHere, match="There is no cache at"):
            call_it()


def test_a_root_is_named_as_elsewhere(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root can be a text or a path, relative to the home directory, or its `executables` directory, as for
    commands.
    """
    monkeypatch.setenv("HOME", str(native.path.parent))
    for name in (native.path, str(native.path), "~/native", native.path / "executables"):
        assert info(name).root == native


# -- values


def is_frozen(value: object) -> bool:
    """Return whether a value is immutable at any depth."""
    if isinstance(value, str | int | float | bool | None | Enum | Path):
        return True
    if isinstance(value, Mapping):
        return not hasattr(value, "__setitem__") and all(is_frozen(v) for pair in value.items() for v in pair)
    if isinstance(value, tuple):
        return all(map(is_frozen, value))
    assert not isinstance(value, type) and not hasattr(value, "__dict__")
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else ["name"]
    for name in names:
        with pytest.raises(AttributeError):
            setattr(value, name, None)
    return all(is_frozen(getattr(value, name)) for name in names)


def test_values_are_frozen_all_through(root: Root) -> None:
    """No attribute, item or table of a returned value can be changed."""
    values: list[Census | Removed] = [info(root.path), prune(root=root.path, keep_last=2), clear(root=root.path)]
    assert all(map(is_frozen, values))


# -- prune and clear

POLICIES: list[tuple[dict[str, Any], list[str]]] = [
    ({"max_size": 250}, ["--max-size", "250"]),
    ({"max_size": "0.2KB", "order": "cost"}, ["--max-size", "0.2KB", "--order", "cost"]),
    ({"max_entries": 4}, ["--max-entries", "4"]),
    ({"min_free": "1KiB", "max_entries": 3}, ["--min-free", "1KiB", "--max-entries", "3"]),
    ({"older_than": timedelta(days=5, hours=12)}, ["--older-than", "5.5d"]),
    ({"keep_last": 2}, ["--keep-last", "2"]),
    (
        {"max_size": 50, "keep_last": 3, "kinds": ["executables"]},
        ["--max-size", "50", "--keep-last", "3", "--kind", "executables"],
    ),
    ({"legacy": True, "xla": True}, ["--legacy", "--xla"]),
]


@pytest.mark.parametrize("dry_run", [False, True], ids=["for good", "dry run"])
@pytest.mark.parametrize(("asked", "options"), POLICIES, ids=str)
def test_prune_is_what_the_command_does(native: Root, asked: dict[str, Any], options: list[str], dry_run: bool) -> None:
    """The same policy does the same to the same root, and the value has all that `--json` prints."""
    root = fill(native)
    other = Path(shutil.copytree(root.path, root.path.parent / "other"))
    unread(root.path)
    shown = printed("prune", "--root", other, *options, *["--dry-run"] * dry_run)
    done = prune(root=root.path, **asked, dry_run=dry_run)
    assert as_printed(done) == shown | {"root": str(root.path)}
    assert (done.removed or done.xla_bytes) and done.failed == ()
    assert numbers(root) == numbers(Root(other, plain=False))
    assert_sound(root)


@pytest.mark.parametrize(
    ("asked", "words"),
    [({}, []), ({"kind": Kind.TRACES}, ["traces"]), ({"legacy": True, "xla": True}, ["--legacy", "--xla"])],
    ids=str,
)
def test_clear_is_what_the_command_does(native: Root, asked: dict[str, Any], words: list[str]) -> None:
    """The function removes the same entries as `jcache clear --yes`, and returns the value that the command prints."""
    root = fill(native)
    other = Path(shutil.copytree(root.path, root.path.parent / "other"))
    shown = printed("clear", *words, "--yes", "--root", other)
    done = clear(root=root.path, **asked)
    assert as_printed(done) == shown | {"root": str(root.path)} and done.removed
    assert not files_of(root.directory(Kind.TRACES))
    assert numbers(root) == ({3} if "kind" not in asked else set(range(10)))
    assert_sound(root)


def test_a_dry_run_changes_nothing_and_foretells(root: Root) -> None:
    """A dry run returns exactly the result of the real run; after the real run, another dry run removes nothing."""
    before = tree(root.path)
    foretold = prune(root=root.path, max_size=250, legacy=True, xla=True, dry_run=True)
    assert tree(root.path) == before
    done = prune(root=root.path, max_size=250, legacy=True, xla=True)
    assert dataclasses.replace(done, dry_run=True, sidecars_made=0) == foretold
    assert done.removed and done.sidecars_made > 0
    gone = before.keys() - tree(root.path).keys()
    assert sum(len(before[path][3]) for path in gone) == done.freed_bytes > done.xla_bytes == len(b"kernels")
    again = prune(root=root.path, max_size=250, legacy=True, xla=True)
    assert (again.removed, again.freed_bytes, again.sidecars_made) == ((), 0, 0)
    assert_sound(root)


def test_least_recently_used_go_first_and_pinned_stay(root: Root) -> None:
    """Over a bound, the least recently used entries go, each with the reason; a pinned entry stays however old
    it is.
    """
    done = prune(root=root.path, max_entries=3, kinds=Kind.EXECUTABLES)
    assert [entry.key for entry, _ in done.removed] == [key(n) for n in (9, 8, 7, 6, 5, 4, 2)]
    assert {reason for _, reason in done.removed} == {Reason.SPACE}
    assert numbers(root) == {0, 1, 3}
    assert [entry.key for entry, reason in done.kept if reason is Reason.PINNED] == [PINNED]
    assert_sound(root)


def test_of_no_kinds_nothing_goes(root: Root) -> None:
    """An empty choice of kinds is no choice of all of them."""
    before = tree(root.path)
    assert prune(root=root.path, max_size=0, kinds=[]).removed == () and tree(root.path) == before


def test_what_cannot_be_removed_is_in_the_value(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure names its entry and the reason; the other entries are removed, and freed bytes count only these."""
    real = os.unlink

    def refuse(path: Path, **more: Any) -> None:
        if key(5) in str(path):
            raise PermissionError(1, "Operation not permitted")
        real(path, **more)

    monkeypatch.setattr(os, "unlink", refuse)
    done = prune(root=root.path, older_than="4d")
    assert [(failure.entry.key, failure.reason) for failure in done.failed] == [(key(5), "Operation not permitted")]
    assert numbers(root) == {0, 1, 2, 3, 5} and len(done.removed) == 5
    assert done.freed_bytes == sum(entry.bytes + 8 * entry.sidecar for entry, _ in done.removed)
    assert_sound(root)


@pytest.mark.usefixtures("access_times_kept")
def test_what_was_gone_on_without_is_told(root: Root, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A directory of entries that is a link is not followed: a notice in the value says so, and nothing is printed."""
    shutil.move(root.directory(Kind.TRACES), tmp_path / "elsewhere")
    root.directory(Kind.TRACES).symlink_to(tmp_path / "elsewhere")
    for value in (info(root.path), prune(root=root.path, keep_last=1), clear(root=root.path)):
        (notice,) = value.notices
        assert "traces-v1 is a symbolic link" in notice
    assert files_of(tmp_path / "elsewhere") and capfd.readouterr() == ("", "")
    assert_sound(root)


# -- arguments


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        ({"max_size": "20GiB"}, Policy(max_bytes=20 << 30)),
        ({"max_size": 20 << 30}, Policy(max_bytes=20 << 30)),
        ({"max_size": 0, "min_free": 10**9}, Policy(max_bytes=0, min_free_bytes=10**9)),
        ({"older_than": "30d"}, Policy(max_age_ns=30 * DAY)),
        ({"older_than": timedelta(days=30)}, Policy(max_age_ns=30 * DAY)),
        ({"older_than": timedelta(microseconds=3)}, Policy(max_age_ns=3000)),
        ({"older_than": timedelta()}, Policy(max_age_ns=0)),
        ({"max_entries": 3, "keep_last": "2"}, Policy(max_entries=3, keep_last=2)),
        ({"legacy": True, "order": Order.COST}, Policy(legacy=True, order=Order.COST)),
        ({"order": "cost"}, Policy(order=Order.COST)),
    ],
    ids=str,
)
def test_texts_and_numbers_mean_the_same(asked: dict[str, Any], policy: Policy) -> None:
    """Sizes are bytes or texts, ages timedeltas or texts, numbers either, as programs and command lines have them."""
    assert PruneLimits(**asked).policy() == policy


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "prune needs to know what to remove"),
        ({"order": "cost", "kinds": ["traces"]}, "prune needs to know what to remove"),
        ({"max_size": "lots"}, "'lots' is not a size"),
        ({"max_size": -1}, "'-1' is not a size"),
        ({"min_free": True}, "'True' is not a size"),
        ({"max_entries": -1}, "'-1' is not a whole number: give --max-entries one"),
        ({"keep_last": 1.5}, "'1.5' is not a whole number: give --keep-last one"),
        ({"keep_last": True}, "'True' is not a whole number"),
        ({"older_than": "5m"}, "write 5min for minutes or 5mo for months"),
        ({"older_than": 30}, "'30' is not an age"),
        ({"older_than": timedelta(days=-1)}, "'-1 day, 0:00:00' is not an age"),
        ({"legacy": True, "order": "colour"}, "'colour' is not an order"),
        ({"legacy": True, "kinds": ["programs"]}, "'programs' is not a kind"),
        ({"legacy": True, "kinds": "programs"}, "'programs' is not a kind"),
        ({"legacy": True, "root": ""}, "is empty"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused(root: Root, asked: dict[str, Any], says: str) -> None:
    """A wrong argument raises an `InvalidValue` that names the error, before anything is changed."""
    before = tree(root.path)
    with pytest.raises(InvalidValue, match=says):
        prune(**({"root": root.path} | asked))
    assert tree(root.path) == before


def test_clear_refuses_an_unknown_kind(root: Root) -> None:
    """An unknown kind is refused, and nothing is removed."""
    with pytest.raises(InvalidValue, match="'programs' is not a kind: choose from executables, traces, graphs"):
        clear("programs", root=root.path)
    assert len(numbers(root)) == 10


# -- failures

EACH: list[Callable[[Path], object]] = [
    lambda path: prune(root=path, keep_last=0),
    lambda path: clear(root=path),
]


@pytest.mark.parametrize("act", [info, *EACH], ids=["info", "prune", "clear"])
def test_where_there_is_no_cache(tmp_path: Path, act: Callable[[Path], object]) -> None:
    """A missing path, a file or a foreign directory raises `NoCacheHere`, and nothing is created there."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("mine")
    before = tree(tmp_path)
    for name in ("missing", "file", "photos"):
        with pytest.raises(NoCacheHere, match=name):
            act(tmp_path / name)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("act", EACH, ids=["prune", "clear"])
def test_a_lock_that_is_held(root: Root, act: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """After `$JCACHE_LOCK_TIMEOUT`, a held lock raises `Locked` and removes nothing; once it is free, the call
    succeeds.
    """
    monkeypatch.setenv("JCACHE_LOCK_TIMEOUT", "0.2s")
    with process(HOLD_LOCK, root.directory(Kind.EXECUTABLES)), pytest.raises(Locked, match=r"for 0\.2 s"):
        act(root.path)
    assert len(numbers(root)) == 10
    act(root.path)
    assert numbers(root) == {3}
    assert_sound(root)


@pytest.mark.parametrize("act", EACH, ids=["prune", "clear"])
def test_a_root_that_cannot_be_locked(root: Root, act: Callable[[Path], object], beyond: Path) -> None:
    """A lock file that is a link, which might lead anywhere, is `CannotWrite`, and nothing is removed."""
    (root.directory(Kind.EXECUTABLES) / ".lockfile").symlink_to(beyond / "precious")
    with pytest.raises(CannotWrite, match="is a symbolic link, not a lock"):
        act(root.path)
    assert len(numbers(root)) == 10


@pytest.mark.parametrize("dry_run", [False, True])
def test_pins_that_cannot_be_known(root: Root, dry_run: bool) -> None:
    """With a damaged ledger, real and dry runs are refused and remove nothing; `info` still counts, and says so."""
    shutil.rmtree(root.pins)  # as in a root of an older jcache
    root.ledger.write_bytes(b"no database" * 1000)
    census = info(root.path)
    assert census.kinds[Kind.EXECUTABLES].entries == 10 and len(census.notices) == 1
    assert census.kinds[Kind.EXECUTABLES].pinned is None and not census.pins_known
    with pytest.raises(LedgerUnavailable):
        prune(root=root.path, max_size=0, dry_run=dry_run)
    assert len(numbers(root)) == 10


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_is_to_be_free_and_cannot_be(root: Root, dry_run: bool) -> None:
    """If even the removal of everything would not free enough, nothing is removed, and the message says how much could
    be.
    """
    before = tree(root.path)
    with pytest.raises(OutOfReach, match=r"100\.0 PiB cannot be reached.*Nothing was removed") as caught:
        prune(root=root.path, min_free="100PiB", older_than="1s", dry_run=dry_run)
    assert caught.value.exit_code == 3 and tree(root.path) == before


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("kinds", [None, ["executables"], ["traces"]], ids=str)
def test_a_bound_that_pins_do_not_allow(root: Root, dry_run: bool, kinds: list[str] | None) -> None:
    """The call is refused, and removes nothing, exactly if the pinned entries alone exceed the bound."""
    with Store(root) as store:
        store.pins.add([(Kind.EXECUTABLES, key(n)) for n in (3, 5)])
        sizes = [entry.bytes for entry in store.entries() if entry.pinned]
    before = tree(root.path)
    bounds: list[dict[str, Any]] = [{"max_size": sum(sizes) - 1}, {"max_entries": len(sizes) - 1}]
    for bound in bounds:
        if kinds == ["traces"]:  # which the pinned ones are not
            prune(root=root.path, kinds=kinds, dry_run=True, **bound)
            continue
        with pytest.raises(OutOfReach, match=r"cannot be reached: .*pinned.*`jcache unpin KEY --root ") as caught:
            prune(root=root.path, kinds=kinds, dry_run=dry_run, **bound)
        assert caught.value.exit_code == 3 and tree(root.path) == before
    if kinds != ["traces"]:
        prune(root=root.path, kinds=kinds, max_size=sum(sizes), max_entries=len(sizes))
        assert numbers(root) == {3, 5}


def test_what_xla_s_sub_caches_make_free_counts(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of XLA's sub-caches counts as space that can be freed if they are removed as well."""
    (root.directory(Kind.EXECUTABLES) / "xla_gpu_kernel_cache_file").write_bytes(bytes(1 << 22))
    usage = shutil.disk_usage(root.path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OutOfReach):
        prune(root=root.path, min_free="4MiB", dry_run=True)
    assert prune(root=root.path, min_free="4MiB", xla=True, dry_run=True).xla_bytes >= 1 << 22


def test_a_time_to_wait_that_cannot_be_read(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function refuses it by the variable's name, as every command does."""
    monkeypatch.setenv("JCACHE_LOCK_TIMEOUT", "soon")
    for act in (info, *EACH):
        with pytest.raises(JcacheError, match=r"^\$JCACHE_LOCK_TIMEOUT: 'soon' is not an age"):
            act(root.path)


STEPS = st.lists(
    st.tuples(st.sampled_from(["pin", "unpin", "by hand", "put", "size", "entries"]), st.integers(0, 5)), max_size=12
)


@given(STEPS)
@settings(max_examples=40)
def test_whatever_is_pinned_removed_and_bounded(steps: list[tuple[str, int]]) -> None:
    """A pinned entry stays, a bound is reached or refused, and then nothing is removed; any pin can be unpinned."""
    with tempfile.TemporaryDirectory() as place:
        root = Root(Path(place), plain=True)
        add(root.path, key(0), 100, used_ns=START)
        pinned: set[int] = set()
        for what, n in steps:
            there = {number for number in range(6) if (root.path / f"{key(number)}-cache").exists()}
            with Store(root) as store:
                if what == "pin" and n in there:
                    store.pins.add([(Kind.EXECUTABLES, key(n))])
                    pinned.add(n)
                elif what == "unpin":
                    store.pins.remove(found := find_pins(store, key(n)))
                    assert len(found) == (n in pinned)
                    pinned.discard(n)
                elif what == "put":
                    add(root.path, key(n), 100 + n, used_ns=START)
            if what == "by hand":
                (root.path / f"{key(n)}-cache").unlink(missing_ok=True)
            if what in ("size", "entries") and there:
                sizes = {number: 100 + number for number in there}
                sizes[0] = 100
                staying = sum(sizes[number] for number in pinned & there) if what == "size" else len(pinned & there)
                bound = 110 * n if what == "size" else n
                asked: dict[str, Any] = {f"max_{what}": bound}
                try:
                    prune(root=root.path, **asked)
                except OutOfReach:
                    assert staying > bound and numbers_in(root) == there
                else:
                    left = numbers_in(root)
                    assert staying <= bound and pinned & there <= left
                    assert (sum(sizes[number] for number in left) if what == "size" else len(left)) <= bound
            with Store(root) as store:
                assert store.pins.known() == {(Kind.EXECUTABLES, key(number)) for number in pinned}
            if numbers_in(root):
                assert info(root.path).kinds[Kind.EXECUTABLES].pinned == len(pinned & numbers_in(root))


def numbers_in(root: Root) -> set[int]:
    return {number for number in range(6) if (root.path / f"{key(number)}-cache").exists()}
