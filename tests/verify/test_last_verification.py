"""The findings of the last verification are reported until they are repaired."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from jcache.admin.api import clear, info
from jcache.layout import Kind, Root
from jcache.store.quarantine import Quarantine
from jcache.store.store import Store
from jcache.verify.last_verification import read, record_verification
from jcache.verify.repair import damage_of, repair, restore
from jcache.verify.result import VerifyRequest
from jcache.verify.subset import Subset
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, executable, key
from tests.helpers.waiting import until

TORN = b"torn"


def verified(root: Root, *, mend: bool = False) -> None:
    """Run `jcache verify`, or `jcache verify --repair`."""
    with Store(root) as store:
        verification = verify(store, VerifyRequest(grace_ns=0))
        if mend:
            done = repair(store, verification.findings, grace_ns=0)
            record_verification(store, verification, [one.finding for one in done if not one.mended])


def test_what_was_found_is_told_until_it_is_mended(plain: Root) -> None:
    """`info` reports the number of damaged entries and the command; after the repair, that all is well, and
    since when.
    """
    add(plain.path, key(1), executable(), written_ns=NOW)
    assert read(plain) is None and info(plain.path).health == "ok (never verified)"
    verified(plain)
    assert info(plain.path).health.startswith("ok (verified ")
    add(plain.path, key(2), TORN, written_ns=NOW)
    add(plain.path, key(3), TORN, written_ns=NOW)
    assert info(plain.path).health.startswith("ok (verified ")
    verified(plain)
    last = read(plain)
    assert last is not None and (last.entries, last.checked, last.damaged, last.changed) == (3, 3, 2, 0)
    assert info(plain.path).health.startswith("2 findings of the last verify")
    (plain.path / f"{key(2)}-cache").unlink()  # as JAX does, or somebody by hand
    assert info(plain.path).health.startswith("1 finding of the last verify")
    verified(plain, mend=True)
    assert info(plain.path).health.startswith("ok (verified ")


UNVERIFIED = re.compile(r"ok \(verified .*, (\d+) entr(?:y|ies) new or changed since\)")


def unverified(root: Root) -> int:
    """How many entries `info` says are new or changed since the last verification."""
    health = info(root.path).health
    assert health.startswith("ok (verified "), health
    told = UNVERIFIED.fullmatch(health)
    return int(told[1]) if told else 0


def go_on(root: Root) -> None:
    """Waits until the file system gives later times than it has given, beyond doubt."""
    path = root.path.with_name("time")
    path.touch()
    from_ns = path.stat().st_ctime_ns + 30_000_000

    def is_later() -> bool:
        os.utime(path)
        return path.stat().st_ctime_ns > from_ns

    until(is_later)


def overwrite(path: Path) -> None:
    """Other bytes of the same number, in place, with the same modification time."""
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    os.utime(path, ns=(NOW, NOW))


def replace(path: Path) -> None:
    """Another file with this name, and with its modification time."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    os.replace(other, path)


def use(path: Path) -> None:
    """The entry is used, which its sidecar tells."""
    path.with_name(path.name.removesuffix("-cache") + "-atime").write_bytes(bytes(8))


CHANGES = [
    (overwrite, 1),
    (replace, 1),
    (Path.unlink, 0),
    (use, 0),
    (Path.read_bytes, 0),
    (lambda path: path.rename(path.with_name(f"{key(9)}-cache")), 1),
    (lambda path: add(path.parent, key(9), executable(), written_ns=NOW), 1),
]


@pytest.mark.parametrize(("change", "number"), CHANGES)
def test_what_is_new_or_changed_was_not_verified(plain: Root, change: Callable[[Path], object], number: int) -> None:
    """It is told by number, whatever modification times say; moving a root changes nothing, and a copy is all new."""
    for each in range(3):
        add(plain.path, key(each), executable(), written_ns=NOW)
    go_on(plain)
    verified(plain)
    assert unverified(plain) == 0
    change(plain.path / f"{key(1)}-cache")
    assert unverified(plain) == number
    moved = plain._replace(path=plain.path.rename(plain.path.with_name("moved")))
    assert unverified(moved) == number
    copy = moved._replace(path=shutil.copytree(moved.path, moved.path.with_name("copy")))
    assert unverified(copy) == len(list(copy.path.glob("*-cache")))
    go_on(copy)
    verified(copy)
    assert unverified(copy) == 0 if change is not overwrite else info(copy.path).health.startswith("1 finding")


def test_a_verification_of_a_part_forgets_nothing(plain: Root) -> None:
    """Earlier findings that were not checked again still count; a verification of a part is not one of the whole."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    with Store(plain) as store:
        verify(store, VerifyRequest(grace_ns=0, kinds=(Kind.GRAPHS,)))
    assert info(plain.path).health == "ok (never verified)"
    add(plain.path, key(2), TORN, written_ns=NOW)
    verified(plain)
    with Store(plain) as store:
        verify(store, VerifyRequest(grace_ns=0, kinds=(Kind.GRAPHS,)))
        verify(store, VerifyRequest(grace_ns=0, quick=True))
    assert info(plain.path).health.startswith("1 finding of the last verify")


def test_who_may_write_is_no_damage(plain: Root) -> None:
    """`verify` reports who may write, but `info` does not count it as damage."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    verified(plain)
    plain.ledger.chmod(0o666)
    with Store(plain) as store:
        assert [one.path for one in verify(store, VerifyRequest(grace_ns=0)).findings] == [plain.ledger]
    assert info(plain.path).health.startswith("ok (verified ")


def test_what_can_be_seen_without_reading(plain: Root) -> None:
    """`info` finds empty files and unfinished ones by itself, whether or not the root was verified."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    verified(plain)
    (temporary := plain.path / ".jcache-tmp-0123").write_bytes(b"half")
    assert info(plain.path).health.startswith("ok")  # somebody may be writing it
    os.utime(temporary, ns=(NOW, NOW))
    assert info(plain.path).health.startswith("1 file was never finished by a writer")
    add(plain.path, key(2), b"", written_ns=NOW - DAY)
    assert info(plain.path).health.startswith("1 entry is an empty file")


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{}", '{"schema_version": 3}',  "[" * 100_000, "\0",
        json.dumps({"schema_version": 2, "ended_ns": -1, "entries": 1, "checked": 1, "findings": 1, "named": []}),
        json.dumps({"schema_version": 2, "ended_ns": 1, "entries": "1", "checked": 1, "findings": 1, "named": []}),
        json.dumps({"schema_version": 2, "ended_ns": 1, "entries": 1, "checked": 1, "findings": 1, "named": [1]}),
        json.dumps({"schema_version": 2, "ended_ns": 1, "entries": 1, "checked": 1, "findings": 1, "named": 5}),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_nothing(plain: Root, text: str) -> None:
    """A malformed file counts as missing, since other users may write in a root."""
    plain.state.mkdir()
    (plain.state / "verified.json").write_text(text)
    assert read(plain) is None and info(plain.path).health == "ok (never verified)"


def test_a_root_that_cannot_be_written_is_verified(plain: Root, beyond: Path) -> None:
    """A link in the place of the state is not followed, and nothing is raised."""
    add(plain.path, key(1), TORN, written_ns=NOW)
    plain.state.symlink_to(beyond)
    before = sorted(beyond.iterdir())
    with Store(plain) as store:
        assert len(verify(store, VerifyRequest(grace_ns=0, kinds=(Kind.EXECUTABLES,))).findings) >= 1
    assert sorted(beyond.iterdir()) == before and read(plain) is None


def test_what_is_put_back_damaged_is_known(plain: Root) -> None:
    """A damaged entry that was restored is reported, even without any verification; a stale graph is not damaged."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    add(plain.path, key(2), TORN, written_ns=NOW)
    verified(plain, mend=True)
    (plain.state / "verified.json").unlink()
    restore_all(plain)
    assert info(plain.path).health.startswith("1 finding, restored from quarantine; `jcache verify --repair --root ")
    (plain.path / f"{key(2)}-cache").unlink()
    assert info(plain.path).health == "ok (never verified)"


def test_many_findings(plain: Root) -> None:
    """Findings beyond the named ones still count, but as files that may have changed."""
    for number in range(1010):
        add(plain.path, key(number), TORN, written_ns=NOW)
    verified(plain)
    assert info(plain.path).health.startswith("at least 1,000 findings of the last verify")
    for number in range(1010):
        (plain.path / f"{key(number)}-cache").unlink()
    assert info(plain.path).health.startswith("10 files with findings in the last verify ")
    verified(plain)
    assert info(plain.path).health.startswith("ok")


def test_sidecars_and_directories(plain: Root) -> None:
    """A directory with an entry's name is still one; a sidecar without an entry is one until the entry comes."""
    (plain.path / f"{key(1)}-cache").mkdir()
    (plain.path / f"{key(2)}-atime").write_bytes(bytes(8))
    os.utime(plain.path / f"{key(2)}-atime", ns=(NOW, NOW))
    verified(plain)
    assert info(plain.path).health.startswith("2 findings")
    add(plain.path, key(2), executable(), written_ns=NOW)
    (plain.path / f"{key(1)}-cache" / "more").touch()
    assert info(plain.path).health.startswith("1 finding ")
    (plain.path / f"{key(1)}-cache" / "more").unlink()
    (plain.path / f"{key(1)}-cache").rmdir()
    assert info(plain.path).health.startswith("ok")


def restore_all(root: Root) -> None:
    """Restore each entry in quarantine whose key has no entry, as `jcache quarantine restore` does."""
    with Store(root) as store:
        place = Quarantine(root)
        for record in place.records():
            if not (root.path / record.file_name).exists():
                restore(store, place, record, damage=damage_of(store, place, record), replace=False)


ACTS = ("verify", "repair", "restore", "part", "quick", "move", "copy", "clear", "touch", "mend", "tear", "remove")


@pytest.mark.full
@given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2)), max_size=10), st.sampled_from(["move", "copy"]))
@settings(max_examples=40)
def test_health_is_what_is_known(steps: list[tuple[str, int]], last: str) -> None:
    """Health is never ok while these files have known damage, and never names damage that is gone.

    Entries that it does not call new or changed have the contents that were verified.
    """
    with tempfile.TemporaryDirectory() as place:
        root = Root(Path(place, "root"), plain=True)
        found: set[str] = set()
        passed: dict[str, bytes] = {}
        for number in range(3):
            add(root.path, key(number), TORN if number else executable(), written_ns=NOW)
        for at, (act, number) in enumerate([*steps, (last, 0)]):
            before = torn(root)
            root = carry_out(act, root, root.path / f"{key(number)}-cache", at)
            found = after(act, found, before, torn(root))
            passed = contents(root) if act in ("verify", "repair") else passed
            if not any(root.path.glob("*-cache")) and not root.state.exists():
                continue
            health = info(root.path).health
            assert not (found & torn(root) and health.startswith("ok")), (act, health)
            if health.startswith("ok (verified") and "since" not in health:
                assert contents(root).items() <= passed.items(), (act, health)
            named = re.match(r"(?:at least )?(\d+) findings?[ ,]", health)
            assert named is None or int(named[1]) <= len(torn(root)) + len(orphans(root)), (act, health)


def carry_out(act: str, root: Root, path: Path, at: int) -> Root:
    """Does something to a root, or to a file of it; returns where the root is then."""
    if act in ("verify", "repair"):
        verified(root, mend=act == "repair")
    elif act in ("part", "quick"):
        with Store(root) as store:
            verify(store, VerifyRequest(grace_ns=0, quick=act == "quick", subset=Subset.parse("1/3")))
    elif act == "restore":
        restore_all(root)
    elif act in ("move", "copy"):
        new = root.path.with_name(f"root {at}")
        (os.rename if act == "move" else shutil.copytree)(root.path, new)
        return root._replace(path=new)
    elif act == "clear" and torn(root):
        clear(root=root.path)
    elif act == "touch" and path.exists():
        os.utime(path, ns=(NOW + at, NOW + at))
    elif act in ("mend", "tear"):
        path.write_bytes(executable() if act == "mend" else TORN)
        os.utime(path, ns=(NOW + at, NOW + at))
    elif act == "remove":
        path.unlink(missing_ok=True)
    return root


def after(act: str, found: set[str], before: set[str], now: set[str]) -> set[str]:
    """Return the damaged entries that are known after an act, in the same files."""
    if act in ("verify", "repair"):
        return now
    if act == "restore":
        return found | (now - before)
    return found & now


def torn(root: Root) -> set[str]:
    """The entries that are damaged."""
    return {path.name for path in root.path.glob("*-cache") if path.read_bytes() == TORN}


def contents(root: Root) -> dict[str, bytes]:
    """What the entries hold."""
    return {path.name: path.read_bytes() for path in root.path.glob("*-cache")}


def orphans(root: Root) -> set[str]:
    """Return the sidecars without an entry: an entry removed by hand leaves one, which is a finding."""
    return {path.name for path in root.path.glob("*-atime") if not Path(f"{str(path)[:-6]}-cache").exists()}
