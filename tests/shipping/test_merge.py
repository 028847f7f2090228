"""Merges: several local roots in one, by the rules of imports."""

from pathlib import Path
from typing import Any

import pytest

from jcache.layout import AUTOTUNE_NAME, Kind, Root
from jcache.shipping.archive.manifest import Manifest
from jcache.shipping.forecast.judge import Forecast, judge
from jcache.shipping.importer.outcome import Fate, Imported
from jcache.shipping.merge import Merging, merge, plan_merge
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.verification import Request, verify
from tests.helpers.entries import add, key, tree
from tests.helpers.imports import HERE, content, facts, populated


def planned(source: Root, target: Root, **wishes: Any) -> Merging:
    def outlook(manifest: Manifest) -> Forecast:
        return judge(manifest, HERE, target.directory(Kind.EXECUTABLES), {})

    with Store(source) as store:
        return plan_merge(store, target, outlook, **wishes)


def merged(source: Root, target: Root, **wishes: Any) -> Imported:
    imported = Imported()
    merging = planned(source, target, **wishes)
    with Store(target) as store:
        merge(merging, store, imported)
    return imported


@pytest.mark.parametrize("plain", [False, True])
def test_all_that_there_is(tmp_path: Path, plain: bool) -> None:
    """Everything of the sources is there afterwards, with recency, pins and names, and they are as they were."""
    sources = [populated(tmp_path / "a", plain=True), populated(tmp_path / "b", bounded=True, count=7, seed=1)]
    target = create_root(tmp_path / "target", plain=plain)
    before = [
        tree(source.directory(kind)) for source in sources for kind in Kind if source.directory(kind) != source.path
    ]
    expected = facts(sources[0])
    fates = [merged(source, target) for source in sources]
    assert fates[0].count(Fate.NEW) == 12 and fates[1].count(Fate.NEW) == 9
    assert fates[1].count(Fate.PRESENT) == 12
    found = facts(target)
    assert found.keys() == facts(sources[1]).keys()
    for name, was in expected.items():
        assert found[name].data == was.data and found[name].recency_ns >= was.recency_ns
        assert found[name].pinned >= was.pinned
    after = [
        tree(source.directory(kind)) for source in sources for kind in Kind if source.directory(kind) != source.path
    ]
    assert after == before
    with Store(target) as store:
        assert verify(store, Request(grace_ns=0)).findings == []


def test_damaged(tmp_path: Path) -> None:
    """A damaged entry stays where it is, and is told of."""
    source, target = populated(tmp_path / "a"), create_root(tmp_path / "b")
    add(source.directory(Kind.EXECUTABLES), key(0), b"garbage", written_ns=1)
    merging = planned(source, target)
    assert [finding.key for finding in merging.prepared.findings] == [key(0)]
    assert (Kind.EXECUTABLES, key(0)) not in merging.plan.fates


def test_changed_meanwhile(tmp_path: Path) -> None:
    """What changes or goes between the two readings is omitted, and the rest is brought."""
    source, target = populated(tmp_path / "a"), create_root(tmp_path / "b")
    merging = planned(source, target)
    add(source.directory(Kind.TRACES), key(1000), content(Kind.TRACES, key(1000), build=1))
    (source.directory(Kind.TRACES) / f"{key(1001)}-cache").unlink()
    imported = Imported()
    with Store(target) as store:
        merge(merging, store, imported)
    assert set(imported.of(Fate.OMITTED)) == {(Kind.TRACES, key(1000)), (Kind.TRACES, key(1001))}
    assert imported.count(Fate.NEW) == len(facts(target)) == 10


def test_xla(tmp_path: Path) -> None:
    """XLA's sub-caches come along on request."""
    source, target = populated(tmp_path / "a"), create_root(tmp_path / "b")
    merged(source, target)
    tuned = target.directory(Kind.EXECUTABLES) / AUTOTUNE_NAME / "ab" / "some.pb"
    assert not tuned.exists()
    merged(source, target, xla=True)
    assert tuned.read_bytes() == b"tuned"
