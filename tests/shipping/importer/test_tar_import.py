"""Every entry of a tar without a manifest is checked in full before it is written."""

import io
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import BadArchive
from jcache.formats.digest import digest
from jcache.layout import AUTOTUNE_NAME, KERNELS_NAME, LOCK_NAME, Kind, Root
from jcache.shipping.archive import open_plain_tar
from jcache.shipping.archive.manifest import Manifest
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.importer import tar_import
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.shipping.importer.tar_import import TarImportOptions, TarImportResult, import_tar
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, SECOND, digits, key, recency_of
from tests.helpers.imports import HERE, content, facts, tar_of


def taken(tar: bytes, root: Root, here: Machine = HERE, **wishes: Any) -> TarImportResult:
    """Imports a tar."""
    result = TarImportResult()

    def outlook(manifest: Manifest) -> Forecast:
        return judge(manifest, here, root.directory(Kind.EXECUTABLES), {})

    with Store(root) as store:
        import_tar(open_plain_tar(io.BytesIO(tar)).members(), store, outlook, TarImportOptions(**wishes), result)
        assert not store.notices
    return result


def a_time(days: int) -> bytes:
    return (NOW + days * DAY).to_bytes(8, "little")


FILES = {
    "cache/.lockfile": b"",
    f"cache/{key(1)}-atime": a_time(1),
    f"cache/{key(1)}-cache": content(Kind.EXECUTABLES, key(1)),
    f"cache/{key(2)}-cache": content(Kind.EXECUTABLES, key(2)),
    f"cache/{key(2)}-atime": a_time(2),
    f"cache/{key(3)}-cache": content(Kind.EXECUTABLES, key(3)),
    f"cache/traces-v1/{key(4)}-cache": content(Kind.TRACES, key(4)),
    f"cache/{AUTOTUNE_NAME}/ab/some.pb": b"tuned",
    f"cache/{KERNELS_NAME}": b"kernels",
    f"cache/{digits(9)}": b"\x78\x9clegacy",
    "cache/README": b"hello",
    f"cache/.jcache/quarantine/{key(5)}-cache": content(Kind.EXECUTABLES, key(5)),
}


@pytest.mark.parametrize("bounded", [False, True])
def test_entries(tmp_path: Path, bounded: bool) -> None:
    """Entries arrive with their times and sidecars, before or behind them; the rest is passed over and named."""
    root = create_root(tmp_path / "root")
    if bounded:
        (root.directory(Kind.EXECUTABLES) / LOCK_NAME).touch()
    result = taken(tar_of(FILES), root)
    names = {(Kind.EXECUTABLES, key(n)) for n in (1, 2, 3)} | {(Kind.TRACES, key(4))}
    assert (
        facts(root).keys()
        == names
        == {n for n, outcome in result.imported.outcomes.items() if outcome is ImportOutcome.NEW}
    )
    directory = root.directory(Kind.EXECUTABLES)
    assert [recency_of(directory, key(n)) for n in (1, 2)] == [NOW + DAY, NOW + 2 * DAY]
    assert facts(root)[Kind.EXECUTABLES, key(3)].recency_ns == NOW // SECOND * SECOND
    assert result.passed_over == len(result.names) == 6
    assert not (directory / AUTOTUNE_NAME).exists()
    with Store(root) as store:
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []
        assert {k.checks for k in store.ledger.known(Kind.EXECUTABLES).values()} == {CHECKS_VERSION}


def test_xla(tmp_path: Path) -> None:
    """XLA's sub-caches come along on request."""
    root = create_root(tmp_path / "root")
    taken(tar_of(FILES), root, xla=True)
    directory = root.directory(Kind.EXECUTABLES)
    assert (directory / AUTOTUNE_NAME / "ab" / "some.pb").read_bytes() == b"tuned"
    assert (directory / KERNELS_NAME).read_bytes() == b"kernels"


def test_garbage(tmp_path: Path) -> None:
    """An entry that does not pass the checks is refused, and the others are taken."""
    root = create_root(tmp_path / "root")
    files = {f"{key(1)}-cache": b"garbage", f"{key(2)}-cache": content(Kind.EXECUTABLES, key(2))[:-9]}
    result = taken(tar_of(files | {f"{key(3)}-cache": content(Kind.EXECUTABLES, key(3))}), root)
    assert [one.entry.digest for one in result.imported.refused] == [digest(data) for data in files.values()]
    assert "neither zstd nor zlib" in result.imported.refused[0].evidence
    assert facts(root).keys() == {(Kind.EXECUTABLES, key(3))}


def test_present(tmp_path: Path) -> None:
    """A present entry is skipped if equal, kept if different, and replaced on request."""
    root = create_root(tmp_path / "root")
    taken(tar_of(FILES), root)
    changed = FILES | {f"cache/{key(1)}-cache": content(Kind.EXECUTABLES, key(1), build=1)}
    outcomes = taken(tar_of(changed), root).imported.outcomes
    assert (
        outcomes[Kind.EXECUTABLES, key(1)] is ImportOutcome.DIFFERENT
        and outcomes[Kind.EXECUTABLES, key(2)] is ImportOutcome.PRESENT
    )
    taken(tar_of(changed), root, replace=True)
    assert facts(root)[Kind.EXECUTABLES, key(1)].data == content(Kind.EXECUTABLES, key(1), build=1)


def test_the_root_is_made_for_the_first_entry(tmp_path: Path) -> None:
    """The root need not exist, and is made once, before the first entry."""
    root, made = Root(tmp_path / "root", plain=False), []
    result = TarImportResult()
    with Store(root) as store:
        members = open_plain_tar(io.BytesIO(tar_of(FILES))).members()
        import_tar(
            members,
            store,
            lambda manifest: judge(manifest, Machine(), root.directory(Kind.EXECUTABLES), {}),
            TarImportOptions(),
            result,
            begin=lambda: made.append(create_root(root.path)),
        )
    assert len(made) == 1 and facts(root).keys() == result.imported.outcomes.keys()


def test_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tar may have as many entries as a manifest, so that memory is bounded."""
    monkeypatch.setattr(tar_import, "MAX_ENTRIES", 2)
    with pytest.raises(BadArchive, match="more than 2 entries"):
        taken(tar_of({f"{key(n)}-cache": b"" for n in range(3)}), create_root(tmp_path / "root"))


def test_dry_run(tmp_path: Path) -> None:
    """A dry run returns the same result and makes nothing, not even the root."""
    root = Root(tmp_path / "root", plain=False)
    result = taken(tar_of(FILES), root, dry_run=True, xla=True)
    assert result.imported.count(ImportOutcome.NEW) == 4 and len(result.manifest().items) == 4
    assert not root.path.exists()


def test_torn(tmp_path: Path) -> None:
    """A truncated tar leaves the complete entries."""
    root = create_root(tmp_path / "root")
    tar = tar_of(FILES)
    with pytest.raises(BadArchive):
        taken(tar[: len(tar) // 3], root)
    assert facts(root)
    with Store(root) as store:
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []
