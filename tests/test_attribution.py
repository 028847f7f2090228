"""Whose reading it is: the program's, an installed package's, or nobody's."""

import importlib.resources
import importlib.util
import inspect
import linecache
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from jcache.attribution import Reader, looks_for_code, reader, reads_for_itself
from jcache.package import OWN_FILES
from tests.helpers.fingerprints import executed
from tests.helpers.jax_programs import run
from tests.helpers.reads import WATCH, reads_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for the program's own modules, which are not imported yet."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_what_python_asks_for_code_does_not_count(tmp_path: Path) -> None:
    """Where sources are, and what can be imported."""
    reads = reads_of(lambda: [inspect.getsource(reads_of), importlib.util.find_spec("wave")])
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
    """Tracebacks read the lines that they show; other files that are read line by line count, also those of Python."""
    (package / "failing.py").write_text("def fail():\n    1 / 0\n")
    failing = importlib.import_module("failing")

    def block() -> None:
        try:
            failing.fail()
        except ZeroDivisionError:
            assert "1 / 0" in traceback.format_exc()

    linecache.clearcache()
    assert not reads_of(block).parts
    for name in ("lines.txt", "settings.py"):
        (package / name).write_text("2")
        assert list(reads_of(lambda: linecache.getlines(str(package / name))).parts) == [f"file {package}/{name}"]  # noqa: B023


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


def frame_of(*modules: tuple[str, str]) -> FrameType:
    """The innermost of frames of functions in modules, given by name and path, each of which calls the next."""

    def innermost() -> FrameType:
        return sys._getframe(1)

    call: Callable[[], FrameType] = innermost
    for name, path in reversed(modules):
        call = executed("def call(): return inner()", path, __name__=name, inner=call)["call"]
    return call()


MINE, ITS, STDLIB = ("model", "/home/ada/model.py"), ("grid.io", "/opt/site-packages/grid/io.py"), ("json", "json.py")
JAX, JCACHE = ("jax._src.api", "/opt/site-packages/jax/api.py"), ("jcache.store", OWN_FILES + "store.py")
IMPORTER = ("importlib._bootstrap", "<frozen importlib._bootstrap>")
WRAPPER = ("jcache.fingerprint.io.audit", OWN_FILES + "fingerprint/io/audit.py")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([MINE], Reader.PROGRAM),
        ([MINE, STDLIB], Reader.PROGRAM),
        ([JAX, MINE], Reader.PROGRAM),
        ([IMPORTER, MINE], Reader.PROGRAM),
        ([MINE, ITS, STDLIB], Reader.PROGRAM),
        ([MINE, JAX], Reader.NOBODY),
        ([MINE, JAX, STDLIB], Reader.NOBODY),
        ([MINE, ("jax_cuda12_plugin", "/opt/site-packages/jax_cuda12_plugin.py")], Reader.NOBODY),
        ([MINE, JCACHE], Reader.NOBODY),
        ([MINE, JCACHE, ("etils.epath", "/opt/site-packages/etils/epath.py")], Reader.NOBODY),
        ([MINE, JCACHE, ITS], Reader.NOBODY),
        ([MINE, JAX, ITS], Reader.PROGRAM),
        ([MINE, WRAPPER], Reader.PROGRAM),
        ([MINE, JAX, WRAPPER], Reader.NOBODY),
        ([MINE, IMPORTER], Reader.NOBODY),
        ([MINE, IMPORTER, ITS], Reader.IMPORT),
        ([MINE, IMPORTER, ITS, STDLIB], Reader.IMPORT),
    ],
)
def test_the_frames_tell_who_reads(frames: list[tuple[str, str]], expected: Reader) -> None:
    """From the one that reads outwards, the first that is not neutral decides."""
    assert reader(frame_of(*frames), sys._getframe()) is expected


@pytest.mark.parametrize(
    ("frames", "path", "expected"),
    [
        ([MINE], "a.py", False),
        ([MINE, STDLIB], "a", False),
        ([MINE, JAX, STDLIB], "a", False),
        ([MINE, IMPORTER, ITS], "a", False),
        ([MINE, WRAPPER], "a", False),
        ([MINE, JCACHE], "a", True),
        ([MINE, JCACHE, STDLIB], "a", True),
        ([MINE, IMPORTER], "a.py", True),
        ([MINE, ("linecache", "linecache.py")], __file__, True),
        ([MINE, ("linecache", "linecache.py")], "a.py", False),
        ([MINE, ("traceback", "traceback.py"), ("linecache", "linecache.py")], "a.py", True),
        ([MINE, ("linecache", "linecache.py")], "a.txt", False),
    ],
)
def test_what_is_read_to_import_or_show_code_is_told_apart(
    frames: list[tuple[str, str]], path: str, *, expected: bool
) -> None:
    """And what jcache reads; all else is the program's input, whoever reads it."""
    assert reads_for_itself(frame_of(*frames), path) is expected


def test_the_frame_that_has_begun_the_block_is_the_programs() -> None:
    """Whatever has called it."""
    inner = frame_of(JAX, MINE, STDLIB)
    begun = inner.f_back
    assert begun is not None and reader(inner, begun.f_back) is Reader.PROGRAM
    assert reader(frame_of(JAX, STDLIB), None) is Reader.NOBODY


def test_sources_that_pythons_own_modules_look_up_are_code() -> None:
    """Of other files they read for the program."""
    frame = frame_of(MINE, ("linecache", "linecache.py"))
    assert reader(frame, sys._getframe(), __file__) is Reader.NOBODY
    for path in ("model.py", "rates.txt"):
        assert reader(frame, sys._getframe(), path) is Reader.PROGRAM
    assert looks_for_code(frame_of(MINE, ("inspect", "inspect.py"), ("os", "os.py")))
    assert not looks_for_code(frame_of(("inspect", "inspect.py"), MINE, ("os", "os.py")))
