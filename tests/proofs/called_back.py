"""Random programs that call back to the host, each with one random mutation, for `tests/proofs/test_called_back.py`.

What a program calls is made in one of many ways (`CALLED`), in one of JAX's three forms, somewhere within a function.
Each observes itself: what it is called with is told in lists of the program, which are its answer beside the result.
Places that can change are marked ``{{before||after}}``; one of all is the mutation.
"""

import json
import os
import random
from pathlib import Path
from typing import Final, NamedTuple

from jcache.package import PACKAGE
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment
from tests.proofs.changes import CHANGE, write

# The module's text, the text within the function, and the expression of what is called.
CALLED: Final[dict[str, tuple[str, str, str]]] = {
    "function": ("def tell_N(v): said.append(('{{a||b}}', float(v)))", "", "tell_N"),
    "lambda": ("", "", "lambda v: said.append(('{{l||m}}', float(v)))"),
    "nested": ("", "factor_N = {{2.0||3.0}}\ndef tell_N(v): said.append((factor_N, float(v)))", "tell_N"),
    "append": ("rows_N = [[], []]\nstates.append(rows_N)", "", "rows_N[{{0||1}}].append"),
    "method": ("log_N = Log('{{x||y}}')", "", "log_N.tell"),
    "one of two objects": (
        "logs_N = [Log('same'), Log('same')]\ncurrent_N = logs_N[{{0||1}}]\nstates.append(logs_N)", "", "current_N.keep"
    ),
    "maker": (
        "def make_N(name):\n    def tell(v): said.append((name, float(v)))\n    return tell", "", "make_N('{{p||q}}')"
    ),
    "made before": (
        "def make_N(name):\n    def tell(v): said.append((name, float(v)))\n    return tell\nmade_N = make_N({{1||2}})",
        "", "made_N",
    ),
    "counter": (
        "def counter_N():\n    count = {{0||5}}\n    def add(v):\n        nonlocal count\n        count += 1\n"
        "    return add, lambda: count\nadd_N, count_N = counter_N()\nlater.append(count_N)", "", "add_N",
    ),
    "partial": ("def named_N(name, v): said.append((name, float(v)))", "", "functools.partial(named_N, '{{r||s}}')"),
    "texts": ("", "texts_N = ['a', '{{b||c}}', 'd']", "lambda v: said.append(texts_N[int(v) % 3])"),
    "memo": ("", "seen_N = []", "lambda v: said.append([seen_N.append(float(v) * {{1||2}}), list(seen_N)])"),
    "two that share": (
        "", "both_N = []\njax.debug.callback(lambda v: both_N.append(float(v) + {{0||1}}), x)",
        "lambda v: said.append(len(both_N) >= 0)",
    ),
    "table": ("", "table_N = np.arange(3.0) * {{1||2}}", "lambda v: said.append(float(table_N[int(v) % 3]))"),
    "view": (
        "grid_N = np.zeros(4)\nstates.append(grid_N)", "part_N = grid_N[{{1||2}}:]",
        "lambda v: said.append(part_N.__setitem__(0, float(v)))",
    ),
    "own view": (
        "", "own_N = np.arange(4.0).reshape(2, 2).T",
        "lambda v: said.append([own_N.__setitem__({{0||1}}, float(v)), own_N.tolist()])",
    ),
    "dtype": ("", "kind_N = np.dtype('{{>||<}}f4')", "lambda v: said.append((kind_N.str, float(v)))"),
    "names": (
        "def named_N(function):\n    @functools.wraps(function)\n"
        "    def call(v): said.append((call.__name__, call.__doc__, float(v)))\n    return call",
        "@named_N\ndef tell_N(v): 'Say {{one||two}}.'", "tell_N",
    ),
    "named tuple": (
        "Row_N = collections.namedtuple('Row_N', 'name number')", "row_N = Row_N('{{n||o}}', {{1||2}})",
        "lambda v: said.append((row_N.name, row_N.number, float(v)))",
    ),
    "named tuple with more": (
        "class Row_N(collections.namedtuple('Row_N', 'name')): pass", "row_N = Row_N('n')\nrow_N.more = {{1||2}}",
        "lambda v: said.append((row_N.name, row_N.more, float(v)))",
    ),
    "partial with more": (
        "def named_N(v): return float(v)", "call_N = functools.partial(named_N)\ncall_N.more = {{1||2}}",
        "lambda v: said.append((call_N.more, call_N(v)))",
    ),
    "ordered": (
        "", "found_N = collections.OrderedDict(b={{1||2}}, a=[])\nfound_N.move_to_end('b')",
        "lambda v: said.append([found_N['a'].append(float(v)), list(found_N.items())])",
    ),
    "last ones": (
        "", "last_N = collections.deque([{{1||2}}], maxlen=2)",
        "lambda v: said.append([last_N.append(float(v)), list(last_N), last_N.maxlen])",
    ),
    "default": ("", "def tell_N(v, k={{4||5}}, *, w={{6||7}}): said.append((k, w, float(v)))", "tell_N"),
    "decorated": (
        "def loud_N(function):\n    @functools.wraps(function)\n    def call(v): return function(v * {{2||3}})\n"
        "    return call\n@loud_N\ndef tell_N(v): said.append(('decorated', float(v)))", "", "tell_N",
    ),
    "registry": (
        "registry_N = {}\ndef register(f):\n    registry_N['f'] = f\n    return f\n"
        "@register\ndef tell_N(v): said.append(('{{t||u}}', float(v)))", "", "registry_N['f']",
    ),
    "recursive": (
        "", "def down_N(v): said.append(('{{w||z}}', float(v))) if v < 1 else down_N(v - 1)", "down_N"
    ),
    "helper": (
        "def name_N(v): return ('{{g||h}}', float(v))\ndef tell_N(v): said.append(name_N(v))", "",
        "lambda v: tell_N(v)",
    ),
    "class attribute": ("class Kept_N:\n    rows = []\nstates.append(Kept_N.rows)", "", "Kept_N.rows.append"),
    "dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass Tell_N:\n    name: str\n    def __call__(self, v): "
        "said.append((self.name, float(v)))", "", "Tell_N('{{c||d}}')",
    ),
}  # fmt: skip
FORMS: Final = (
    "jax.debug.callback(CALLED, x)",
    "x = x + jax.pure_callback(returning(CALLED, {{0.0||1.0}}), jax.ShapeDtypeStruct((), jnp.float32), x)",
    "x = x + io_callback(returning(CALLED, {{0.0||1.0}}), jax.ShapeDtypeStruct((), jnp.float32), x)",
    "jax.debug.print('{{one||two}} {x}', x=x)\njax.debug.callback(CALLED, x)",
    "jax.debug.callback(CALLED, x, ordered=True)",
    "x = x + io_callback(returning(CALLED, {{0.0||1.0}}), jax.ShapeDtypeStruct((), jnp.float32), x, ordered=True)",
)
PLACES: Final = (
    "BODY",
    "def inner_N(x):\n    BODY\n    return x\nx = inner_N(x)",
    "@jax.jit\ndef inner_N(x):\n    BODY\n    return x\nx = inner_N(x)",
    "def branch_N(x):\n    BODY\n    return x\nx = jax.lax.cond(x > -1, branch_N, lambda x: x, x)",
)
MODULE: Final = """import collections, dataclasses, functools
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
said, states, later = [], [], []
class Log:
    def __init__(self, name):
        self.name, self.rows = name, []
    def tell(self, v):
        said.append((self.name, float(v)))
    def keep(self, v):
        self.rows.append(float(v))
    def __repr__(self):
        return f"Log({{self.name!r}}, {{self.rows}})"
def returning(function, more):
    def call(v):
        function(v)
        return np.float32(v * 0 + more)
    return call
{setup}
def f(x):
{body}
    return x * 2
def call(entry):
    jitted = entry(f)
    results = [float(jitted(number)) for number in (1.0, 2.0)]
    jax.effects_barrier()
    told = [*map(repr, states), *(str(each()) for each in later)]
    return [results, sorted(map(repr, said)), told]
"""
MAIN: Final = """import contextlib, importlib, io, json, os, sys
with open("asked.json") as asked:  # before jcache, and so no part of the world, as `main.py` and its arguments are
    entry, modules, check = json.load(asked)
import jax
import jcache
jcache.enable()
entry = jax.jit if entry == "jax" else lambda function: jcache.jit(function, check=check)
for module in [importlib.import_module(name) for name in modules]:
    before, printed = len(jcache.stats().traces.calls), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            answer = module.call(entry)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    new = jcache.stats().traces.calls[before:]
    unserved = [call.reason or call.outcome for call in new if call.outcome != "hit"] if new else ["not called"]
    lines = sorted(printed.getvalue().splitlines())
    print(json.dumps([module.__name__, repr([answer, lines]), unserved]))
"""


class Program(NamedTuple):
    """A random program: its name, its marked text, and the number of the place that changes."""

    name: str
    text: str
    place: int

    @property
    def may_be_refused(self) -> bool:
        """Whether it holds something with an attribute of its own, or a view of an array that the program has."""
        return ".more = " in self.text or " = grid_" in self.text

    def rendered(self, is_changed: bool) -> str:
        """Return the text before or after the change."""
        places = iter(range(self.text.count("{{")))
        return CHANGE.sub(lambda found: found[2] if next(places) == self.place and is_changed else found[1], self.text)


def program(chance: random.Random, name: str) -> Program:
    """Return a random program with a random mutation."""
    setups, bodies = [], []
    for number in range(chance.randint(1, 3)):
        setup, within, called = CALLED[chance.choice(sorted(CALLED))]
        form = chance.choice(FORMS).replace("CALLED", called)
        body = "\n".join(filter(None, (within, form)))
        place = chance.choice(PLACES)
        indent = "    " if "    BODY" in place else ""
        body = place.replace("BODY", body.replace("\n", f"\n{indent}"))
        setups.append(setup.replace("_N", f"_{number}"))
        bodies.append(body.replace("_N", f"_{number}"))
    lines = [f"    {line}" for body in bodies for line in body.splitlines()]
    text = MODULE.format(setup="\n".join(setups), body="\n".join(lines))
    return Program(name, text, chance.randrange(len(CHANGE.findall(text))) if CHANGE.search(text) else -1)


class Told(NamedTuple):
    """What a program has answered, and why its calls were not served."""

    answer: str
    unserved: list[str]


def run(place: Path, programs: list[Program], entry: str, check: str, *, is_changed: bool) -> dict[str, Told]:
    """Run programs in one new process, under ``jax`` or ``jcache``."""
    for each in programs:
        write(place / f"{each.name}.py", each.rendered(is_changed).encode())
    write(place / "main.py", MAIN.encode())
    write(place / "asked.json", json.dumps([entry, [each.name for each in programs], check]).encode())
    more = {"JCACHE_DIR": place / f"root-{entry}-{check}", "PYTHONPATH": os.path.dirname(PACKAGE)}
    done = with_jax.run([str(place / "main.py")], environment=environment(more), cwd=place)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {name: Told(answer, unserved) for name, answer, unserved in said}
