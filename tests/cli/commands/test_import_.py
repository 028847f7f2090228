"""`jcache import` as users run it: real caches, real pipes, hostile archives."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from jcache.cli.commands.import_ import signers_file
from jcache.errors import InvalidValue
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.store.roots import create_root, open_root
from tests.helpers.command_line import PROGRAM, Jcache, Result, call, clean_environment, entry_files, keys, run_jax
from tests.helpers.entries import add, key, tree, xla_program
from tests.helpers.imports import check_clean, content, facts, import_bytes, packed, populated, tar_of
from tests.helpers.signatures import allowed as allowed_signers, needs_openssh, new_key, public
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S
from tests.jax_internals.test_cache_hook import PATH_IN_KEYS

SIGNED = Path(__file__).parents[2] / "data" / "signed"  # by Ed25519, as commit accb188 did
JCACHE = [sys.executable, "-m", "jcache"]
WITH_PATHS = "xla_gpu_per_fusion_autotune_cache_dir"  # JAX's default, with which it hashes the directory's path


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


@pytest.mark.full
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


@pytest.mark.full
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


# -- what a user sees


@pytest.mark.full
def test_dry_run(jcache: Jcache, archive: Path, target: Path) -> None:
    """A dry run reads only the head, writes nothing and prints the numbers of the real import."""
    head = target.with_name("head")
    head.write_bytes(archive.read_bytes())
    planned = jcache("import", head, "--root", target, "--dry-run", "--json")
    assert planned.code == 0 and not target.exists()
    done = jcache("import", archive, "--root", target, "--json")
    assert planned.json["entries"] == done.json["entries"] and planned.json["bytes"] == done.json["bytes"]
    assert planned.json["dry_run"] and planned.json["archive"] == done.json["archive"]


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


@pytest.mark.full
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


def test_terminal(archive: Path) -> None:
    """An archive is not typed in."""
    ours, theirs = open_terminal()
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


def test_the_file_of_signers() -> None:
    """Its path is expanded; it must be named where a signature is required."""
    assert signers_file(None, required=False) is None and "~" not in str(signers_file("~/x", required=True))
    for text, required in ((None, True), ("", True), ("", False)):
        with pytest.raises(InvalidValue, match="needs a list of signers"):
            signers_file(text, required=required)


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
    result = jcache("import", "-", "--root", target, stdin="") if not tar else import_bytes(tar, target)
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


def test_a_short_text_is_no_archive(target: Path) -> None:
    """An error page of a server, shorter than a tar's header, is refused like any other text."""
    told = import_bytes(b"<html>404 Not Found</html>", target)
    assert told.code == 1 and "ends after 26 bytes: it is truncated, or neither an archive of jcache nor" in told.err


# -- interrupted


def test_read_only(jcache: Jcache, archive: Path, tmp_path: Path) -> None:
    """If a root cannot be made, one sentence says so."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = jcache("import", archive, "--root", blocked / "below")
    assert result.code in (1, 10) and len(result.err.splitlines()) == 1


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
