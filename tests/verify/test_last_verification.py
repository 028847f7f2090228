"""What the last verification found is told until it is mended."""

import json
import os
import re
import shutil
import tempfile
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

TORN = b"torn"


def verified(root: Root, *, mend: bool = False) -> None:
    """What `jcache verify` does, and `jcache verify --repair`."""
    with Store(root) as store:
        verification = verify(store, VerifyRequest(grace_ns=0))
        if mend:
            done = repair(store, verification.findings, grace_ns=0)
            record_verification(store, verification, [one.finding for one in done if not one.mended])


def test_what_was_found_is_told_until_it_is_mended(plain: Root) -> None:
    """`info` says how much is damaged and what to do; afterwards that all is well, and as of when."""
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


def test_a_verification_of_a_part_forgets_nothing(plain: Root) -> None:
    """What was found before, and was not looked at now, is still damaged; a part alone is not the whole."""
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
    """That is told by `verify`, and is not what a file holds."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    verified(plain)
    plain.ledger.chmod(0o666)
    with Store(plain) as store:
        assert [one.path for one in verify(store, VerifyRequest(grace_ns=0)).findings] == [plain.ledger]
    assert info(plain.path).health.startswith("ok (verified ")


def test_what_can_be_seen_without_reading(plain: Root) -> None:
    """Empty files and what was never finished, whenever the root was verified."""
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
    """Others may write to a root."""
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
    """Also where nothing was ever verified; a stale graph is not damaged."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    add(plain.path, key(2), TORN, written_ns=NOW)
    verified(plain, mend=True)
    (plain.state / "verified.json").unlink()
    restore_all(plain)
    assert info(plain.path).health.startswith("1 finding, restored from quarantine; `jcache verify --repair --root ")
    (plain.path / f"{key(2)}-cache").unlink()
    assert info(plain.path).health == "ok (never verified)"


def test_many_findings(plain: Root) -> None:
    """Those that are not named are not forgotten, but not known for certain any more."""
    for number in range(1010):
        add(plain.path, key(number), TORN, written_ns=NOW)
    verified(plain)
    assert info(plain.path).health.startswith("at least 1,000 findings of the last verify")
    for number in range(1010):
        (plain.path / f"{key(number)}-cache").unlink()
    assert info(plain.path).health.startswith("10 files with findings of the last verify, ")
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
    """What `jcache quarantine restore` does with each entry that is named, and not there again."""
    with Store(root) as store:
        place = Quarantine(root)
        for record in place.records():
            if not (root.path / record.file_name).exists():
                restore(store, place, record, damage=damage_of(store, place, record), replace=False)


ACTS = ("verify", "repair", "restore", "part", "quick", "move", "copy", "clear", "touch", "mend", "tear", "remove")


@given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2)), max_size=10), st.sampled_from(["move", "copy"]))
@settings(max_examples=40)
def test_health_is_what_is_known(steps: list[tuple[str, int]], last: str) -> None:
    """It is never ok while damage is there that was found in these files, and damage that is gone is not named."""
    with tempfile.TemporaryDirectory() as place:
        root = Root(Path(place, "root"), plain=True)
        found: set[str] = set()
        for number in range(3):
            add(root.path, key(number), TORN if number else executable(), written_ns=NOW)
        for at, (act, number) in enumerate([*steps, (last, 0)]):
            before = torn(root)
            root = carry_out(act, root, root.path / f"{key(number)}-cache", at)
            found = after(act, found, before, torn(root))
            if not any(root.path.glob("*-cache")) and not root.state.exists():
                continue
            health = info(root.path).health
            assert not (found & torn(root) and health.startswith("ok")), (act, health)
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
    """Of which damaged entries it is known, in these very files."""
    if act in ("verify", "repair"):
        return now
    if act == "restore":
        return found | (now - before)
    return found & now


def torn(root: Root) -> set[str]:
    """The entries that are damaged."""
    return {path.name for path in root.path.glob("*-cache") if path.read_bytes() == TORN}


def orphans(root: Root) -> set[str]:
    """The sidecars without an entry: removing an entry by hand leaves one, which is a finding."""
    return {path.name for path in root.path.glob("*-atime") if not Path(f"{str(path)[:-6]}-cache").exists()}
