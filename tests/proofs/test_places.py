"""A file that another process reads elsewhere counts by what is there: in a run's own directory, and in a copy of the
program, in another working, temporary or home directory.

Programs are drawn: how the path of the file is made, and how the file is read. Each runs five times: twice with one
content, twice with another one, and with the first one again. The result must be that of plain Python each time.
"""

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment

pytestmark = [pytest.mark.jax, pytest.mark.full]


def within(path: str) -> str:
    """Return the text of a program's `HERE`, whose path the program makes each time that it is used."""
    return f"class Dir:\n    def __fspath__(self):\n        return {path}\nHERE = Dir()"


NEW: Final = {  # directories that each start makes
    "mkdtemp": "HERE = tempfile.mkdtemp()",
    "prefix": "HERE = Path(tempfile.mkdtemp(prefix='run-'))",
    "time": "HERE = Path('runs', time.strftime('%Y%m%d-%H%M%S') + str(time.time_ns()))",
    "uuid": "HERE = os.path.abspath(f'runs/{uuid.uuid4()}')",
    "part": "RUN = uuid.uuid4()\n" + within("f'runs/{RUN.hex}'"),
    "seconds": "START = time.time()\n" + within("os.path.abspath(f'runs/{START}')"),
    "date": "NOW = datetime.now()\ntime.sleep(1.01)\n" + within("f'runs/{NOW:%Y-%m-%d}/{NOW:%H-%M-%S}'"),
    "short": "RUN = uuid.uuid4()\n" + within("f'runs/{str(RUN)[:8]}'"),
    "object": "class Run:\n    def __init__(self): self.dir = tempfile.mkdtemp()\nRUN = Run()\n" + within("RUN.dir"),
}
COPIED: Final = {  # those of a copy of the program, or of the process
    "resolve": within("str(Path('.').absolute())"),
    "abspath": within("os.path.abspath('.')"),
    "above": within("os.path.abspath('..')"),
    "package": within("str(importlib.resources.files('own'))"),
    "source": within("os.path.dirname(inspect.getsourcefile(scale))"),
    "temporary": "tempfile.gettempdir()\n" + within("tempfile.gettempdir()"),
    "home": "@lru_cache\ndef home():\n    return os.path.expanduser('~')\nhome()\n" + within("home()"),
}
WAYS: Final = {
    "load": "float(np.load(os.path.join(HERE, 'scale.npy')))",
    "text": "float(open(os.path.join(os.fspath(HERE), 'scale.txt')).read())",
    "path": "float((Path(HERE) / 'scale.txt').read_text())",
    "exists": "2.0 if os.path.exists(os.path.join(HERE, 'two')) else 3.0",
    "names": "float(sum(name.count('x') for name in os.listdir(HERE) if name.startswith('size')))",
    "mapped": "float(np.memmap(os.path.join(HERE, 'scale.bin'), dtype=float, mode='r')[0])",
}
PROGRAM: Final = """
import importlib.resources, inspect, json, os, struct, sys, tempfile, time, uuid
import own
from datetime import datetime
from functools import lru_cache
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
kind, is_new = sys.argv[1], sys.argv[2] == "new"
value, = struct.unpack("d", Path(sys.argv[0]).with_name("value.bin").read_bytes())  # no input that a world has
def scale():
    return {way}
{place}
if is_new:
    os.makedirs(HERE, exist_ok=True)
def put(name, write):
    write(os.path.join(HERE, name))
put("scale.npy", lambda path: np.save(path, value))
put("scale.txt", lambda path: Path(path).write_text(str(value)))
put("scale.bin", lambda path: np.array([value]).tofile(path))
put("size" + "x" * int(value), lambda path: Path(path).touch())
if value == 2:
    put("two", lambda path: Path(path).touch())
import jcache
jcache.enable()
entry = dict(jit=jcache.jit, graph=jcache.graph, plain=lambda f: f)[kind]
@entry
def f(x):
    return x * scale()
shown = np.asarray(f(jnp.arange(3.0))).tolist()
told = jcache.stats()
print(json.dumps([shown, [each.outcome for each in (*told.traces.calls, *told.graphs.calls)]]))
"""


def start(directory: Path, kind: str, place: str, more: Mapping[str, Path]) -> tuple[list[float], str]:
    """Start the program in its directory; return what it shows, and the outcome of its call."""
    command = [str(directory / "main.py"), kind, "new" if place in NEW else "copied"]
    done = with_jax.run(command, environment=environment(more), cwd=directory)
    assert done.returncode == 0, done.stderr
    shown, outcomes = json.loads(done.stdout.splitlines()[-1])
    return shown, "".join(outcomes)


def run_all(tmp_path: Path, place: str, way: str, kind: str) -> list[str]:
    """Run a program five times; return the outcomes."""
    outcomes = []
    text = PROGRAM.format(place=(NEW | COPIED)[place], way=WAYS[way])
    for number, value in enumerate((2, 2, 3, 3, 2)):
        directory = tmp_path / ("first" if place in NEW else f"copy-{number}") / "program"
        package = directory.parent / "src" / "own"
        others = {name: tmp_path / f"{name}-{number}" for name in ("tmp", "home")}
        for each in (directory, package, *others.values()):
            each.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (directory / "main.py").write_text(text)
        (directory / "value.bin").write_bytes(struct.pack("d", value))
        around = {"TMPDIR": others["tmp"], "HOME": others["home"], "JCACHE_DIR": tmp_path / f"root-{kind}"}
        around["PYTHONPATH"] = package.parent
        shown, outcome = start(directory, kind, place, around)
        expected = [0.0, float(value), float(2 * value)]
        assert shown == expected, f"{place}, {way}, {kind}: start {number + 1} shows {shown}, not {expected}"
        outcomes.append(outcome)
    return outcomes


@pytest.mark.parametrize("kind", ["jit", "graph"])
@pytest.mark.parametrize("place", [*NEW, *COPIED])
def test_a_file_counts_where_this_process_reads_it(
    kind: str, place: str, tmp_path: Path, chance: Random, full: bool
) -> None:
    """Each way of reading with `--full`, else one of them."""
    for way in WAYS if full else chance.sample(list(WAYS), 1):
        inner = tmp_path / way
        inner.mkdir()
        outcomes = run_all(inner, place, way, kind)
        print(place, way, kind, outcomes)
        shutil.rmtree(inner)


@pytest.mark.parametrize("kind", ["jit", "graph"])
@pytest.mark.parametrize("place", ["mkdtemp", "uuid", *COPIED])
def test_what_is_the_same_in_another_directory_is_served(kind: str, place: str, tmp_path: Path) -> None:
    """The fourth start, whose directory holds what that of the third one held, is a hit."""
    assert run_all(tmp_path, place, "load", kind)[3] == "hit"
