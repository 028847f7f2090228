"""`jcache export`: its archives, destinations and messages."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from typing import Any

import pytest

from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.shipping.archive.manifest import Manifest
from jcache.shipping.archive.manifest_codec import decode
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.command_line import (
    H200,
    PROGRAM,
    Jcache,
    Result,
    call,
    clean_environment,
    entry_files,
    keys,
    run_jax,
)
from tests.helpers.entries import add, copied, key
from tests.helpers.signatures import allowed, needs_openssh, new_key, public, ssh_keygen
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S, until
from tests.shipping.exporter.test_export import incompressible, members

JCACHE = (sys.executable, "-m", "jcache")


def archive(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """An archive's manifest and all of its members."""
    found = members(path.read_bytes())
    return decode(found["manifest.json"]), found


def exported(jcache: Jcache, root: Path, *arguments: str | Path, **options: Any) -> tuple[Manifest, Result]:
    """Return the result and messages of an export to a file."""
    file = root.parent / "exported.tar.zst"
    result = jcache("export", "--root", root, "-o", file, *arguments, **options)
    return archive(file)[0], result


def large(root: Path, megabytes: int = 60) -> None:
    """Add an entry of some MB to a root."""
    add(root, key(1, "large"), incompressible(megabytes), written_ns=10**18)


def test_a_real_cache(jcache: Jcache, cache: Path) -> None:
    """An archive holds all entries of a real JAX, byte by byte, with their makers and directories."""
    manifest, result = exported(jcache, cache)
    assert result.code == 0 and result.out == "" and f"Exported {len(manifest.items)} entries" in result.err
    found = archive(cache.parent / "exported.tar.zst")[1]
    files = {name: data for name, data in found.items() if name.startswith("executables/")}
    assert files == {f"executables/{p.name}": p.read_bytes() for p in cache.glob("*-cache")} and files
    assert {maker.platform for maker in manifest.makers} == {"cpu"} and manifest.jaxlib and manifest.host.cpu
    assert all(maker.cache_path is None for maker in manifest.makers) and "keyed for" not in result.err


@pytest.mark.jax
def test_entries_of_jcache_go_anywhere(jcache: Jcache, tmp_path: Path) -> None:
    """The keys of entries that `jcache run` and `jcache.enable()` have stored contain no directory."""
    root, program = tmp_path / "root", "import jcache; jcache.enable('{}'); import jax; jax.jit(lambda x: x * 3)(1.0)"
    assert jcache("run", "-q", "--root", root, "--", sys.executable, PROGRAM).code == 0
    assert call([sys.executable, "-c", program.format(root)]).code == 0
    manifest, result = exported(jcache, root, "--json")
    assert {item.origin for item in manifest.items} == {"run", "program"}
    assert {item.portable for item in manifest.items if item.origin == "program"} == {True}
    assert json.loads(result.out)["keyed_for"] == {}
    assert {manifest.makers[i.maker or 0].jaxlib for i in manifest.items if i.origin == "run"} == {manifest.jaxlib}


def test_a_gpu_s_cache(jcache: Jcache, tmp_path: Path) -> None:
    """Entries of an H200 are exported where there is no GPU."""
    manifest, result = exported(jcache, copied(H200, tmp_path / "h200"))
    assert result.code == 0 and len(manifest.items) == 3
    assert [(maker.platform, maker.compute_capability) for maker in manifest.makers] == [("cuda", "9.0")]


@pytest.mark.full
def test_the_same_bytes(cache: Path, tmp_path: Path) -> None:
    """Two exports are one archive, whether it goes down a pipe or into a file."""
    for name in ("first", "second"):
        with open(tmp_path / name, "wb") as file:
            subprocess.run([*JCACHE, "export", "-q", "--root", cache], stdout=file, env=clean_environment(), check=True)
    to_file = [*JCACHE, "export", "-q", "--root", str(cache), "-o", str(tmp_path / "third")]
    subprocess.run(to_file, env=clean_environment(), check=True)
    first = (tmp_path / "first").read_bytes()
    assert first and first == (tmp_path / "second").read_bytes() == (tmp_path / "third").read_bytes()


@pytest.mark.skipif(not (shutil.which("zstd") and shutil.which("tar")), reason="needs zstd and tar")
def test_tar_lists_it(jcache: Jcache, cache: Path) -> None:
    """`zstd -d | tar t` lists the manifest first, and then all other members."""
    exported(jcache, cache)
    command = f"zstd -dc '{cache.parent}/exported.tar.zst' | tar t"
    names = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.splitlines()
    assert names[:2] == ["manifest.json", "manifest.json.digest"] and names[-1] == "trailer.json"
    assert {f"executables/{name}" for name in entry_files(cache)} == set(names[2:-1])


def _has_written(process: "subprocess.Popen[str]", directory: Path) -> int:
    """The bytes of the file that a process has open in a directory, though it may have no name; -1: it has none."""
    with suppress(OSError):
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                if os.readlink(link).startswith(f"{directory}/"):
                    return link.stat().st_size
    return -1


class TestSelection:
    def test_as_in_ls(self, jcache: Jcache, cache: Path) -> None:
        """Filters, kinds, ages and keys select entries as in `ls`."""
        listed = jcache("ls", "--root", cache, "-q", "--filter", "name~^jit_").out.split()
        assert {i.key for i in exported(jcache, cache, "--filter", "name~^jit_")[0].items} == set(listed)
        one = next(k for k in keys(cache) if k.startswith("jit_train"))
        assert [i.key for i in exported(jcache, cache, "jit_train")[0].items] == [one]
        assert not exported(jcache, cache, "--kind", "traces")[0].items
        assert exported(jcache, cache, "--used-since", "1d")[0].items
        old = Path(cache / f"{one}-cache")
        os.utime(old, (1, 1))
        Path(cache / f"{one}-atime").unlink(missing_ok=True)  # old JAX writes one to every cache
        assert one not in {i.key for i in exported(jcache, cache, "--used-since", "1d")[0].items}

    @pytest.mark.jax
    def test_a_run(self, jcache: Jcache, tmp_path: Path) -> None:
        """`--run` selects the entries that the run stored or hit."""
        root = tmp_path / "root"
        jcache("run", "-q", "--root", root, "--", sys.executable, PROGRAM)
        program = "import jax; jax.jit(lambda x: x * 3)(1.0)"
        jcache("run", "-q", "--root", root, "--", sys.executable, "-c", program)
        report = jcache("stats", "--root", root, "--run", "last", "--json").json["runs"][0]
        asked = {program["key"] for program in report["programs"] if program["outcome"] in ("hit", "stored")}
        assert {i.key for i in exported(jcache, root, "--run", "last")[0].items} == asked < keys(root / "executables")

    @pytest.mark.parametrize("form", ["{}\n", "{}\r\n", "\n  {}-cache \n\n", "\ufeff{}", "/a/dir/{}-cache\n{}-atime\n"])
    def test_a_delta(self, jcache: Jcache, cache: Path, form: str) -> None:
        """Keys that the other side lists, in any form, are not exported."""
        there = sorted(keys(cache))[:5]
        text = "".join(form.replace("{}", name) for name in there)
        if not text.endswith("\n"):
            text = "\n".join(form.replace("{}", name) for name in there)
        manifest, result = exported(jcache, cache, "--exclude-from", "-", stdin=text)
        assert {i.key for i in manifest.items} == keys(cache) - set(there) and "5 excluded" in result.err
        listed = jcache("ls", "--root", cache, "-q").out
        manifest, result = exported(jcache, cache, "--exclude-from", "-", stdin=listed)
        assert not manifest.items and result.code == 0 and "the archive is empty" in result.err

    @pytest.mark.parametrize("text", ["no key", "jit_f-123", "x" * 5000, "\x1b[31m", "{"])
    def test_a_list_of_something_else(self, jcache: Jcache, cache: Path, tmp_path: Path, text: str) -> None:
        """A list that is none is refused, by its line, before anything is written."""
        (tmp_path / "list").write_text(f"\n{text}\n")
        result = jcache("export", "--root", cache, "-o", tmp_path / "x", "--exclude-from", tmp_path / "list")
        assert result.code == 2 and "Line 2 of" in result.err and not (tmp_path / "x").exists()

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["jit_"], 1), (["nothing"], 1), (["--run", "none"], 1), (["--used-since", "5m"], 2),
            (["--filter", "size>*"], 2), (["--kind", "x"], 2), (["--exclude-from", "/none"], 2),
            (["--exclude-from", "/"], 2), (["-o", ""], 2), (["-o", "/"], 2), (["-o", "/none/x"], 2),
            pytest.param(["--sign", "/none"], 2, marks=needs_openssh),
        ],
    )  # fmt: skip
    def test_what_cannot_be_meant(self, jcache: Jcache, cache: Path, arguments: list[str], code: int) -> None:
        """An argument that matches nothing is reported in one sentence, and nothing is written."""
        result = jcache("export", "--root", cache, *arguments)
        assert result.code == code and result.out == "" and len(result.err.splitlines()) == 1


class TestWhereTo:
    def test_no_terminal(self, cache: Path) -> None:
        """No archive is printed on a terminal; the message says what to do."""
        primary, secondary = open_terminal()
        command = [*JCACHE, "export", "--root", str(cache)]
        done = subprocess.run(
            command, stdout=secondary, stderr=subprocess.PIPE, text=True, env=clean_environment(), check=False
        )
        os.close(secondary)
        os.close(primary)
        assert done.returncode == 2 and "-o FILE" in done.stderr and "ssh host jcache import -" in done.stderr

    @pytest.mark.parametrize("place", ["", ".jcache", "traces-v1", "link"])
    def test_not_among_the_cache_s_own_files(self, jcache: Jcache, cache: Path, tmp_path: Path, place: str) -> None:
        """An archive does not come to lie where JAX looks for entries."""
        (cache / "traces-v1").mkdir()
        (cache / ".jcache").mkdir()
        (tmp_path / "link").symlink_to(cache)
        directory = tmp_path / "link" if place == "link" else cache / place
        result = jcache("export", "--root", cache, "-o", directory / "a.tar.zst")
        assert result.code == 2 and "elsewhere" in result.err and not (directory / "a.tar.zst").exists()

    def test_a_file_is_replaced_at_once(self, jcache: Jcache, cache: Path, tmp_path: Path) -> None:
        """An older archive is replaced, through a link to it as well, by one of its mode, and nothing else is left."""
        (tmp_path / "to").mkdir()
        (tmp_path / "to" / "a").write_text("old")
        (tmp_path / "to" / "a").chmod(0o640)
        (tmp_path / "link").symlink_to(tmp_path / "to" / "a")
        assert jcache("export", "--root", cache, "-o", tmp_path / "link").code == 0
        assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "to") == ["a"]
        assert archive(tmp_path / "to" / "a")[0].items and (tmp_path / "to" / "a").stat().st_mode & 0o777 == 0o640

    def test_what_is_no_file_is_written_to(self, jcache: Jcache, cache: Path, tmp_path: Path) -> None:
        """A device or a pipe by name is used, not replaced."""
        os.mkfifo(tmp_path / "pipe")
        with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
            assert jcache("export", "--root", cache, "-o", tmp_path / "pipe").code == 0
            assert reader.stdout and "manifest.json" in members(reader.stdout.read())
        assert jcache("export", "--root", cache, "-o", os.devnull).code == 0
        assert not Path(os.devnull).is_file()

    @pytest.mark.parametrize("how", ["-o /dev/stdout", "-o /dev/fd/1", "-o >(cat)"])
    def test_the_standard_output_by_name(self, cache: Path, how: str) -> None:
        """A name of the standard output, or of any pipe, is written to."""
        command = f"'{sys.executable}' -m jcache export -q --root '{cache}' {how} | cat"
        done = subprocess.run(["bash", "-c", command], capture_output=True, env=clean_environment(), check=True)
        assert "trailer.json" in members(done.stdout) and not done.stderr

    def test_no_standard_output(self, cache: Path) -> None:
        """Without a standard output, the export reports it and writes no archive."""
        result = call(["bash", "-c", f"'{sys.executable}' -m jcache export --root '{cache}' >&-"])
        assert result.code == 2 and len(result.err.splitlines()) == 1 and "-o FILE" in result.err

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
    @pytest.mark.parametrize("how", ["> /dev/full", "-o /dev/full"])
    def test_a_full_disk(self, cache: Path, how: str) -> None:
        """A full disk is one sentence and exit 1."""
        result = call(["bash", "-c", f"'{sys.executable}' -m jcache export -q --root '{cache}' {how}"])
        assert result.code == 1 and "no space left" in result.err and len(result.err.splitlines()) == 1

    def test_a_file_that_finds_no_room(self, cache: Path, tmp_path: Path) -> None:
        """A file that cannot be completed never appears."""
        large(cache, 3)
        limited = f"ulimit -f 1000; trap '' XFSZ; exec '{sys.executable}' -m jcache"
        command = f"{limited} export --root '{cache}' -o '{tmp_path}/x/a'"
        (tmp_path / "x").mkdir()
        result = call(["bash", "-c", command])
        assert result.code == 1 and "Cannot write the archive" in result.err and "Traceback" not in result.err
        assert os.listdir(tmp_path / "x") == []

    def test_a_reader_that_goes_away(self, cache: Path) -> None:
        """The end of the reader is a sentence and exit 1, since the archive has not arrived."""
        large(cache, 10)
        command = f"'{sys.executable}' -m jcache export --root '{cache}' | head -c 100000 > /dev/null"
        command += "; exit ${PIPESTATUS[0]}"
        result = call(["bash", "-c", command])
        assert result.code == 1 and "ended early" in result.err and len(result.err.splitlines()) == 1
        assert "after 0 B" not in result.err

    def test_a_slow_reader(self, cache: Path) -> None:
        """A non-blocking pipe loses no data."""
        large(cache, 5)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with subprocess.Popen([*JCACHE, "export", "-q", "--root", cache], stdout=writer) as process:
            until(lambda: not select([], [writer], [], 0)[1])  # it is full
            os.close(writer)
            with open(reader, "rb") as stream:
                found = members(stream.read())
        assert process.returncode == 0 and "trailer.json" in found

    @pytest.mark.full
    def test_interrupted(self, cache: Path, tmp_path: Path) -> None:
        """Ctrl-C leaves no file, not even a temporary one, and is exit 130 without a traceback."""
        for i in range(4):
            add(cache, key(i, "large"), incompressible(20))
        (place := tmp_path / "x").mkdir()

        def interrupted(at: int) -> bool:
            """Return whether the interruption came before the archive was complete."""
            command: list[str | Path] = [*JCACHE, "export", "--root", cache, "-o", place / "a", "--solid"]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                until(lambda: process.poll() is not None or _has_written(process, place) >= at)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=LIMIT_S)
            if (place / "a").exists():
                (place / "a").unlink()
                return False
            assert "Traceback" not in err
            assert process.returncode == 130 and os.listdir(place) == []
            return True

        for at in (0, 1, 3_000_000):
            until(lambda at=at: interrupted(at))  # type: ignore[misc]


@needs_openssh
def test_signed(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """OpenSSH itself verifies the signature that `--sign` makes of the manifest."""
    ssh = new_key(tmp_path / "key")
    assert "(signed)" in jcache("export", "--root", cache, "-o", tmp_path / "a", "--sign", ssh).err
    found = archive(tmp_path / "a")[1]
    (tmp_path / "sig").write_bytes(found["manifest.json.sig"])
    words = ("-f", allowed(tmp_path, f"me {public(ssh)}"), "-I", "me", "-n", "jcache-archive", "-s", tmp_path / "sig")
    assert ssh_keygen("-Y", "verify", *words, data=found["manifest.json"]).returncode == 0


class Typing:
    """An export that asks for a key's passphrase on a terminal of its own."""

    def __init__(self, cache: Path, folder: Path) -> None:
        self.key = new_key(folder / "key", passphrase="secret")
        self.archive, self.temporary = folder / "archive", folder / "temporary"
        self.temporary.mkdir()
        self.master, terminal = open_terminal()
        self.process = subprocess.Popen(
            [*JCACHE, "export", "--root", cache, "-o", self.archive, "--sign", self.key],
            env=clean_environment({"TMPDIR": str(self.temporary)}),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)

    def answer(self, question: bytes, text: bytes) -> None:
        """Type a text once the question is printed, the terminal shows no typed text, and ssh-keygen reads."""
        said = b""
        while question not in said:
            said += os.read(self.master, 1000)
        until(lambda: not self.shows_what_is_typed and self.is_read)
        os.write(self.master, text)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def wait_for_all(self) -> None:
        """Waits until no process has the terminal open."""
        with suppress(OSError):  # Linux says so by EIO, others by an end
            while os.read(self.master, 1000):
                pass

    @property
    def is_read(self) -> bool:
        """Whether ssh-keygen sleeps, as it does once it reads: Ctrl-C between its question and that is lost to it."""
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, fields = file.read_text(errors="replace").rpartition(")")
                state, _, _, session, *_ = fields.split()
                if name.endswith("(ssh-keygen") and int(session) == self.process.pid:
                    return state == "S"
        return not Path("/proc/self/stat").exists()

    @property
    def shows_what_is_typed(self) -> bool:
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)


@pytest.fixture(name="typing")
def typing_fixture(cache: Path, tmp_path: Path) -> Iterator[Typing]:
    typing = Typing(cache, tmp_path)
    yield typing
    typing.end()


@pytest.mark.full
@needs_openssh
def test_a_passphrase_on_a_terminal(typing: Typing) -> None:
    """ssh-keygen asks for the passphrase, and once more after a wrong one, whatever the standard input is."""
    for text in (b"wrong\n", b"secret\n"):
        typing.answer(b"Enter passphrase", text)
    assert typing.process.wait(LIMIT_S) == 0
    assert "manifest.json.sig" in archive(typing.archive)[1] and not list(typing.temporary.iterdir())


@needs_openssh
def test_ctrl_c_at_the_passphrase(typing: Typing) -> None:
    """Ctrl-C at the passphrase ends the export, and leaves no file, no process, and a terminal that shows
    typed text.
    """
    typing.answer(b"Enter passphrase", b"\x03")
    assert typing.process.wait(LIMIT_S) == 130
    until(lambda: typing.shows_what_is_typed)
    typing.wait_for_all()
    assert not typing.archive.exists() and not list(typing.temporary.iterdir())


@pytest.mark.full
@needs_openssh
@pytest.mark.parametrize("mistake", ["passphrase", "no key", "no openssh"])
def test_a_key_that_cannot_sign(cache: Path, tmp_path: Path, mistake: str) -> None:
    """Without a terminal, jcache asks for no passphrase: one sentence reports it before any work."""
    ssh = new_key(tmp_path / "key", passphrase="secret") if mistake == "passphrase" else tmp_path / "missing"
    done = subprocess.run(
        [*JCACHE, "export", "--root", cache, "-o", tmp_path / "a", "--sign", ssh],
        env=clean_environment({"PATH": str(tmp_path)} if mistake == "no openssh" else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == (1 if mistake == "no openssh" else 2) and len(done.stderr.splitlines()) == 1
    expected = {"passphrase": b"ssh-add", "no key": b"ssh-keygen -t ed25519", "no openssh": b"install OpenSSH"}
    assert expected[mistake] in done.stderr and not (tmp_path / "a").exists()


@pytest.mark.full
def test_pins_and_recency(jcache: Jcache, bounded_cache: Path, tmp_path: Path) -> None:
    """Pins, sidecars and the ledger's facts are in the manifest."""
    root = copied(bounded_cache, tmp_path / "root")
    jcache("pin", "jit_train", "--root", root)
    one = next(name for name in keys(root) if name.startswith("jit_train"))
    with Store(Root(root, plain=True)) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, one, seconds=0.125)])
    manifest, _ = exported(jcache, root)
    (item,) = [item for item in manifest.items if item.key == one]
    assert item.pinned and item.sidecar and item.seconds == 0.125
    assert item.recency_ns == int.from_bytes((root / f"{one}-atime").read_bytes(), "little")
    assert item.created_ns == (root / f"{one}{ENTRY_SUFFIX}").stat().st_mtime_ns


@pytest.mark.jax
def test_beside_jax(jcache: Jcache, cache: Path, jax_cache: Path) -> None:
    """A real JAX process that uses the cache during an export notices nothing, and the export is complete."""
    running = subprocess.Popen(
        [*JCACHE, "export", "-q", "--root", cache, "-o", cache.parent / "exported.tar.zst"], env=clean_environment()
    )
    result = run_jax(cache)
    assert result.code == 0 and result.err == "" and running.wait(LIMIT_S) == 0
    assert {item.key for item in archive(cache.parent / "exported.tar.zst")[0].items} >= keys(jax_cache)
