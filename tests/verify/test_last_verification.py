"""What the last verification found is told until it is mended."""

import json
import os
from pathlib import Path

import pytest

from jcache.admin.api import info
from jcache.layout import Kind, Root
from jcache.store.store import Store
from jcache.verify.last_verification import read
from jcache.verify.repair import repair
from jcache.verify.verification import Request, verify, write_down
from tests.helpers.entries import DAY, NOW, add, executable, key

TORN = b"torn"


def verified(root: Root, *, mend: bool = False) -> None:
    """What `jcache verify` does, and `jcache verify --repair`."""
    with Store(root) as store:
        verification = verify(store, Request(grace_ns=0))
        if mend:
            done = repair(store, verification.findings, grace_ns=0)
            write_down(store, verification, [one.finding for one in done if not one.mended])


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
    assert last is not None and (last.entries, last.checked, last.damaged) == (3, 3, 2)
    assert info(plain.path).health.startswith("2 findings of the last verify")
    (plain.path / f"{key(2)}-cache").unlink()  # as JAX does, or somebody by hand
    assert info(plain.path).health.startswith("1 finding of the last verify")
    verified(plain, mend=True)
    assert info(plain.path).health.startswith("ok (verified ")


def test_a_verification_of_a_part_forgets_nothing(plain: Root) -> None:
    """What was found before, and was not looked at now, is still damaged; a part alone is not the whole."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    with Store(plain) as store:
        verify(store, Request(grace_ns=0, kinds=(Kind.GRAPHS,)))
    assert info(plain.path).health == "ok (never verified)"
    add(plain.path, key(2), TORN, written_ns=NOW)
    verified(plain)
    with Store(plain) as store:
        verify(store, Request(grace_ns=0, kinds=(Kind.GRAPHS,)))
        verify(store, Request(grace_ns=0, quick=True))
    assert info(plain.path).health.startswith("1 finding of the last verify")


def test_who_may_write_is_no_damage(plain: Root) -> None:
    """That is told by `verify`, and is not what a file holds."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    verified(plain)
    plain.ledger.chmod(0o666)
    with Store(plain) as store:
        assert [one.path for one in verify(store, Request(grace_ns=0)).findings] == [plain.ledger]
    assert info(plain.path).health.startswith("ok (verified ")


def test_what_can_be_seen_without_reading(plain: Root) -> None:
    """Empty files and what was never finished, whenever the root was verified."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    verified(plain)
    (temporary := plain.path / ".jcache-tmp-0123").write_bytes(b"half")
    assert info(plain.path).health.startswith("ok")  # somebody may be writing it
    os.utime(temporary, ns=(NOW, NOW))
    assert info(plain.path).health.startswith("1 file was begun and never finished")
    add(plain.path, key(2), b"", written_ns=NOW - DAY)
    assert info(plain.path).health.startswith("1 entry is an empty file")


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{}", '{"schema_version": 2}', "[" * 100_000, "\0",
        json.dumps({"schema_version": 1, "ended_ns": -1, "entries": 1, "checked": 1, "findings": 1, "named": []}),
        json.dumps({"schema_version": 1, "ended_ns": 1, "entries": "1", "checked": 1, "findings": 1, "named": []}),
        json.dumps({"schema_version": 1, "ended_ns": 1, "entries": 1, "checked": 1, "findings": 1, "named": [1]}),
        json.dumps({"schema_version": 1, "ended_ns": 1, "entries": 1, "checked": 1, "findings": 1, "named": 5}),
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
        assert len(verify(store, Request(grace_ns=0, kinds=(Kind.EXECUTABLES,))).findings) >= 1
    assert sorted(beyond.iterdir()) == before and read(plain) is None
