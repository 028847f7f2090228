"""Code in fingerprints: only its own source counts, and the key is the same wherever and by whatever it is run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import executed, imported, write

SOURCES = Path(__file__).parents[2] / "src"
PACKAGE = {
    "model.py": '''
        """A model."""
        import contextlib, enum, functools, math, typing
        from collections import namedtuple, OrderedDict
        from dataclasses import dataclass, field
        from pkg import rates
        from pkg.deep.helpers import *

        CONFIG = {"a": 1.5, "names": {"x", "y", "z", "w"}, "order": OrderedDict(b=1, a=2)}
        Point = namedtuple("Point", "x y", defaults=(2,))

        class Color(enum.Enum):
            RED = 1
            BLUE = 2
            def mixed(self): return rates.rate(self.value)

        class Flags(enum.IntFlag):
            A = 1
            B = 2

        class Named(typing.NamedTuple):
            n: int = 1
            def twice(self): return 2 * self.n

        class Shape(typing.Protocol):
            def area(self) -> float: ...

        @dataclass(order=True)
        class Mesh:
            n: int = 3
            color: Color = Color.RED
            points: list = field(default_factory=list, compare=False)
            @property
            def area(self) -> float: return self.n * math.pi
            @functools.cached_property
            def size(self): return len(self.points)

        @dataclass(frozen=True, slots=True, kw_only=True)
        class Edge:
            a: float = 1.0

        @functools.singledispatch
        def kind(x): return 0

        @kind.register
        def _(x: int): return [y for y in range(x) if y in CONFIG["names"]]

        @functools.lru_cache(maxsize=None)
        def slow(n): return n and slow(n - 1)

        @contextlib.contextmanager
        def within(n):
            yield {k: v for k, v in CONFIG.items()}

        def build(n=1, *, theta=2.0):
            """Build it."""
            import pkg.late as late
            with within(n) as w:
                text = f"{theta:.3f} {n!r} {w['a']=}"
            match n:
                case 0: return late.late(text)
                case Mesh(n=k) if k > 1: return k
            f = lambda x: (y := x + 1) and slow(y)
            return [Color.RED.mixed(), Mesh(n).area, kind(n), f(n), helper(n), Point(1), Flags.A, Named(), Edge()]
    ''',
    "pkg/__init__.py": "",
    "pkg/rates.py": "SCALE = 0.5\ndef rate(x):\n    assert x\n    return x * SCALE\n",
    "pkg/late.py": "def late(text): return sum(ord(c) for c in text)\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/helpers.py": "from ..rates import rate as _rate\ndef helper(x): return _rate(x) + 1\n",
}
PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import model
from jcache.fingerprint import fingerprint
found = fingerprint(model.build, (2,), {"theta": 3.0})
print(json.dumps([found.hash, dict(found.parts)]))
"""


OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER_VERSIONS = sorted({"3.11", "3.12", "3.13"} - {OWN_VERSION})


def interpreters(version: str) -> Iterator[str]:
    """The files that may be an interpreter of a version: on the PATH, and of pyenv, whose shim on it may not run."""
    for directory in os.get_exec_path():
        if found := shutil.which(f"python{version}", path=directory):
            yield found
            installed = Path(found).parent.parent.glob(f"versions/{version}.*/bin/python{version}")
            yield from map(str, sorted(installed, reverse=True))


def is_of(version: str, python: str) -> bool:
    """Whether a file is an interpreter of a version that runs."""
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == version


@pytest.fixture(name="other")
def other_fixture(request: pytest.FixtureRequest) -> str:
    """An interpreter of another version that jcache runs with, where one is at hand."""
    version: str = request.param
    found = next((python for python in interpreters(version) if is_of(version, python)), None)
    if found is None:
        pytest.skip(f"no Python {version} that runs is on the PATH")
    return found


def run(python: str, directory: Path, **env: str) -> list[Any]:
    """What a program in a process of its own finds."""
    command = [python, "-c", PROGRAM, str(SOURCES), str(directory)]
    done = subprocess.run(
        command, env={**os.environ, **env}, cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    value: list[Any] = json.loads(done.stdout)
    return value


def test_the_key_is_the_same_in_every_process_and_directory(tmp_path: Path) -> None:
    """Hash seeds, directories, optimised bytecode files and the import of other modules make no difference."""
    for name in ("here", "there/deep"):
        write(tmp_path / name, PACKAGE)
    hashes = {
        run(sys.executable, tmp_path / name, PYTHONHASHSEED=seed)[0]
        for name in ("here", "there/deep")
        for seed in ("0", "1", "2")
    }
    with imported(tmp_path / "third", PACKAGE) as model:
        hashes.add(fingerprint(model.build, (2,), {"theta": 3.0}).hash)
    assert len(hashes) == 1


@pytest.mark.full
@pytest.mark.parametrize("other", OTHER_VERSIONS, indirect=True)
def test_another_python_makes_another_key(other: str, tmp_path: Path) -> None:
    """A key holds for one version of Python, whose bytecode it is made of."""
    write(tmp_path, PACKAGE)
    assert run(sys.executable, tmp_path)[0] != run(other, tmp_path)[0]


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\necho command not found >&2\nexit 127\n", "#!/no/such/file\n", "no program"]
)
def test_a_shim_that_cannot_run_is_no_interpreter(text: str, tmp_path: Path) -> None:
    """The test above passes over it, as over one of another version."""
    shim = tmp_path / "python3.12"
    shim.write_text(text)
    shim.chmod(0o755)
    assert not is_of("3.12", str(shim)) and not is_of("3.0", sys.executable) and is_of(OWN_VERSION, sys.executable)


def test_assertions_that_are_left_out_count(tmp_path: Path) -> None:
    """Optimised code is other code."""
    write(tmp_path, PACKAGE)
    assert run(sys.executable, tmp_path)[0] != run(sys.executable, tmp_path, PYTHONOPTIMIZE="1")[0]


def test_the_code_that_runs_counts_and_not_its_file(tmp_path: Path) -> None:
    """An edit of the file after the import, and its removal, make no difference."""
    with imported(tmp_path, "def build(): return 1") as model:
        before = fingerprint(model.build).hash
        write(tmp_path, "def build(): return 2")
        assert fingerprint(model.build).hash == before
        (tmp_path / "model.py").unlink()
        assert fingerprint(model.build).hash == before


def test_a_notebooks_cell_counts_by_what_it_does() -> None:
    """Neither the number of the cell nor positions and comments in it count."""
    functions = []
    for number, source in enumerate(["def build(): return 1\n", "# again\ndef build():\n    return 1\n"]):
        functions.append(executed(source, f"<ipython-input-{number}>", __name__="__main__")["build"])
    assert fingerprint(functions[0]).hash == fingerprint(functions[1]).hash


def test_lambdas_on_one_line_are_told_apart() -> None:
    """By where they stand in it, also one within the other."""
    functions: tuple[Any, ...] = (lambda x: x + 1), (lambda x: x + 2), (lambda x: lambda y: x + y)  # fmt: skip
    a, b, c = functions
    assert len({fingerprint(each).hash for each in (a, b, c, c(1), c(2))}) == 5


def test_a_replaced_code_object_counts() -> None:
    """Whoever sets `__code__` changes what runs."""

    def build() -> int:
        return 1

    def other() -> int:
        return 2

    before = fingerprint(build).hash
    build.__code__ = other.__code__
    assert fingerprint(build).hash != before


def test_a_global_that_is_rebound_between_calls_counts(tmp_path: Path) -> None:
    """Nothing that can change is remembered: values, names, functions, defaults, cells, classes and their methods."""
    source = """
        N = [1]
        class C:
            n = 1
            def f(self): return self.n
        def h(k=1): return N[0] + k
        def make():
            x = 1
            def inner(): return x
            def set_x(v):
                nonlocal x
                x = v
            return inner, set_x
        inner, set_x = make()
        def build(): return h() + C().f() + inner()
    """
    with imported(tmp_path, source) as model:
        keys = [fingerprint(model.build).hash]
        for change in (
            lambda: model.N.append(2),
            lambda: setattr(model, "N", (1, 2)),
            lambda: setattr(model.h, "__defaults__", (2,)),
            lambda: setattr(model.h, "note", 1),
            lambda: model.set_x(2),
            lambda: setattr(model.C, "n", 2),
            lambda: setattr(model.C, "f", lambda self: 3),
            lambda: setattr(model, "h", lambda: 5),
            lambda: setattr(model, "len", 5),
            lambda: delattr(model, "h"),
        ):
            change()
            keys.append(fingerprint(model.build).hash)
    assert len(set(keys)) == len(keys) - 1  # `len` is not read


def test_importing_it_imports_no_jax_and_no_numpy() -> None:
    """They are looked up where a program has imported them."""
    program = (
        "import sys, jcache.fingerprint as f; f.fingerprint(print); print('numpy' in sys.modules, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


TELLING = """
import logging
from absl import logging as absl
RUN, SCALE = "{run}", 1.0
class Kept(logging.Handler):
    def emit(self, record): pass
class Notes:
    def info(self, text): pass
log, kept, notes = logging.getLogger("jcache.plain"), logging.getLogger("jcache.kept"), Notes()
kept.handlers = [Kept()]
class Model:
    def __init__(self): self.run, self.rate = RUN, 1.0
    def step(self, x):
        print(self.run)
        return x * self.rate
trained = Model()
def build(x):
    {statement}
    return x * SCALE
"""
TOLD = ("print(RUN)", "log.info('%s', RUN)", "logging.info(RUN)", "absl.info(RUN)", "trained.step(x)")
KEPT = ("kept.info(RUN)", "notes.info(RUN)", "f = print\n    f(RUN)", "print(RUN)\n    x += len(RUN)")


CAPTURED = (
    "with contextlib.redirect_stdout(io.StringIO()): trained.step(x)", "log.addHandler(Kept())\n    log.info(RUN)",
    "sys.stdout = Notes()\n    print(RUN)", "text = io.StringIO()\n    report(text)\n    x += len(text.getvalue())",
)  # fmt: skip


@pytest.mark.parametrize("statement", CAPTURED)
def test_what_is_printed_counts_where_code_may_capture_it(tmp_path: Path, statement: str) -> None:
    """Whatever function prints it."""
    keys, more = set(), "\nimport contextlib, io, sys\ndef report(text): print(RUN, file=text)\n"
    for run in "ab":
        with imported(tmp_path / run, TELLING.format(run=run, statement=statement) + more) as model:
            keys.add(fingerprint(model.build, (1.0,)).hash)
    assert len(keys) == 2


@pytest.mark.parametrize("statement", [*TOLD, *KEPT])
def test_what_is_only_printed_or_logged_does_not_count(tmp_path: Path, statement: str) -> None:
    """Unless a handler or an object of the program's own gets it."""
    keys = set()
    for run in "ab":
        with imported(tmp_path / run, TELLING.format(run=run, statement=statement)) as model:
            keys.add(fingerprint(model.build, (1.0,)).hash)
    assert (len(keys) == 1) is (statement in TOLD)


def test_what_another_print_is_given_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the module's own, and one that the program has put in the place of Python's."""
    keys = set()
    for run in "ab":
        with imported(tmp_path / run, TELLING.format(run=run, statement="print(RUN)") + "def print(x): ...") as model:
            keys.add(fingerprint(model.build, (1.0,)).hash)
        with imported(tmp_path / run, TELLING.format(run=run, statement="print(RUN)")) as model:
            with monkeypatch.context() as patched:
                patched.setattr("builtins.print", lambda *_: None)
                found = fingerprint(model.build, (1.0,))
            keys.add(found.hash)
    assert len(keys) == 4
