"""A survey describes each entry for the manifest, and records digests and contents in the ledger."""

import os
import sqlite3
from pathlib import Path

import pytest

from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.shipping.exporter.scan import FileState, open_regular
from jcache.shipping.exporter.survey import Survey
from jcache.store.ledger import Known
from jcache.store.ledger_contents import contents
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from tests.helpers.clocks import waits_for_locks
from tests.helpers.entries import HOLD_LOCK, NOW, add, executable, key, process


def survey(root: Root) -> Survey:
    with Store(root) as store:
        found = Survey(store, sorted(store.entries()))
        found.read(lambda _done, _all: None)
        return found


def test_what_is_learnt(plain: Root) -> None:
    """Digest, checks and insides go to the ledger, and nothing that is known of the key is lost."""
    add(plain.path, key(1), data := executable(), written_ns=NOW)
    with Store(plain) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, key(1), seconds=0.5, origin="program", pinned_ns=7)])
    survey(plain)
    with Store(plain) as store:
        known = store.ledger.known(Kind.EXECUTABLES)[key(1)]
        assert contents(store.ledger).keys() == {digest(data)}
    assert (known.digest, known.bytes, known.checks) == (digest(data), len(data), CHECKS_VERSION)
    assert (known.seconds, known.origin, known.pinned_ns) == (0.5, "program", 7)


def test_the_second_time_nothing_is_written(plain: Root) -> None:
    """A second survey writes nothing into the ledger."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    first = survey(plain)
    before = plain.ledger.read_bytes()
    second = survey(plain)
    assert plain.ledger.read_bytes() == before
    assert (second.items, second.makers) == (first.items, first.makers)


def test_sources_are_the_files(plain: Root) -> None:
    """Each item has its file, in the state in which it was read."""
    path = add(plain.path, key(1), data := executable(), written_ns=NOW)
    (source,) = survey(plain).sources
    with open_regular(path) as file:
        assert source[:3] == (str(path), FileState.of(file), digest(data))
    assert source.claim is not None and source.claim.key == key(1)


def test_times_out_of_range(plain: Root) -> None:
    """A time before 1970 becomes 1970."""
    path = add(plain.path, key(1), executable())
    os.utime(path, ns=(-(10**15), -(10**15)))
    (item,) = survey(plain).items
    assert (item.created_ns, item.recency_ns) == (0, 0)


def test_a_vanished_entry(plain: Root) -> None:
    """An entry that is gone since it was listed is no finding."""
    paths = [add(plain.path, key(i), executable(i), written_ns=NOW) for i in range(2)]
    with Store(plain) as store:
        found = Survey(store, store.entries())
        paths[0].unlink()
        found.read(lambda _done, _all: None)
    assert [item.key for item in found.items] == [key(1)] and not found.findings


def test_no_lock_is_taken(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held lock does not hinder an export, which takes none."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    waited = waits_for_locks(monkeypatch)
    with process(HOLD_LOCK, plain.path):
        assert survey(plain).items
    assert waited == []


def test_a_busy_ledger(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy ledger is read; a failure to record is no error."""
    monkeypatch.setattr(
        "jcache.store.ledger.Ledger.__init__.__kwdefaults__",
        {"busy_timeout": 0.1, "outside": False, "connections": None},
    )
    add(plain.path, key(1), executable(), written_ns=NOW)
    with Store(plain) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, key(1), seconds=0.5)])
    other = sqlite3.connect(plain.ledger, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    (item,) = survey(plain).items
    other.close()
    assert item.seconds == 0.5


def test_what_is_learnt_outlives_an_interruption(plain: Root) -> None:
    """Ctrl-C in the middle keeps the records made so far."""
    for i in range(3):
        add(plain.path, key(i), executable(i), written_ns=NOW)

    def interrupt(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    with Store(plain) as store:
        with pytest.raises(KeyboardInterrupt):
            Survey(store, store.entries()).read(interrupt)
        assert len(store.ledger.known(Kind.EXECUTABLES)) == 3


def test_a_copied_root(plain: Root, tmp_path: Path) -> None:
    """In a copy of a root with its ledger, digests count: a bit flipped by the copy is found."""
    import shutil

    add(plain.path, key(1), executable(), written_ns=NOW)
    survey(plain)
    copy = Root(Path(shutil.copytree(plain.path, tmp_path / "copy")), plain=True)
    assert len(survey(copy).items) == 1
    path = copy.path / f"{key(1)}-cache"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(NOW, NOW))
    assert [finding.key for finding in survey(copy).findings] == [key(1)]
