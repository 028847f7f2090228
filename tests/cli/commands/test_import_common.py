"""The steps that imports of archives and of tars share: kept damage, pins, interruptions, exit codes."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from jcache.cli.commands.import_common import _manifest_of
from jcache.errors import CannotWrite
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.importer.outcome import EntryId
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from tests.helpers.command_line import Jcache, clean_environment, keys
from tests.helpers.entries import NOW, add, key, mounted_read_only, xla_program
from tests.helpers.imports import check_clean, content, import_bytes, packed, populated, tar_of
from tests.helpers.waiting import LIMIT_S, until

JCACHE = [sys.executable, "-m", "jcache"]


def test_dry_run_s_exit_code(jcache: Jcache, archive: Path, target: Path, tmp_path: Path) -> None:
    """A dry run ends with the exit code of the import: 3 where something different is kept, 1 where all is refused."""
    sound, tar = f"{key(0)}-cache", tmp_path / "tar"
    tar.write_bytes(tar_of({sound: content(Kind.EXECUTABLES, key(0))}))
    garbage = tmp_path / "garbage"
    garbage.write_bytes(tar_of({sound: b"garbage"}))
    assert jcache("import", garbage, "--root", target, "--dry-run").code == 1
    assert jcache("import", garbage, "--root", target).code == 1 and not target.exists()
    add(create_root(target).directory(Kind.EXECUTABLES), key(0), content(Kind.EXECUTABLES, key(0), build=1))
    for one in (archive, tar):
        assert jcache("import", one, "--root", target, "--dry-run").code == 3
        assert jcache("import", one, "--root", target).code == 3


def test_damaged_here(jcache: Jcache, archive: Path, target: Path) -> None:
    """A kept entry that is damaged is not called another build: the message names the repair, and a second
    import adds the archive's.
    """
    place = add(create_root(target).directory(Kind.EXECUTABLES), key(0), b"garbage", written_ns=10**18)
    for option in ("--dry-run", "-v"):
        kept = jcache("import", archive, "--root", target, option)
        assert kept.code == 3 and "verify --repair" in kept.out and "another build" not in kept.out
    assert jcache("import", archive, "--root", target, "--json").json["kept"][0]["damaged"] is True
    assert jcache("verify", "--repair", "--root", target).code == 0
    assert jcache("import", archive, "--root", target).code == 0
    assert place.read_bytes() == content(Kind.EXECUTABLES, key(0))


def pinned(root: Path) -> set[tuple[Kind, str]]:
    with Store(open_root(root)) as store:
        return store.pins.known()


def test_pins_that_cannot_be_written(jcache: Jcache, archive: Path, target: Path) -> None:
    """Pins that cannot be written are reported, with exit 3, and the same import adds them later; a busy
    ledger is no obstacle.
    """
    assert jcache("import", archive, "--root", target).code == 0
    before = pinned(target)
    assert before and jcache("unpin", *(key for _, key in before), "--root", target).code == 0
    for kind in {kind for kind, _ in before}:
        (target / ".jcache" / "pins" / kind).rmdir()
        (target / ".jcache" / "pins" / kind).write_text("in the way")
    result = jcache("import", archive, "--root", target)
    assert result.code == 3 and "could not be written" in result.out + result.err
    for kind in {kind for kind, _ in before}:
        (target / ".jcache" / "pins" / kind).unlink()
    assert pinned(target) == set()
    assert jcache("import", archive, "--root", target).code == 0
    assert pinned(target) == before


@pytest.mark.full
def test_skip_incompatible(jcache: Jcache, target: Path, tmp_path: Path) -> None:
    """Executables that can never be hit here are counted, and left out on request."""
    source = create_root(tmp_path / "source")
    zlib = pack_executable(xla_program(b"an executable" * 40), 3, Codec.ZLIB)
    with Store(source) as store:
        store.put(Kind.EXECUTABLES, key(1), zlib)
        store.put(Kind.EXECUTABLES, key(2), content(Kind.EXECUTABLES, key(2)))
    archive = tmp_path / "archive"
    archive.write_bytes(packed(source))
    told = jcache("import", archive, "--root", target, "--dry-run")
    assert "--skip-incompatible" in told.out
    result = jcache("import", archive, "--root", target, "--skip-incompatible", "--json")
    assert result.code == 0 and result.json["entries"]["incompatible"] == 1
    assert keys(target / "executables") == {key(2)}


def test_duplicate_and_unlisted(tmp_path: Path, target: Path) -> None:
    """An entry that is there twice, or that the manifest does not name, ends the import."""
    source = create_root(tmp_path / "source")
    add(source.directory(Kind.EXECUTABLES), key(1), content(Kind.EXECUTABLES, key(1)))
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(packed(source))
    header = raw.index(b"executables/" + key(1).encode())
    block = raw[header : header + 512 + -(-len(content(Kind.EXECUTABLES, key(1))) // 512) * 512]
    twice = zstandard.ZstdCompressor().compress(raw[:header] + block + raw[header:])
    refused = import_bytes(twice, target)
    assert refused.code == 1 and "1 entry is stored so far, completely." in refused.err
    assert keys(target / "executables") <= {key(1)}


@pytest.mark.full
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_truncated(jcache: Jcache, tmp_path: Path, target: Path, share: float) -> None:
    """A stream that ends too early leaves a clean root, and the whole one brings the rest."""
    whole = packed(populated(tmp_path / "source", count=100))
    torn = import_bytes(whole[: int(len(whole) * share)], target)
    assert torn.code == 1 and "truncated" in torn.err
    assert ("the complete archive adds the rest" in torn.err) is target.exists()
    if target.exists():
        check_clean(jcache, target)
    assert import_bytes(whole, target).code == 0
    assert len(list(target.rglob("*-cache"))) == 300


@pytest.mark.full
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(jcache: Jcache, tmp_path: Path, target: Path, by: signal.Signals) -> None:
    """Ctrl-C and SIGKILL leave whole entries and nothing else; the same import again brings the rest."""
    whole = packed(populated(tmp_path / "source", count=300))
    with subprocess.Popen(
        [*JCACHE, "import", "-", "--root", str(target)],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stderr
        process.stdin.write(whole[: len(whole) // 2])
        process.stdin.flush()
        until(lambda: list(target.rglob("*-cache")))
        process.send_signal(by)
        process.wait(LIMIT_S)
        said = process.stderr.read().decode()
        with suppress(BrokenPipeError):
            process.stdin.close()
    assert "Traceback" not in said
    if by is signal.SIGINT:
        assert process.returncode == 130 and "adds the rest" in said
    check_clean(jcache, target)
    there = len(list(target.rglob("*-cache")))
    assert there
    again = import_bytes(whole, target, "--json")
    assert again.code == 0 and again.json["entries"]["new"] == 900 - there


def test_a_dry_run_tells_of_a_root_that_cannot_be_written(jcache: Jcache, archive: Path, tmp_path: Path) -> None:
    """If nothing could be stored, a dry run ends with the same sentence as the import, for a tar as well."""
    root, tar = create_root(tmp_path / "root"), tmp_path / "plain.tar"
    tar.write_bytes(tar_of({f"a/{key(77)}-cache": content(Kind.EXECUTABLES, key(77))}))
    with mounted_read_only(root.path):
        for what in (archive, tar):
            said = [jcache("import", what, "--root", root.path, *dry) for dry in (["--dry-run"], [])]
            assert [one.code for one in said] == [CannotWrite.exit_code] * 2
            assert all("Cannot store " in one.err for one in said)
            assert [len(one.err.splitlines()) for one in said] == [1, 1]


class _Unsearched(list[EntryId]):
    """A list that may only be read from its beginning to its end."""

    def __contains__(self, _: object) -> bool:
        return pytest.fail("the list was searched")


def test_entries_are_not_searched_in_a_list_for_each_item() -> None:
    """The manifest of what is in the root is made in time that grows with the entries, and not with their square."""
    items = tuple(Item(Kind.EXECUTABLES, key(i), 1, "", NOW, NOW) for i in range(4))
    manifest = Manifest(jcache="", root="", directory="", items=items)
    there = _Unsearched((Kind.EXECUTABLES, key(i)) for i in (1, 3))
    assert _manifest_of(manifest, there).items == (items[1], items[3])
