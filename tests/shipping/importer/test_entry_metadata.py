"""What an archive says of entries: times of use, records for the ledger, pins."""

import time
from pathlib import Path

from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.store.ledger import Known
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, key
from tests.helpers.imports import content, facts
from tests.shipping.importer.test_archive_import import archive_of, brought, check_clean


def test_digest_is_on_record(tmp_path: Path) -> None:
    """An imported entry has its digest on record, so that a later change of it is found."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of((Kind.EXECUTABLES, key(1)))
    brought(target, manifest, datas)
    add(target.directory(Kind.EXECUTABLES), key(1), datas[0][:-1] + bytes([datas[0][-1] ^ 1]))
    with Store(target) as store:
        assert store.ledger.known(Kind.EXECUTABLES)[key(1)].digest == digest(datas[0])
        assert [f.key for f in verify(store, VerifyRequest(grace_ns=0)).findings] == [key(1)]


def test_future_times(tmp_path: Path) -> None:
    """Times from the future become those of the import, so that the entry can be evicted some day."""
    target = create_root(tmp_path / "b")
    ahead = time.time_ns() + 400 * DAY
    brought(target, *archive_of((Kind.EXECUTABLES, key(1)), created_ns=ahead, recency_ns=ahead, sidecar=True))
    (entry,) = Store(target).entries()
    assert max(entry.created_ns, entry.recency_ns) <= time.time_ns()
    check_clean(target)


def test_present_and_equal(tmp_path: Path) -> None:
    """An equal entry stays, and takes over a later use, a pin, and the seconds where none are known."""
    target = create_root(tmp_path / "b")
    names = [(Kind.EXECUTABLES, key(n)) for n in (1, 2)]
    manifest, datas = archive_of(*names, recency_ns=NOW, seconds=7.0, pinned=True, origin="put")
    for (_, a_key), used in zip(sorted(names), (NOW - DAY, NOW + DAY), strict=True):
        add(
            target.directory(Kind.EXECUTABLES),
            a_key,
            content(Kind.EXECUTABLES, a_key),
            used_ns=used,
            written_ns=NOW - DAY,
        )
    with Store(target) as store:
        store.ledger.record([Known(*sorted(names)[1], seconds=3.0, origin="run 1")])
    imported = brought(target, manifest, datas)
    assert set(imported.outcomes.values()) == {ImportOutcome.PRESENT}
    first, second = (facts(target)[name] for name in sorted(names))
    assert (first.recency_ns, first.seconds, first.origin, first.pinned) == (NOW, 7.0, "put", True)
    assert (second.recency_ns, second.seconds, second.origin, second.pinned) == (NOW + DAY, 3.0, "run 1", True)
