"""What a block of code reads from outside, and why what it builds cannot be stored."""

import hashlib
import importlib.resources
import importlib.util
import inspect
import json
import linecache
import os
import pickle
import pkgutil
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
from jcache.fingerprint.io.reads import Reads
from tests.helpers.jax_programs import run

WATCH = """import json, os, sys
from jcache.fingerprint.io.digests import now
from jcache.fingerprint.io.reads import Reads
"""
SAY = "\nprint(json.dumps([dict(reads.parts), reads.reason]))"


def reads_of(block: Callable[[], object]) -> Reads:
    """What a call reads; what it raises is of no interest."""
    with Reads() as reads, suppress(OSError, KeyError):
        block()
    return reads


def opened(path: str | bytes | Path, mode: str = "rb") -> None:
    open(path, mode).close()


def of(content: bytes) -> str:
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.json"
    path.write_bytes(b'{"rate": 2}')
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for the program's own modules, which are not imported yet."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


READING: Mapping[str, Callable[[Path], object]] = {
    "open": lambda path: opened(str(path)),
    "text": lambda path: opened(path, "r"),
    "pathlib": lambda path: path.read_text(),
    "os.open": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "bytes": lambda path: opened(os.fsencode(path)),
    "pickle": lambda path: pickle.loads(path.read_bytes()),
    "exec": lambda path: exec(compile(path.read_text(), str(path), "exec")),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", READING)
def test_a_file_counts_with_its_content(how: str, tmp_path: Path) -> None:
    """However Python opens a file, its path, size and digest are noted."""
    path = tmp_path / "rates"
    path.write_bytes(pickle.dumps(2) if how == "pickle" else b"2")
    reads = reads_of(lambda: READING[how](path))
    assert dict(reads.parts) == {f"file {path}": of(path.read_bytes())} and reads.reason is None


ASKING: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "os.path.exists": (os.path.exists, "existence"),
    "os.path.isfile": (os.path.isfile, "existence"),
    "os.path.isdir": (os.path.isdir, "existence"),
    "exists": (Path.exists, "existence"),
    "is_file": (Path.is_file, "existence"),
    "is_dir": (Path.is_dir, "existence"),
    "os.path.islink": (os.path.islink, "link"),
    "os.path.lexists": (os.path.lexists, "link"),
    "is_symlink": (Path.is_symlink, "link"),
    "os.readlink": (lambda path: os.readlink(path), "link"),
    "realpath": (os.path.realpath, "link"),
    "resolve": (Path.resolve, "link"),
    "getsize": (os.path.getsize, "status"),
    "getmtime": (os.path.getmtime, "status"),
    "os.stat": (lambda path: os.stat(path), "status"),
    "os.lstat": (lambda path: os.lstat(path), "status"),
    "stat": (Path.stat, "status"),
    "os.access": (lambda path: os.access(path, os.W_OK), "status"),
    "which": (lambda path: shutil.which(str(path)), "existence"),
}


@pytest.mark.parametrize("how", ASKING)
def test_what_there_is_at_a_path_counts_if_it_was_asked(how: str, tmp_path: Path) -> None:
    """Whether there is a file or a directory, where a link leads, or its size, mode and time: as far as was asked."""
    ask, look = ASKING[how]
    path = tmp_path / "rates"
    reads = reads_of(lambda: ask(path))
    assert reads.parts[f"{look} {path}"] == "absent" and reads.reason is None
    path.write_bytes(b"2")
    assert now(reads.parts) != reads.parts
    reads = reads_of(lambda: ask(path))
    assert now(reads.parts) == reads.parts and f"{look} {path}" in reads.parts
    path.write_bytes(b"22")
    assert (now(reads.parts) == reads.parts) == (f"status {path}" not in reads.parts)
    path.rename(tmp_path / "other")
    path.symlink_to("other")
    assert (now(reads.parts) == reads.parts) == (set(reads.parts) == {f"existence {path}"})


def test_what_python_asks_for_code_does_not_count(tmp_path: Path) -> None:
    """Where sources are, and what can be imported."""
    reads = reads_of(lambda: [inspect.getsource(reads_of), importlib.util.find_spec("wave")])
    assert not reads.parts and reads.reason is None


def test_what_a_block_makes_itself_does_not_count(tmp_path: Path) -> None:
    """A block that is not strict may look before it makes something, and into a directory that it has made."""
    (tmp_path / "data").write_bytes(b"2")
    with Reads(strict=False) as reads:
        for name in ("made", "scratch"):
            assert not (tmp_path / name).exists()
        (tmp_path / "made").touch()
        (tmp_path / "scratch" / "below").mkdir(parents=True)
        subprocess.run(["touch", str(tmp_path / "scratch/below/x")], check=True)
        assert (tmp_path / "scratch/below/x").exists() and (tmp_path / "scratch/below/x").read_bytes() == b""
        os.listdir(tmp_path / "scratch" / "below")
        (tmp_path / "scratch" / "link").symlink_to(tmp_path / "data")
        (tmp_path / "scratch" / "link").read_bytes()
    assert reads.reason is None
    assert {name for name in reads.parts if name.startswith("file ")} == {f"file {tmp_path}/scratch/link"}
    with Reads(strict=False) as reads:
        os.makedirs(tmp_path / "scratch", exist_ok=True)
        os.link(tmp_path / "data", tmp_path / "scratch" / "hard")
        (tmp_path / "scratch" / "below" / "x").read_bytes()
    assert f"file {tmp_path}/scratch/below/x" in reads.parts


def test_a_file_that_is_updated_does_not_count(rates: Path) -> None:
    """What a block that is not strict opens to be read and written counts only if it is as it was at the end."""
    with Reads(strict=False) as reads, rates.open("r+") as file:
        file.read()
    assert f"file {rates}" in reads.parts
    with Reads(strict=False) as reads, rates.open("r+") as file:
        file.write("3")
        file.flush()
    assert f"file {rates}" not in reads.parts and reads.reason is None


def test_shared_memory_counts() -> None:
    """Regular files in it do; other files below the same directory do not."""
    with tempfile.NamedTemporaryFile(dir=os.path.join("/dev", "shm")) as file:
        file.write(b"2")
        file.flush()
        with Reads(strict=False) as reads:
            opened(file.name)
            opened("/dev/urandom")
        assert dict(reads.parts) == {f"file {file.name}": of(b"2")} and reads.reason is None


def test_numpy_reads_files(tmp_path: Path) -> None:
    """Arrays loaded by numpy, mapped ones and those that JAX loads through it count."""
    said = run(
        WATCH + "import jax.numpy as jnp, numpy as np\n"
        "os.chdir(sys.argv[1])\n"
        "for name in 'abcd': np.save(name, np.ones(3))\n"
        "with Reads() as reads:\n"
        "    np.load('a.npy'), np.load('b.npy', mmap_mode='r'), np.fromfile('c.npy'), jnp.load('d.npy')" + SAY,
        tmp_path,
    )
    assert said.value == [
        {f"file {name}.npy": of((tmp_path / f"{name}.npy").read_bytes()) for name in "abcd"},
        None,
    ]


def test_a_relative_path_is_another_file_in_another_directory(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noted as it is, and compared with what is there where the program runs."""
    monkeypatch.chdir(rates.parent)
    reads = reads_of(lambda: Path(rates.name).read_text())
    assert list(reads.parts) == [f"file {rates.name}"] and now(reads.parts) == reads.parts
    (rates.parent / "other").mkdir()
    monkeypatch.chdir(rates.parent / "other")
    assert now(reads.parts) == {f"file {rates.name}": "absent"}


def test_a_relative_path_after_the_directory_was_changed(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that goes to a directory by itself has meant the files in that one."""
    monkeypatch.chdir(Path(rates.anchor))

    def block() -> None:
        os.chdir(rates.parent)
        Path(rates.name).read_text()

    with Reads(strict=False) as reads:
        block()
    assert list(reads.parts) == [f"file {rates}"] and reads.reason is None


def test_a_database_counts_as_a_file(tmp_path: Path) -> None:
    """What `sqlite3` opens by its own means is compared as well, with what is still beside it."""
    path = tmp_path / "rates.db"
    path.write_bytes(b"")
    for name in (str(path), f"file:{path}?mode=ro"):
        with Reads(strict=False) as reads, closing(sqlite3.connect(name, uri=True)):
            pass
        assert dict(reads.parts) == {f"file {path}": of(b""), f"file {path}-wal": "absent"}
    with Reads(strict=False) as reads, closing(sqlite3.connect(":memory:")):
        pass
    assert not reads.parts


def test_a_file_that_is_not_there_counts_as_absent(tmp_path: Path) -> None:
    """A program that looks in three places depends on the two where it finds nothing."""
    reads = reads_of((tmp_path / "none").read_text)
    assert dict(reads.parts) == {f"file {tmp_path}/none": "absent"} and reads.reason is None
    (tmp_path / "none").write_text("now it is")
    assert now(reads.parts) != reads.parts


VARIABLES: Mapping[str, Callable[[], object]] = {
    "[]": lambda: os.environ["RATE"],
    "get": lambda: os.environ.get("RATE"),
    "getenv": lambda: os.getenv("RATE", "1"),
    "in": lambda: "RATE" in os.environ,
    "environb": lambda: os.environb.get(b"RATE"),
}


@pytest.mark.parametrize("value", ["0.5", None])
@pytest.mark.parametrize("how", VARIABLES)
def test_an_environment_variable_counts_with_its_value(
    how: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the program asks for a variable, it is noted, and so is that it is not set."""
    monkeypatch.delenv("RATE", raising=False)
    if value is not None:
        monkeypatch.setenv("RATE", value)
    reads = reads_of(VARIABLES[how])
    assert dict(reads.parts) == {"environment RATE": "'0.5'" if value else "absent"} and reads.reason is None


def test_the_last_of_many_blocks_hears_what_the_first_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 loses count of so many changes of a class."""
    monkeypatch.setenv("RATE", "0.5")
    for how in VARIABLES.values():
        assert all(reads_of(how).parts == {"environment RATE": "'0.5'"} for _ in range(200))


@pytest.mark.parametrize(
    ("name", "value"), [("API_TOKEN", "xyz"), ("RATES", "1" * 100), ("RATE", "a\nb"), ("RATE", "\udc80")]
)
def test_long_and_secret_values_are_digested(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored shows no secrets, and stays short; another value is another part all the same."""
    monkeypatch.setenv(name, value)
    reads = reads_of(lambda: os.environ[name])
    (text,) = reads.parts.values()
    assert text == f"{len(value)} characters {hashlib.sha256(os.fsencode(value)).hexdigest()}"
    monkeypatch.setenv(name, value[:-1] + "Z")
    assert now(reads.parts) != reads.parts


def test_what_was_read_is_compared_in_another_process(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal there as long as nothing has changed; an edit that keeps size and times is found."""
    monkeypatch.setenv("RATE", "2")
    parts = reads_of(lambda: (rates.read_text(), os.environ["RATE"])).parts
    program = WATCH + "parts = json.loads(sys.argv[1])\nprint(json.dumps(dict(now(parts)) == parts))"
    assert run(program, json.dumps(dict(parts))).value is True
    assert run(program, json.dumps(dict(parts)), env={"RATE": "3"}).value is False
    before = rates.stat()
    rates.write_bytes(b'{"rate": 3}')
    os.utime(rates, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(program, json.dumps(dict(parts))).value is False


def test_other_parts_are_left_out(rates: Path) -> None:
    """Parts of other kinds are not looked at."""
    assert dict(now({"function": "f", f"file {rates}": "?"})) == {f"file {rates}": of(rates.read_bytes())}


DEEDS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "write": (lambda at: (at / "log").write_text(""), "wrote the file"),
    "append": (lambda at: (at / "log").open("a").close(), "wrote the file"),
    "update": (lambda at: os.write(os.open(at / "rates.json", os.O_RDWR), b"3"), "wrote the file"),
    "temporary": (lambda at: tempfile.TemporaryFile(dir=at).close(), "wrote the file"),
    "remove": (lambda at: (at / "rates.json").unlink(), "removed"),
    "make": (lambda at: (at / "new").mkdir(), "made"),
    "list": (os.listdir, "listed"),
    "scan": (lambda at: os.scandir(at).close(), "listed"),
    "glob": (lambda at: list(at.glob("*")), "listed"),
    "walk": (lambda at: list(os.walk(at)), "listed"),
    "process": (lambda at: subprocess.run([sys.executable, "-c", ""], check=True), "started"),
    "shell": (lambda at: os.system("true"), "started 'true'"),
    "socket": (lambda at: socket.socket().close(), "used the network"),
    "whole environment": (lambda at: dict(os.environ), "read the whole environment"),
    "names": (lambda at: list(os.environ), "read the whole environment"),
    "shown": (lambda at: repr(os.environ), "read the whole environment"),
    "merged": (lambda at: os.environ | {}, "read the whole environment"),
    "set": (lambda at: os.environ.update(JCACHE_TEST="1"), "set the environment variable 'JCACHE_TEST'"),
    "device": (lambda at: opened("/dev/urandom"), "'/dev/urandom', which is no regular file"),
    "directory": (opened, "which is no regular file"),
    "unknown directory": (lambda at: os.open("none", os.O_RDONLY, dir_fd=os.open(at, os.O_RDONLY)), "no regular file"),
    "relative": (lambda at: os.open("none", os.O_RDONLY), "'none' of an unknown directory"),
}


@pytest.mark.parametrize("what", DEEDS)
def test_what_cannot_be_told_again_is_a_reason(what: str, rates: Path) -> None:
    """What a block changes outside, or reads and cannot be digested, says why it must not be stored."""
    deed, reason = DEEDS[what]
    reads = reads_of(lambda: deed(rates.parent))
    os.environ.pop("JCACHE_TEST", None)
    assert reads.reason is not None and reason in reads.reason


def test_a_block_that_is_not_strict_may_do_things(rates: Path) -> None:
    """It may write, list and start; what it lists counts by the names, what it has written itself does not count."""
    (rates.parent / "below").mkdir()
    with Reads(strict=False) as reads:
        (rates.parent / "scratch").write_text("own")
        (rates.parent / "scratch").read_text()
        os.listdir(rates.parent / "below")
        subprocess.run([sys.executable, "-c", ""], check=True)
        rates.read_text()
    assert reads.reason is None
    assert {f"directory {rates.parent / 'below'}", f"file {rates}"} <= set(reads.parts)
    assert f"file {rates.parent / 'scratch'}" not in reads.parts
    (rates.parent / "below" / "new").touch()
    assert {label for label, text in now(reads.parts).items() if text != reads.parts[label]} == {
        f"directory {rates.parent / 'below'}"
    }


def test_a_pipe_is_not_touched(tmp_path: Path) -> None:
    """A pipe that the program is to read is not read by the watcher before."""
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w').write('for you')"])
    got = []
    reads = reads_of(lambda: got.append((tmp_path / "pipe").read_text()))
    assert got == ["for you"] and writer.wait() == 0 and "no regular file" in str(reads.reason)
    assert now([f"file {tmp_path}/pipe"])[f"file {tmp_path}/pipe"] == "no regular file"


def test_a_file_that_changes_meanwhile_is_a_reason(rates: Path) -> None:
    """Nobody can say which of the two contents the program has read."""
    has_read, has_written = threading.Event(), threading.Event()

    def signal(event: threading.Event) -> bool:
        event.set()
        return True

    def write() -> None:
        has_read.wait()
        rates.write_bytes(b'{"rate": 3}')
        has_written.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = reads_of(lambda: (rates.read_text(), signal(has_read), has_written.wait()))
    writer.join()
    assert reads.reason == f"read file {rates}, which changed meanwhile"


def test_large_files_are_a_reason(tmp_path: Path) -> None:
    """Files are digested at each start, so no more than 64 MiB of them are, be it in one or in several."""
    for name in "abc":
        with (tmp_path / name).open("wb") as file:
            file.truncate(30 << 20)
    assert reads_of(lambda: list(map(opened, (tmp_path / "a", tmp_path / "b")))).reason is None
    reads = reads_of(lambda: list(map(opened, (tmp_path / "a", tmp_path / "b", tmp_path / "c"))))
    assert reads.reason == f"read '{tmp_path}/c', which is too large to be digested"


def test_very_many_files_are_a_reason(tmp_path: Path) -> None:
    """No more than a thousand files are noted."""

    def look(count: int) -> None:
        for number in range(count):
            with suppress(FileNotFoundError):
                opened(tmp_path / str(number))

    assert reads_of(lambda: look(1000)).reason is None
    assert reads_of(lambda: look(1001)).reason == "read more than 1,000 files"


def test_the_null_device_is_nothing() -> None:
    """Output that is thrown away is no effect."""
    reads = reads_of(lambda: opened(os.devnull, "w"))
    assert not reads.parts and reads.reason is None


def test_sources_of_imported_modules_are_code(package: Path) -> None:
    """Importing a module reads no file of the program's, but what the module itself reads meanwhile is."""
    (package / "rate.txt").write_text("2")
    (package / "of_my_own.py").write_text(
        f"import os, pathlib\npathlib.Path({str(package / 'rate.txt')!r}).read_text()\nX = os.getenv('X')"
    )
    reads = reads_of(lambda: importlib.import_module("of_my_own"))
    assert list(reads.parts) == ["environment X", f"file {package}/rate.txt"] and reads.reason is None


def test_data_of_packages_are_files(package: Path) -> None:
    """What a program reads through its import system is its reading."""
    (package / "with_data").mkdir()
    (package / "with_data/__init__.py").touch()
    (package / "with_data/rate.txt").write_text("2")
    import_module = importlib.import_module("with_data")
    resource = importlib.resources.files(import_module) / "rate.txt"
    for read in (lambda: pkgutil.get_data("with_data", "rate.txt"), resource.read_text):
        assert list(reads_of(read).parts) == [f"file {package}/with_data/rate.txt"]


def test_sources_that_are_only_shown_are_nobodys(package: Path) -> None:
    """Tracebacks read the lines that they show; other files that are read line by line count."""
    (package / "failing.py").write_text("def fail():\n    1 / 0\n")
    failing = importlib.import_module("failing")

    def block() -> None:
        try:
            failing.fail()
        except ZeroDivisionError:
            assert "1 / 0" in traceback.format_exc()

    linecache.clearcache()
    assert not reads_of(block).parts
    (package / "lines.txt").write_text("2")
    assert list(reads_of(lambda: linecache.getlines(str(package / "lines.txt"))).parts) == [f"file {package}/lines.txt"]


def test_an_installed_package_reads_for_the_program_that_calls_it(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is imported, what it reads counts and nothing is a reason; when it is called, all counts."""
    site = package / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    (site / "rate.txt").write_text("2")
    (site / "installed.py").write_text(
        f"import os\nfrom pathlib import Path\ndef read(): return Path({str(site / 'rate.txt')!r}).read_text()\n"
        "def look(): return os.listdir('/')\nread(), look(), os.getenv('X'), dict(os.environ)"
    )
    reads = reads_of(lambda: importlib.import_module("installed"))
    assert {"environment X", f"file {site}/rate.txt"} <= set(reads.parts) and reads.reason is None
    installed = importlib.import_module("installed")
    assert list(reads_of(installed.read).parts) == [f"file {site}/rate.txt"]
    assert reads_of(installed.look).reason == "listed '/'"


@pytest.mark.jax
def test_jax_and_jcache_read_for_nobody(tmp_path: Path) -> None:
    """Importing JAX, tracing, compiling and caching leave a block empty; what the traced function reads counts."""
    said = run(
        WATCH + "import jcache, numpy\n"
        "os.chdir(sys.argv[1])\n"
        "open('rate', 'w').write('2')\n"
        "def f(x): return x * float(open('rate').read()) + float(os.getenv('OFFSET', '1')) + jax.numpy.ones(3).sum()\n"
        "said = []\n"
        "for enable in (lambda: None, lambda: jcache.enable('root')):\n"
        "    enable()\n"
        "    with Reads() as reads:\n"
        "        import jax\n"
        "        jax.config.update('jax_compilation_cache_dir', os.path.abspath('plain')) if not said else None\n"
        "        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "        jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "        jax.clear_caches()\n"
        "        jax.jit(lambda x: f(x))(1.0)\n"
        "    said.append([list(reads.parts), reads.reason])\n"
        "print(json.dumps([said, len(os.listdir('plain')), len(os.listdir('root/executables'))]))",
        tmp_path,
    )
    (first, second), plain, ours = said.value
    assert first == second == [["environment OFFSET", "file rate"], None] and plain and ours


def test_only_the_thread_of_the_block_counts(rates: Path) -> None:
    """What other threads read is theirs, also where they have blocks of their own."""

    def loader() -> None:
        ask.wait()
        rates.read_text()
        there.append(reads_of(lambda: (rates.read_text(), os.getenv("RATE"))))

    there: list[Reads] = []
    ask = threading.Event()
    thread = threading.Thread(target=loader)
    thread.start()
    with Reads() as here:
        ask.set()
        thread.join()
    assert not here.parts and here.reason is None and len(there[0].parts) == 2


def test_blocks_within_blocks_all_hear(rates: Path) -> None:
    """What an inner block reads is read by the outer one too, and not the other way round."""
    with Reads() as outer:
        rates.read_text()
        with Reads() as inner:
            os.getenv("RATE")
    assert list(inner.parts) == ["environment RATE"] and len(outer.parts) == 2


def test_a_block_ends_with_its_exception(rates: Path) -> None:
    """What was read until then is known."""
    reads = Reads()
    with suppress(ZeroDivisionError), reads:
        rates.read_text()
        raise ZeroDivisionError
    assert list(reads.parts) == [f"file {rates}"]


def test_nothing_stays_replaced() -> None:
    """After the last block, Python's own functions are in their places, in whatever order blocks of threads end."""
    places: list[tuple[type, str]] = [(type(os.environ), "__len__"), (threading.Thread, "start")]
    before = [getattr(*place) for place in places]
    first, second = Reads(), Reads()
    first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        assert getattr(*places[0]) is not before[0]
        pool.submit(second.__exit__, None, None, None).result()
    assert [getattr(*place) for place in places] == before


def test_what_cannot_be_watched_is_a_reason() -> None:
    """Where another audit hook refuses ours, or the environment is not Python's, nothing built may be stored."""
    refusing = (
        "def refuse(event, args):\n    if event == 'sys.addaudithook': raise RuntimeError\nsys.addaudithook(refuse)\n"
    )
    replaced = "os.environ = dict(os.environ)\n"
    for change in (refusing, replaced):
        said = run(WATCH + change + "with Reads() as reads: os.environ.get('X')" + SAY)
        assert "cannot be watched" in said.value[1]


def test_events_of_a_program_with_other_arguments_raise_nothing() -> None:
    """An audit event of the program's own that looks like one of Python's stops nothing, and is a reason."""
    assert "could not be watched" in str(reads_of(lambda: sys.audit("open", "only one")).reason)


def test_names_that_cannot_be_shown_are_a_reason(tmp_path: Path) -> None:
    """Parts are lines of text."""
    for name in (b"a\nb", b"\xff"):
        reads = reads_of(lambda name=name: opened(os.fsencode(tmp_path) + b"/" + name))  # type: ignore[misc]
        assert not reads.parts and reads.reason is not None and reads.reason.isprintable()
