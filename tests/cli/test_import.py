"""`jcache import` as users run it: real caches, real pipes, hostile archives."""

import io
import os
import pty
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from jcache.errors import CannotWrite
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from tests.helpers.command_line import PROGRAM, Jcache, Result, call, clean_environment, entry_files, keys, run_jax
from tests.helpers.entries import add, key, mounted_read_only, tree, xla_program
from tests.helpers.imports import content, facts, packed, populated, tar_of
from tests.helpers.signatures import allowed as allowed_signers, needs_openssh, new_key, public
from tests.helpers.waiting import LIMIT_S, until
from tests.jax_internals.test_cache_hook import JAX, PATH_IN_KEYS

SIGNED = Path(__file__).parent.parent / "data" / "signed"  # by Ed25519, as commit accb188 did
JCACHE = [sys.executable, "-m", "jcache"]
WITH_PATHS = "xla_gpu_per_fusion_autotune_cache_dir"  # JAX's default, with which it hashes the directory's path


@pytest.fixture(name="archive")
def archive_fixture(tmp_path: Path) -> Path:
    """An archive of a small root."""
    path = tmp_path / "some.archive"
    path.write_bytes(packed(populated(tmp_path / "source")))
    return path


@pytest.fixture(name="target")
def target_fixture(tmp_path: Path, beyond: Path) -> Path:
    """Return the path to import to; no file beside it may change."""
    assert beyond
    return tmp_path / "target"


def check_clean(jcache: Jcache, root: Path) -> None:
    assert jcache("verify", "--grace", "0s", "--root", root).code == 0


def pipe(source: Path, target: Path, *options: str) -> Result:
    """``jcache export | jcache import -``."""
    with subprocess.Popen(
        [*JCACHE, "export", "-q", "--root", str(source)], env=clean_environment(), stdout=subprocess.PIPE
    ) as sender:
        done = subprocess.run(
            [*JCACHE, "import", "-", "--root", str(target), *options],
            env=clean_environment(),
            stdin=sender.stdout,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert sender.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


# -- local roots brought together


def test_a_pipe_brings_roots_together(jcache: Jcache, tmp_path: Path, target: Path) -> None:
    """``export --root A | import --root B -`` imports every entry with its last use, pin and name. Entries
    that are present and equal get the later use and the pin, and the sources stay unchanged.
    """
    sources = [populated(tmp_path / "a", plain=True), populated(tmp_path / "b", bounded=True, count=7, seed=1)]
    befores = [facts(source) for source in sources]
    results = [pipe(source.path, target, "--json") for source in sources]
    assert [result.code for result in results] == [0, 0]
    assert [result.json["entries"]["new"] for result in results] == [12, 9]
    assert results[1].json["entries"]["present"] == 12
    found = facts(open_root(target))
    assert found.keys() == befores[0].keys() | befores[1].keys()
    for before in befores:
        for name, was in before.items():
            assert found[name].data == was.data and found[name].recency_ns >= was.recency_ns
            assert found[name].pinned >= was.pinned
    assert [facts(source) for source in sources] == befores
    check_clean(jcache, target)


def test_a_pipe_between_roots_that_differ(jcache: Jcache, tmp_path: Path, target: Path) -> None:
    """Of two builds of one program, the existing one stays, with exit 3; ``--replace`` takes the other one
    and moves the first to quarantine.
    """
    source, other = populated(tmp_path / "source"), populated(tmp_path / "other")
    build = content(Kind.EXECUTABLES, key(0), build=1)
    add(other.directory(Kind.EXECUTABLES), key(0), build)
    place = target / "executables" / f"{key(0)}-cache"
    assert pipe(source.path, target).code == 0
    assert pipe(other.path, target, "--dry-run").code == pipe(other.path, target).code == 3
    first = place.read_bytes()
    assert first != build
    assert pipe(other.path, target, "--replace").code == 0 and place.read_bytes() == build
    assert jcache("quarantine", "restore", key(0), "--replace", "--root", target).code == 0
    assert place.read_bytes() == first


def test_a_directory_is_no_archive(jcache: Jcache, tmp_path: Path, target: Path) -> None:
    """If the user names a root in place of an archive, the message has a pipe that imports its entries."""
    source = populated(tmp_path / "a root")
    result = jcache("import", source.path, "--root", target)
    suggested = result.err.split("`")[1].replace("jcache", " ".join(JCACHE))
    assert result.code == 2 and call(["bash", "-c", suggested]).code == 0
    assert facts(open_root(target)).keys() == facts(source).keys()


# -- with real JAX


@pytest.mark.smoke
@pytest.mark.jax
def test_warm_start_elsewhere(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A program finds everything in the imported cache, just as many as was announced."""
    target = tmp_path / "home" / "cache"
    result = pipe(cache, target, "--json")
    assert result.code == 0, result.err
    assert result.json["forecast"]["will"] == result.json["entries"]["new"] == len(keys(cache))
    executables = target / "executables"
    assert entry_files(executables) == entry_files(cache)
    assert run_jax(executables).code == 0
    assert keys(executables) == keys(cache)  # it has compiled nothing
    check_clean(jcache, target)


@pytest.mark.jax
@pytest.mark.skipif(not PATH_IN_KEYS, reason="this JAX has no path in its keys")
def test_path_guard(jcache: Jcache, tmp_path: Path) -> None:
    """Executables with a path in their keys cannot be hit elsewhere, as the forecast says; with a link all are hit."""
    old, archive, target = tmp_path / "old", tmp_path / "archive", tmp_path / "new"
    assert run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS).code == 0
    before = keys(old)
    keyed = jcache("export", "--root", old, "-o", archive)
    assert keyed.code == 0
    old.rename(tmp_path / "gone")
    result = jcache("import", archive, "--root", target, "--json")
    assert result.json["forecast"]["will"] == 0 and result.json["forecast"]["cannot"] == len(before)
    assert str(old) in jcache("import", archive, "--root", target).out
    elsewhere = Path(shutil.copytree(target / "executables", tmp_path / "elsewhere"))
    run_jax(elsewhere, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS)
    assert len(keys(elsewhere)) == 2 * len(before)  # nothing was hit
    linked = jcache("import", archive, "--root", target, "--link", "--json")
    assert linked.code == 0 and linked.json["forecast"]["will"] == len(before)
    assert os.readlink(old) == str(target / "executables")
    run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS)
    assert keys(old) == before


@pytest.mark.smoke(since="0.10")
@pytest.mark.jax
def test_plain_tar(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A tar.gz of a JAX directory is imported with all checks, and its executables load with the jaxlib here."""
    tar = shutil.make_archive(str(tmp_path / "old"), "gztar", cache.parent, cache.name)
    target = tmp_path / "new"
    result = jcache("import", tar, "--root", target, "--check-load", "--json")
    assert result.code == 0, result.err
    assert result.json["entries"]["new"] == result.json["loads"]["loads"] == len(keys(cache))
    mended = len(JAX) > 3  # nobody tells whether this version or the one that it mends has made them
    assert result.json["forecast"]["unknown" if mended else "will"] == len(keys(cache))
    assert entry_files(target / "executables") == entry_files(cache)


# -- what a user sees


def test_files_of_xla_are_counted(jcache: Jcache, tmp_path: Path) -> None:
    """The number of imported files of XLA's sub-caches is printed in the singular and in the plural."""
    root = populated(tmp_path / "source")  # with one such file
    archive = tmp_path / "some.archive"
    for number in ("1 file", "2 files"):
        assert jcache("export", "-q", "--xla", "--root", root.path, "-o", archive).code == 0
        assert f"{number} of XLA's sub-caches" in jcache("import", archive, "--root", tmp_path / number).out
        (root.directory(Kind.EXECUTABLES) / WITH_PATHS / "another.pb").write_bytes(b"x")


def test_twice(jcache: Jcache, archive: Path, target: Path) -> None:
    """A second import of the same archive has nothing to do, and says so."""
    first = jcache("import", archive, "--root", target)
    assert first.code == 0 and "Imported 12 entries" in first.out and "12 new" in first.out
    second = jcache("import", archive, "--root", target)
    assert second.code == 0 and "Imported 0 entries" in second.out and "12 present and equal" in second.out
    check_clean(jcache, target)


def test_dry_run(jcache: Jcache, archive: Path, target: Path) -> None:
    """A dry run reads only the head, writes nothing and prints the numbers of the real import."""
    head = target.with_name("head")
    head.write_bytes(archive.read_bytes())
    planned = jcache("import", head, "--root", target, "--dry-run", "--json")
    assert planned.code == 0 and not target.exists()
    done = jcache("import", archive, "--root", target, "--json")
    assert planned.json["entries"] == done.json["entries"] and planned.json["bytes"] == done.json["bytes"]
    assert planned.json["dry_run"] and planned.json["archive"] == done.json["archive"]


def test_different(jcache: Jcache, archive: Path, target: Path) -> None:
    """A different entry is kept and reported by exit code 3; --replace takes the archive's."""
    a_key = key(0)
    place = add(create_root(target).directory(Kind.EXECUTABLES), a_key, content(Kind.EXECUTABLES, a_key, build=1))
    kept = jcache("import", archive, "--root", target)
    assert kept.code == 3 and "1 present and different, kept" in kept.out and "--replace" in kept.out
    assert place.read_bytes() == content(Kind.EXECUTABLES, a_key, build=1)
    replaced = jcache("import", archive, "--root", target, "--replace")
    assert replaced.code == 0 and "1 replaced" in replaced.out
    assert place.read_bytes() == content(Kind.EXECUTABLES, a_key)
    check_clean(jcache, target)


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


def test_what_is_replaced_can_be_had_back(jcache: Jcache, archive: Path, target: Path) -> None:
    """--replace takes the other entry to quarantine, from where it can be put back."""
    mine = content(Kind.EXECUTABLES, key(0), build=1)
    place = add(create_root(target).directory(Kind.EXECUTABLES), key(0), mine, used_ns=10**18)
    replaced = jcache("import", archive, "--root", target, "--replace")
    assert replaced.code == 0 and "jcache quarantine list" in replaced.out
    (record,) = jcache("quarantine", "list", "--json", "--root", target).json["quarantine"]
    assert (record["key"], record["damage"], record["bytes"]) == (key(0), "replaced", len(mine))
    assert jcache("quarantine", "restore", record["id"], "--root", target).code == 1
    assert jcache("quarantine", "restore", record["id"], "--replace", "--root", target).code == 0
    assert place.read_bytes() == mine
    (record,) = jcache("quarantine", "list", "--json", "--root", target).json["quarantine"]
    assert record["bytes"] == len(content(Kind.EXECUTABLES, key(0)))
    check_clean(jcache, target)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_listed_alike(jcache: Jcache, tmp_path: Path, target: Path, plain: bool, bounded: bool) -> None:
    """`jcache ls` prints the same for both roots."""
    source = populated(tmp_path / "source", plain=plain, bounded=bounded)
    add(
        source.directory(Kind.EXECUTABLES),
        key(7),
        pack_executable(xla_program(b"fast" * 40), 0, Codec.ZSTD),
        written_ns=10**18,
    )
    assert pipe(source.path, target).code == 0
    for kind in Kind:
        before, after = (jcache("ls", "--json", "--kind", kind, "--root", root) for root in (source.path, target))
        assert before.json["entries"] == after.json["entries"] != []
        assert before.out.replace(str(source.path), str(target)) == after.out


def test_plain_target(jcache: Jcache, archive: Path, target: Path) -> None:
    """If JAX's variable names the directory, import makes a plain JAX directory, as `jcache run` does."""
    result = jcache("import", archive, env={"JAX_COMPILATION_CACHE_DIR": str(target)})
    assert result.code == 0 and len(keys(target)) == 4


@pytest.mark.jax
@pytest.mark.parametrize("by", ["import", "run"])
def test_after_a_prune_without_a_bound(jcache: Jcache, cache: Path, tmp_path: Path, by: str) -> None:
    """Entries imported without the bound's variable get sidecars, so that a JAX with a bound can store."""
    archive = tmp_path / "archive"
    assert jcache("export", "--root", cache, "-o", archive).code == 0
    assert jcache("prune", "--keep-last", "1", "--root", cache).code == 0
    if by == "import":
        assert jcache("import", archive, "--root", cache).code == 0
    else:
        assert jcache("run", "--root", cache, "--", sys.executable, str(PROGRAM)).code == 0
    (gone, *_) = sorted(keys(cache))
    for suffix in ("-cache", "-atime"):
        (cache / f"{gone}{suffix}").unlink()
    before = keys(cache)
    again = run_jax(cache, bounded=10**9)
    assert again.code == 0 and not again.err and keys(cache) > before


@pytest.mark.jax
def test_for_a_bounded_jax(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """If the environment sets JAX's bound, sidecars are made, so that JAX can store; otherwise they are not."""
    archive, target = tmp_path / "archive", tmp_path / "target"
    assert jcache("export", "--root", cache, "-o", archive).code == 0
    bound = {"JAX_COMPILATION_CACHE_DIR": str(target), "JAX_COMPILATION_CACHE_MAX_SIZE": "100000000"}
    assert jcache("import", archive, "--root", tmp_path / "unbounded").code == 0
    assert not list((tmp_path / "unbounded").rglob("*-atime"))
    assert jcache("import", archive, env=bound).code == 0
    before = keys(target)
    assert before and all((target / f"{key}-atime").exists() for key in before)
    other = ("-c", "import jax; jax.jit(lambda x: x * 3 - 1)(2.0).block_until_ready()")
    done = run_jax(target, bounded=100_000_000, program=other)
    assert (done.code, done.err) == (0, "") and keys(target) > before
    check_clean(jcache, target)


def assert_found_again(jcache: Jcache, archive: Path, old: Path, before: set[str], *, passed_over: int = 0) -> None:
    """Assert that JAX hits every entry of an archive at the path in its keys, as the forecast says."""
    for dry in (["--dry-run"], []):
        result = jcache("import", archive, "--root", old, "--json", *dry)
        assert result.code == 0 and result.json["forecast"]["will"] == len(before)
        assert result.json["passed_over"] >= passed_over
    run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS)
    assert keys(old) == before
    check_clean(jcache, old)


@pytest.mark.jax
@pytest.mark.skipif(not PATH_IN_KEYS, reason="this JAX has no path in its keys")
def test_at_the_path_that_they_are_keyed_for(jcache: Jcache, tmp_path: Path) -> None:
    """If nothing exists at the path in the keys, import makes a plain JAX directory there, so that JAX hits
    all entries.
    """
    old, archive = tmp_path / "old", tmp_path / "archive"
    assert run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS).code == 0
    before = keys(old)
    assert jcache("export", "--root", old, "-o", archive).code == 0
    old.rename(tmp_path / "gone")
    assert_found_again(jcache, archive, old, before)


@pytest.mark.jax
@pytest.mark.skipif(not PATH_IN_KEYS, reason="this JAX has no path in its keys")
def test_a_tar_at_the_path_that_it_is_keyed_for(jcache: Jcache, tmp_path: Path) -> None:
    """A tar is imported likewise, whatever precedes its first executable; at other paths, the root gets
    jcache's layout.
    """
    old, archive = tmp_path / "old", tmp_path / "old.tar.gz"
    assert run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=WITH_PATHS).code == 0
    before = keys(old)
    (tmp_path / "README").write_bytes(b"first")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "README", "README")
        tar.add(old, "old")
    old.rename(tmp_path / "gone")
    assert_found_again(jcache, archive, old, before, passed_over=1)
    assert jcache("import", archive, "--root", tmp_path / "new").code == 0
    assert keys(tmp_path / "new" / "executables") == before


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


def test_over_the_cap(jcache: Jcache, archive: Path, target: Path) -> None:
    """An import evicts nothing, and reports it if JAX's bound is exceeded."""
    result = jcache("import", archive, "--root", target, env={"JAX_COMPILATION_CACHE_MAX_SIZE": "100"})
    assert result.code == 0 and "prune --max-size 100" in result.out
    assert len(keys(target / "executables")) == 4


def test_terminal(archive: Path) -> None:
    """An archive is not typed in."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*JCACHE, "import", "-"], stdin=theirs, env=clean_environment(), capture_output=True, text=True, check=False
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2 and "terminal" in done.stderr


@pytest.mark.parametrize("what", ["absent", "", "directory", "text", "empty"])
def test_no_archive(jcache: Jcache, tmp_path: Path, target: Path, what: str) -> None:
    """A file that is no archive is refused in one sentence, and no root is made."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "text").write_text("hello" * 1000)
    (tmp_path / "empty").write_text("")
    result = jcache("import", tmp_path / what if what else "", "--root", target)
    assert result.code in (1, 2) and len(result.err.splitlines()) == 1
    assert not target.exists()


@pytest.mark.parametrize(
    "files",
    [{}, {"a/b": b"hello", "c": b""}, {"a/manifest.json": b'{"directory":"/"}'}, {f"{key(1)}-atime": bytes(8)}],
)
def test_nothing_of_a_cache(target: Path, files: dict[str, bytes]) -> None:
    """A tar without any entry is refused in one sentence, and no root is made."""
    for options in ((), ("--dry-run",), ("--json",)):
        refused = _import(tar_of(files), target, *options)
        assert refused.code == 1 and refused.out == "" and len(refused.err.splitlines()) == 1
        assert all(name in refused.err for name in files if "manifest" not in name)
        assert not target.exists()


def test_packed_anew(tmp_path: Path, target: Path) -> None:
    """An archive whose members were packed again is imported as a tar; the message names what is lost, with exit 3."""
    raw = _raw(packed(populated(tmp_path / "source")))
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        files = {info.name: _data(tar, info) for info in tar}
    again = tar_of(dict(sorted(files.items())) | {"manifest.json.sig": b"signed"})
    for options in (("--dry-run",), ()):
        taken = _import(again, target, *options)
        assert taken.code == 3 and "packed again: its signature was not checked" in taken.out
    assert len(list(target.rglob("*-cache"))) == 12
    assert _import(again, target, "--allowed-signers", os.devnull).code == 12


def _raw(archive: bytes) -> bytes:
    """The tar inside."""
    return zstandard.ZstdDecompressor().stream_reader(archive, read_across_frames=True).read()


def _data(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    assert file is not None
    return file.read()


def test_closed_input(target: Path) -> None:
    """A closed standard input is reported as a usage error."""
    result = call(["bash", "-c", f"'{sys.executable}' -m jcache import - --root '{target}' <&-"])
    assert result.code == 2 and len(result.err.splitlines()) == 1 and not target.exists()


# -- trust


@needs_openssh
def test_an_archive_signed_by_an_older_jcache(jcache: Jcache, target: Path) -> None:
    """An archive that jcache signed before ssh-keygen did it is accepted; where its signer is not listed it is not."""
    archive = SIGNED / "archive.tar.zst"
    result = jcache("import", archive, "--root", target, "--allowed-signers", SIGNED / "allowed_signers")
    assert result.code == 0 and "3 new" in result.out and "Signed by alice@example.org" in result.out
    assert jcache("import", archive, "--root", target, "--allowed-signers", os.devnull).code == 12


def test_a_signature_without_openssh(jcache: Jcache, tmp_path: Path, target: Path) -> None:
    """If no ssh-keygen is found, a signed archive is refused before a byte is written, and the message has a remedy."""
    for options in ((), ("--allowed-signers", SIGNED / "allowed_signers")):
        result = jcache("import", SIGNED / "archive.tar.zst", "--root", target, *options, env={"PATH": str(tmp_path)})
        assert result.code == 1 and len(result.err.splitlines()) == 1 and "install OpenSSH" in result.err
        assert not target.exists()


@needs_openssh
def test_signature(jcache: Jcache, tmp_path: Path, target: Path) -> None:
    """Only entries that an allowed signer signed are imported; a changed payload is refused with exit 12."""
    for name in ("me", "stranger"):
        new_key(tmp_path / name)
    allowed = allowed_signers(tmp_path, f"me@example.org {public(tmp_path / 'me')}")
    source = populated(tmp_path / "source")
    archives = {}
    for name in ("me", "stranger", "nobody"):
        archives[name] = tmp_path / f"{name}.archive"
        sign = ("--sign", tmp_path / name) if name != "nobody" else ()
        assert jcache("export", "--root", source.path, "-o", archives[name], *sign).code == 0
    strict = ("--root", target, "--require-signature", "--allowed-signers", allowed)
    assert jcache("import", archives["nobody"], "--root", target, "--require-signature").code == 2
    naming = ("--root", target, "--allowed-signers", allowed)  # whoever names signers wants a signature
    for refused in (archives["nobody"], archives["stranger"]):
        for options in (strict, naming):
            assert jcache("import", refused, *options).code == 12
            assert not target.exists()
    raw = bytearray(zstandard.ZstdDecompressor().decompressobj().decompress(archives["me"].read_bytes()))
    at = raw.rfind(content(Kind.GRAPHS, key(2000)))
    assert at > 0
    raw[at + 50] ^= 1
    touched = jcache("import", _written(tmp_path / "touched", raw), *strict)
    assert "1 entry differs from the archive that me@example.org signed" in touched.err
    assert touched.code == 12 and key(2000)[:20] in touched.out and "Signed by me@example.org" in touched.out
    assert not (target / "graphs-v1" / f"{key(2000)}-cache").exists()
    check_clean(jcache, target)
    unnamed = jcache("import", tmp_path / "touched", "--root", tmp_path / "other")  # nobody was asked for
    assert unnamed.code == 12 and "1 entry differs from the archive that the manifest's signer signed" in unnamed.err
    whole = jcache("import", archives["me"], *strict)
    assert whole.code == 0 and "1 new" in whole.out
    manifest = raw.replace(b'"root":"', b'"root":"x', 1)[: len(raw)]
    assert jcache("import", _written(tmp_path / "manifest", manifest), *strict).code in (1, 12)


def _written(path: Path, tar: bytes | bytearray) -> Path:
    path.write_bytes(zstandard.ZstdCompressor().compress(bytes(tar)))
    return path


# -- hostile archives


def _outside(info: tarfile.TarInfo) -> None:
    info.name = f"../beyond/{info.name}"


def _link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "../beyond/precious", 0


def _absolute(info: tarfile.TarInfo) -> None:
    info.name = f"/tmp/{info.name}"


def _device(info: tarfile.TarInfo) -> None:
    info.type, info.size = tarfile.CHRTYPE, 0


@pytest.mark.parametrize("change", [_outside, _absolute, _link, _device])
@pytest.mark.parametrize("how", ["plain", "ours"])
def test_hostile_members(jcache: Jcache, tmp_path: Path, target: Path, how: str, change: object) -> None:
    """Members that lead out of the root, links and devices are refused in one sentence."""
    assert callable(change)
    name = f"{key(1)}-cache"
    data = content(Kind.EXECUTABLES, key(1))
    if how == "plain":
        tar = tar_of({name: data}, change)
    else:
        source = create_root(tmp_path / "source")
        add(source.directory(Kind.EXECUTABLES), key(1), data)
        tar = _with_entries(packed(source), change)
    result = jcache("import", "-", "--root", target, stdin="") if not tar else _import(tar, target)
    assert result.code == 1 and len([line for line in result.err.splitlines() if line.startswith("jcache:")]) == 1
    assert not list(target.rglob("*-cache"))


def _with_entries(archive: bytes, change: object) -> bytes:
    """The same archive with the headers of its entries changed."""
    assert callable(change)
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(archive)
    stream = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(raw)) as old, tarfile.open(fileobj=stream, mode="w") as new:
        for info in old:
            data = old.extractfile(info)
            assert data is not None
            held = data.read()
            if info.name.endswith("-cache"):
                change(info)
            new.addfile(info, io.BytesIO(held))
    return zstandard.ZstdCompressor().compress(stream.getvalue())


def _import(archive: bytes, target: Path, *options: str) -> Result:
    done = subprocess.run(
        [*JCACHE, "import", "-", "--root", str(target), *options],
        input=archive,
        env=clean_environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_duplicate_and_unlisted(tmp_path: Path, target: Path) -> None:
    """An entry that is there twice, or that the manifest does not name, ends the import."""
    source = create_root(tmp_path / "source")
    add(source.directory(Kind.EXECUTABLES), key(1), content(Kind.EXECUTABLES, key(1)))
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(packed(source))
    header = raw.index(b"executables/" + key(1).encode())
    block = raw[header : header + 512 + -(-len(content(Kind.EXECUTABLES, key(1))) // 512) * 512]
    twice = zstandard.ZstdCompressor().compress(raw[:header] + block + raw[header:])
    refused = _import(twice, target)
    assert refused.code == 1 and "1 entry is stored so far, completely." in refused.err
    assert keys(target / "executables") <= {key(1)}


def test_bomb(target: Path) -> None:
    """A small archive of very many bytes is refused long before it ends."""
    compressor = zstandard.ZstdCompressor(level=19).compressobj()
    more, zeros = zstandard.COMPRESSOBJ_FLUSH_BLOCK, bytes(1 << 20)
    begin = compressor.compress(tar_of({f"{key(1)}-cache": b""})[:512]) + compressor.flush(more)
    pieces = [compressor.compress(zeros) + compressor.flush(more) for _ in range(100)]  # as small as they become
    with subprocess.Popen(
        [*JCACHE, "import", "-", "--root", str(target)],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin and process.stderr
        process.stdin.write(begin)
        written = 0
        with suppress(BrokenPipeError):
            for _ in range(1_000_000):  # a terabyte
                written += process.stdin.write(pieces[-1])
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 1 and written < 8 << 20  # a few buffers
    assert not list(target.rglob("*-cache"))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_truncated(jcache: Jcache, tmp_path: Path, target: Path, share: float) -> None:
    """A stream that ends too early leaves a clean root, and the whole one brings the rest."""
    whole = packed(populated(tmp_path / "source", count=100))
    torn = _import(whole[: int(len(whole) * share)], target)
    assert torn.code == 1 and "truncated" in torn.err
    assert ("the complete archive adds the rest" in torn.err) is target.exists()
    if target.exists():
        check_clean(jcache, target)
    assert _import(whole, target).code == 0
    assert len(list(target.rglob("*-cache"))) == 300


def test_a_short_text_is_no_archive(target: Path) -> None:
    """An error page of a server, shorter than a tar's header, is refused like any other text."""
    told = _import(b"<html>404 Not Found</html>", target)
    assert told.code == 1 and "ends after 26 bytes: it is truncated, or neither an archive of jcache nor" in told.err


# -- interrupted


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
    again = _import(whole, target, "--json")
    assert again.code == 0 and again.json["entries"]["new"] == 900 - there


def test_read_only(jcache: Jcache, archive: Path, tmp_path: Path) -> None:
    """If a root cannot be made, one sentence says so."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = jcache("import", archive, "--root", blocked / "below")
    assert result.code in (1, 10) and len(result.err.splitlines()) == 1


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


def test_source_is_unchanged(tmp_path: Path, target: Path) -> None:
    """A pipe changes no entry of the source."""
    source = populated(tmp_path / "source")
    before = tree(source.directory(Kind.EXECUTABLES))
    assert pipe(source.path, target).code == 0
    assert tree(source.directory(Kind.EXECUTABLES)) == before


def test_help(jcache: Jcache) -> None:
    """The help has an example."""
    assert "jcache export | ssh host jcache import -" in " ".join(jcache("import", "--help").out.split())
    assert call([*JCACHE, "import"]).code == 2


@pytest.mark.parametrize("what", ["a link", "a link to nowhere", "a file", "the root a link to nowhere"])
def test_what_is_in_the_place_of_a_directory(jcache: Jcache, tmp_path: Path, archive: Path, what: str) -> None:
    """A link or file in the place of a directory ends a dry run and an import; neither follows it or changes
    anything.
    """
    target, away = create_root(tmp_path / "target").path, tmp_path / "away"
    if what == "a link":
        away.mkdir()
    if "root" not in what:
        (target / "executables").rmdir()
    if what == "a file":
        (target / "executables").write_bytes(b"")
    elif what.startswith("a link"):
        (target / "executables").symlink_to(away)
    else:
        target = tmp_path / "link"
        target.symlink_to(away)
    dry, done = (jcache("import", archive, "--root", target, *more) for more in (["--dry-run"], []))
    assert dry.code == done.code == 1 and dry.err == done.err
    assert ("is no directory" if what == "a file" else f"is a symbolic link to {away}") in dry.err
    assert not away.exists() or not list(away.iterdir())
