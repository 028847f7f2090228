"""What calls set is there after they were served, as if they had been traced: for other calls, and for other code.

Programs are drawn: functions that set flags, texts, numbers, tables and arrays of each other, and use them. Beside the
model of the cache there are whole programs, which run under `jax.jit` and `jcache.jit`.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.settings import Settings
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.fingerprints import run_calls
from tests.helpers.jax_programs import run
from tests.proofs.test_side_effects import programs as counting

PROGRAM = (Path(__file__).parent.parent / "programs" / "set_again.py").read_text()

STATE = """
import itertools, random
import numpy as np
from dataclasses import dataclass
from types import SimpleNamespace
ready, text, total, first, pair, none = False, 'a', 0.0, None, (1, 'b'), None
table, memo, nested, calls = {}, {}, {'deep': {}, 'on': False}, 0
rng, other, older = np.random.default_rng(3), random.Random(4), [np.random.RandomState(5)]
ids = itertools.count()
class State:
    kind, made, lazy = 'k', None, None
    def __init__(self):
        self.ready, self.text, self.total, self.first, self.array = False, 'a', 0.0, None, None
        self.table, self.inner, self.rng = {}, Inner(), np.random.default_rng(6)
    def numbers(self, x):
        if self.array is None:
            self.array = np.arange(x + 1.0)
        return self.array
    def __call__(self, x):
        self.first = self.first or (x, 'first')
        return self.first[0]
    def basis(self, x):
        if self.lazy is None:
            self.lazy = np.full(2, x + 0.5)
        return self.lazy
    def late(self, x):
        try:
            return self.tried
        except AttributeError:
            self.tried = (x, 'tried')
            return self.tried
class Derived(State):
    lazy = 1
    def basis(self, x):
        self.own = getattr(self, 'own', None) or f'own {x}'
        return super().basis(x) if self.lazy is None else np.ones(1)
class Slots:
    __slots__ = ('here', 'there', '__dict__')
    def __init__(self): self.here = 1
@dataclass(frozen=True)
class Frozen:
    rate: float = 0.5
    def scale(self, x):
        if not hasattr(self, '_scale'):
            object.__setattr__(self, '_scale', self.rate * x)
        return self._scale
class Inner:
    def __init__(self): self.on = None
class Tables:
    one = None
    def __init__(self, x): self.w, self.n, self.deep = np.full(2, 0.5), x, {'k': [x, len]}
    def __repr__(self): return repr(vars(self))
    @classmethod
    def get(cls, x):
        if cls.one is None:
            cls.one = cls(x)
        return cls.one
class Single:
    _it = None
    def __new__(cls):
        if cls._it is None:
            cls._it = super().__new__(cls)
            cls._it.rate, cls._it.inner = 0.5, Tables(2)
        return cls._it
single, registry = None, {}
def single_of(x):
    global single
    if single is None:
        single = Tables(x)
    return single
state, same, derived = State(), State(), Derived()
slots, frozen, space = Slots(), Frozen(), SimpleNamespace(n=2)
alias = state
def around():
    on, last = False, None
    def turn(x):
        nonlocal on, last
        on, last = not on, (x, last and last[0])
    def is_on(): return on
    def latest(): return 0 if last is None else last[0]
    return turn, is_on, latest
turn, is_on, latest = around()
def kept(x):
    if not hasattr(kept, 'value'): return 0
    kept.value = (x,)
    return len(kept.value)
kept.value = None
"""
LINES = (
    *(
        "ready = True",
        "ready = not ready",
        "text += 'b'",
        "total += x / 2",
        "first = first or (x,)",
        "pair = (x, pair[1])",
    ),
    *("table[x] = 'a'", "table['f'] = 0.5", "table.setdefault(x, (x, 2.5))", "memo[x] = np.arange(x)", "none = ready"),
    *("if x not in memo: memo[x] = np.arange(x * 2)", "nested['deep'][x] = 'c'", "nested['on'] = True", "turn(x)"),
    *("state.ready = True", "state.text = state.text + 'c'", "state.total += 0.5", "state.numbers(x)", "kept(x)"),
    *("state.table[x] = True", "state.inner.on = not state.inner.on", "State.made = 'made'", "alias.text += 'd'"),
    *("same.ready = state.ready", "state(x)", "state.first = None", "State.kind = State.kind + 'l'", "first = None"),
    *("x += ready", "x += len(text)", "x += int(total * 2)", "x += first is None", "x += first[0] if first else 3"),
    *("x += len(table)", "x += len(memo)", "x += int(sum(map(np.sum, memo.values())))", "x += len(nested['deep'])"),
    *(
        "x += nested['on']",
        "x += state.ready",
        "x += len(state.text)",
        "x += int(state.total * 2)",
        "x += len(state.kind)",
    ),
    *(
        "x += int(state.numbers(x).sum())",
        "x += len(state.table)",
        "x += bool(state.inner.on)",
        "x += is_on() + latest()",
    ),
    *(
        "x += state(x)",
        "x += State.made is None",
        "x += same.ready",
        "x += len(alias.text)",
        "x += kept(x)",
        "x += pair[0]",
    ),
    *("state.basis(x)", "same.basis(x)", "derived.basis(x)", "state.late(x)", "derived.late(x)", "frozen.scale(x)"),
    *("slots.there = (x, 'there')", "slots.other = x / 4", "space.late = 'late' * x", "state.unread = (x, x)"),
    *("if not hasattr(State, 'shared'): State.shared = np.arange(x)", "kept.late = x / 8", "same.unread = None"),
    *("if 'late' not in globals(): late = (x, 'late')", "newer = x / 2", "state.lazy = None"),
    *("if hasattr(space, 'late'): del space.late", "state.a, state.b = x / 2, 'b'", "state.b, state.a = 'b', 1.5"),
    *("if not hasattr(same, 'kept'): same.kept = {}\n    same.kept.setdefault(x, [x, 'k'])", "space.list = [x, {x}]"),
    *("x += len(getattr(same, 'kept', ''))", "x += len(getattr(space, 'list', '')) + 1", "first = [x, {'a': (x,)}]"),
    *("x += int(state.basis(x).sum())", "x += int(same.basis(x).sum())", "x += int(derived.basis(x).sum())"),
    *(
        "x += state.late(x)[0]",
        "x += int(frozen.scale(x) * 2)",
        "x += hasattr(slots, 'there')",
        "x += len(vars(space))",
    ),
    *("x += len(getattr(space, 'late', ''))", "x += hasattr(State, 'shared')", "x += hasattr(kept, 'late')"),
    *("x += len(globals().get('late', ''))", "x += [*vars(state)].index('text')", "x += 'late' in globals()"),
    *(
        "x += len('/'.join(vars(state)))",
        "x += 2 * ([*vars(state)] == sorted(vars(state)))",
        "x += hasattr(slots, 'other')",
    ),
    *("x += single_of(x).n", "x += Tables.get(x).n", "single = None", "Tables.one = single", "x += len(registry)"),
    *("single_of(x).n += 1", "Tables.get(x).deep['k'].append(x)", "registry.setdefault(Tables, Tables(x))"),
    *("state.helper = Tables(x)", "state.helper = single_of(x)", "x += getattr(state, 'helper', 1) is single"),
    *("x += int(Single().rate * 2)", "Single().rate += x", "x += Single().inner.n", "registry['one'] = single_of(x)"),
    *("state.owner = Tables(same)", "x += getattr(state, 'owner', None) is not None and state.owner.n is same"),
    *("registry['same'] = same", "x += registry.get('same') is same", "single = alias", "space.pair = (slots, table)"),
    *("x += Tables.one is single", "x += len(registry)", "space.kind = Tables"),
    *("calls += 1; ready = not ready", "space.set = {x * 8, 64, 8, x}", "first = {64, x, 8}"),
    *(
        "x += int(rng.integers(3))",
        "rng.normal()",
        "x += other.randrange(3)",
        "x += next(ids)",
        "other.gauss(0, 1)",
        "other.seed(x)",
    ),
    *("x += int(older[0].randint(3))", "older[0].randn()", "x += int(state.rng.integers(2))", "same.rng = rng"),
    *(
        "rng.bit_generator.advance(x)",
        "rng.spawn(1)",
        "state.rng = np.random.default_rng(x)",
        "calls += 1; rng.random()",
    ),
    *("for each in table: x += each if type(each) is int else 1", "x += 0 if none is None else 1 + none"),
)
VARIABLES = (
    "ready",
    "text",
    "total",
    "first",
    "pair",
    "none",
    "table",
    "memo",
    "nested",
    "single",
    "registry",
    "calls",
)
GLOBALS = ("ready", "text", "total", "first", "pair", "none", "late", "newer", "single", "calls")
STARTS = 3


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[tuple[str, int]]]:
    """Draw the source of a module and the calls of its functions."""
    source, names = STATE, []
    for number in range(draw(st.integers(1, 3))):
        lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=5))
        body = "".join(f"    {line}\n" for line in lines)
        source += f"def f_{number}(x):\n    global {', '.join(GLOBALS)}\n{body}    return x\n"
        names.append(f"f_{number}")
    calls = st.tuples(st.sampled_from(names), st.integers(1, 3))
    return source, draw(st.lists(calls, min_size=1, max_size=6))


def shown(module: Any) -> str:
    """Return the state of a module as a text."""
    held = vars(module.state) | {"inner": module.state.inner.on, "latest": module.latest(), "on": module.is_on()}
    others = module.State.kind, module.State.made, getattr(module.State, "shared", None), vars(module.kept)
    objects = [dict(vars(each)) for each in (module.same, module.derived, module.frozen, module.slots, module.space)]
    more = getattr(module.slots, "there", None), getattr(module, "late", None)
    inner = [vars(each.pop("inner")) for each in objects if "inner" in each]
    kept = [module.single, module.Tables.one, getattr(module.state, "helper", None), *module.registry.values()]
    same = [[one is other for other in kept] for one in kept]
    it = module.Single._it
    generators = module.rng, module.state.rng, module.same.rng
    states = (
        [each.bit_generator.state for each in generators],
        repr(module.ids),
        module.other.getstate(),
        module.older[0].get_state(),
    )
    single = None if it is None else vars(it)
    found = *(getattr(module, each) for each in VARIABLES), held, others, objects, inner, more, same, single, states
    return re.sub("0x[0-9a-fA-F]+", "", repr(found).replace(module.__name__, "module"))


class Model:
    """A cache of results by the key of a trace and what lies beside it, each with what its call sets."""

    def __init__(self) -> None:
        self._found: dict[object, tuple[object, Settings]] = {}
        self.hits = 0

    def call(self, function: Any, argument: int) -> object:
        made = fingerprint(function, (argument,), for_trace=True)
        key = made.hash, tuple(made.loose.items())
        if (known := self._found.get(key)) is not None:
            made.snapshot.setter(known[1])()
            self.hits += 1
            return known[0]
        result = function(argument)
        if not changed_meanwhile(made, function, (argument,), {}):
            self._found[key] = result, made.snapshot.sets.settings
        return result


@pytest.mark.whole
@given(program=programs())
def test_a_served_call_sets_what_a_traced_one_sets(
    program: tuple[str, list[tuple[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each result and the state after each start are those of plain Python."""
    source, calls = program
    directory: Path = tmp_path_factory.mktemp("set")
    expected, model = run_calls(directory, source, calls, state=shown), Model()
    for start in range(STARTS):
        found = run_calls(directory, source, calls, model.call, shown)
        assert found == expected, (start, source.partition("kept.value = None")[2], calls)


@pytest.mark.whole
@given(program=counting())
def test_what_a_function_counts_and_uses_is_set_again(
    program: tuple[str, list[tuple[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each result is that of plain Python, where functions use what they count, log and collect."""
    source, calls = program
    directory: Path = tmp_path_factory.mktemp("used")
    expected, model = run_calls(directory, source, calls), Model()
    for start in range(STARTS):
        found = run_calls(directory, source, calls, model.call)
        assert found == expected, (start, source.rpartition("size_")[2], calls)


@pytest.mark.full
def test_programs_find_what_served_calls_have_set(tmp_path: Path) -> None:
    """In whole processes, from the second start on: results and state are those of `jax.jit`, and all calls hits."""
    right = run(PROGRAM, "jax", tmp_path / "jax").value
    for start in range(3):
        found = run(PROGRAM, "jcache", tmp_path / "root").value
        assert (found["results"], found["state"]) == (right["results"], right["state"])
        assert start == 0 or {outcome for _, outcome, _ in found["outcomes"]} == {"hit"}, found["outcomes"]
    with Store(open_root(tmp_path / "root")) as store:
        assert verify(store, VerifyRequest()).findings == []
