"""Generate projects that read settings into the state of a library, and edits of them."""

import configparser
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

LIBRARY: Final = """
settings, rules = {}, {}
class Holder: pass
def scaled(name, x): return x * settings[name]
def held(name, x): return x * getattr(Holder, name)
def ruled(name, x): return rules[name](x)
def configure(found):
    settings.update(found)
    for name, value in found.items():
        setattr(Holder, name, value)
"""
WAYS: Final = ("scaled", "held", "ruled")
MAIN: Final = """
import json, jax, jax.numpy as jnp
import jcache
from jcache.runtime.worlds import judgement
judgement._ONE_IN = 10**9  # no start compares by chance
import rtset
{read}
rtset.configure(found)
CFG = found
for name in found:
    rtset.rules[name] = lambda x, name=name: x * CFG[name]
{functions}
x = jnp.arange(4.0)
print(json.dumps([[float(f(x).sum()) for f in ({names})],
                  [call.outcome for call in jcache.stats().traces.calls]]))
"""
FUNCTION: Final = """
@jcache.jit
def f{number}(x):
    return rtset.{way}({name!r}, x)
"""
READ: Final = {
    "json": "found = json.load(open('set.json'))",
    "flat": "import pathlib\nfound = json.loads(pathlib.Path('set.flat').read_bytes())",
    "yaml": "found = {}\nfor line in open('set.yaml'):\n"
    "    if ':' in line: name, value = line.split(':'); found[name.strip()] = float(value)",
    "ini": "import configparser\nparser = configparser.ConfigParser()\nparser.read('set.ini')\n"
    "found = {name: float(value) for name, value in parser['all'].items()}",
    "toml": "import tomllib\nfound = tomllib.load(open('set.toml', 'rb'))",
    "gin": "found = {}\nfor line in open('set.gin'):\n"
    "    if '=' in line: name, value = line.split('='); found[name.strip().rpartition('.')[2]] = float(value)",
    "csv": "import csv\nfound = {name: float(value) for name, value in csv.reader(open('set.csv', newline=''))}",
    "numbered": "import glob\n[name] = glob.glob('run-*/set.numbered')\nfound = json.load(open(name))",
    "thread": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor(1) as pool: found = pool.submit(lambda: json.load(open('set.thread'))).result()",
}
OWN_STATE: Final = """
import jcache, json
try: runs = json.load(open("runs.json"))
except FileNotFoundError: runs = []
json.dump([*runs, {"run": len(runs)}], open("runs.json", "w"))
"""


class Project(NamedTuple):
    """A project.

    Attributes:
        form: how its settings are written, a key of `READ`.
        used: the names of the settings that its functions use, one each.
        ways: how each function reaches its setting.
    """

    form: str
    used: Sequence[str]
    ways: Sequence[str]

    def main(self) -> str:
        """Return its program."""
        functions = "".join(
            FUNCTION.format(number=number, way=way, name=name)
            for number, (name, way) in enumerate(zip(self.used, self.ways, strict=True))
        )
        names = "".join(f"f{number}, " for number in range(len(self.used)))
        return MAIN.format(read=READ[self.form], functions=functions, names=names)

    def write(self, directory: Path, settings: dict[str, float], note: str) -> None:
        """Write its settings as text.

        Args:
            directory: the project's directory.
            settings: the settings.
            note: a comment, where the form has comments; its last word is a number, where a directory has one.
        """
        if self.form == "numbered":
            for before in directory.glob("run-*"):
                shutil.rmtree(before)
            directory /= f"run-{note.split()[-1]}"
            directory.mkdir()
        (directory / f"set.{self.form}").write_text(text_of(self.form, settings, note))

    def expected(self, settings: dict[str, float]) -> list[float]:
        """Return what its program prints."""
        return [6.0 * settings[name] for name in self.used]


def text_of(form: str, settings: dict[str, float], note: str) -> str:
    """Return settings in a form."""
    if form in {"json", "numbered", "thread"}:
        return json.dumps(settings, indent=2)
    if form == "flat":
        return json.dumps(settings)
    if form == "ini":
        parser: Any = configparser.ConfigParser()
        parser["all"] = {name: str(value) for name, value in settings.items()}
        parser.write(written := io.StringIO())
        return f"; {note}\n{written.getvalue()}"
    if form == "csv":
        return "".join(f"{name},{value}\n" for name, value in settings.items())
    sign, prefix = (": ", "") if form == "yaml" else (" = ", "model." if form == "gin" else "")
    return f"# {note}\n" + "".join(f"{prefix}{name}{sign}{value}\n" for name, value in settings.items())


def project(chance: Random, form: str) -> tuple[Project, dict[str, float]]:
    """Return a project and its first settings."""
    names = [f"s{number}" for number in range(chance.randrange(4, 10))]
    used = chance.sample(names, chance.randrange(2, len(names) - 1))
    settings = {name: float(chance.randrange(1, 9)) for name in names}
    return Project(form, used, [chance.choice(WAYS) for _ in used]), settings


def edited(chance: Random, settings: dict[str, float], used: Sequence[str], busy: str) -> dict[str, float]:
    """Return other settings: most often one that nothing uses has another value.

    Args:
        chance: random numbers.
        settings: the settings before.
        used: the names of those that count.
        busy: the name of one that does not and is changed most often.
    """
    found = dict(settings)
    what = chance.random()
    if what < 0.45:
        found[busy] += 1.0
    elif what < 0.75:
        found[chance.choice(used)] += float(chance.randrange(1, 4))
    elif what < 0.85:
        found[chance.choice([*settings])] += 0.5
    elif what < 0.95:
        found = {f"t{len(found)}": 1.0, **found}
    else:
        found = dict(chance.sample([*found.items()], len(found)))
    return found
