"""Functions that count, log and collect while they are called give the same results where some calls are served.

Programs are drawn: their functions share logs, counters and tables which none of them uses, and each has others of its
own, which it may use. A model of the cache serves a call whose key is known if what lies beside the key is as in an
earlier call, or was another without effect.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import run_calls

STATE = """
import collections
n{s}, total{s}, text{s} = 0, 0.0, 'a'
log{s}, seen{s}, queue{s}, table{s}, memo{s} = [], set(), collections.deque(), {{}}, {{}}
groups{s}, many{s}, order{s} = collections.defaultdict(list), collections.Counter(), collections.OrderedDict()
limits{s} = {{'a': 2, 'b': 3, 'c': 5}}
nested{s} = {{'k': [], 'r': 2, 'deep': {{'a': [], 'n': {{'c': 0}}}}, 1: []}}
rows{s} = [[], [1]]
inner{s} = nested{s}['k']
class State{s}:
    count, rate, run = 0, 3, 'a'
    held = {{'log': []}}
    def __init__(self):
        self.n{s}, self.total{s}, self.log{s}, self.table{s} = 0, 0.0, [], {{'x': 1}}
    def bump{s}(self):
        self.n{s} += 1
        return self.n{s}
    def note{s}(self, x):
        self.log{s}.append(x)
        self.table{s}[x] = 1.5
state{s} = State{s}()
def around{s}():
    n, log = 0, []
    def count{s}():
        nonlocal n
        n += 1
        return n
    def collect{s}(x):
        log.append(x)
    def size{s}(): return len(log)
    return count{s}, collect{s}, size{s}
count{s}, collect{s}, size{s} = around{s}()
"""
EFFECTS = (
    *("n{s} += 1", "total{s} += 0.5", "log{s}.append(x)", "log{s}.append('f')", "seen{s}.add(x)", "queue{s}.append(x)"),
    *("table{s}[x] = 1", "table{s}['f'] = 0.5", "groups{s}[x].append(1)", "groups{s}.setdefault(x, []).append(0.5)"),
    *("many{s}[x] += 1", "order{s}[x] = 2", "state{s}.n{s} += 1", "state{s}.total{s} += 0.5", "state{s}.note{s}(x)"),
    *("state{s}.log{s}.append(x)", "state{s}.table{s}['x'] += 1", "State{s}.count += 1", "collect{s}(x)"),
    *("nested{s}['k'].append(x)", "nested{s}['deep']['a'].append(1)", "nested{s}['deep']['n']['c'] += 1"),
    *("rows{s}[0].append(x)", "inner{s}.append(1)", "nested{s}.get('k').append(x)", "State{s}.held['log'].append(x)"),
    *("table{s}['c'] = table{s}.get('c', 0) + 1", "many{s}['f'] += 1", "nested{s}[1].append(x)"),
    *("nested{s}['deep'].setdefault('b', []).append(x)", "own = nested{s}['k']\n    own.append(x)"),
    *("state{s}.n{s} = 2", "State{s}.count -= 1", "state{s}.n{s} *= 2", "print(state{s}.n{s}, end='')"),
    *("table{s}.update(g=1)", "log{s}.extend([x, x])", "n{s} = n{s} + x", "print('called', n{s}, end='')"),
)
USES = (
    *(
        "x += n{s}",
        "x += len(log{s})",
        "x += len(table{s})",
        "x += len(str(log{s}[-1:]))",
        "x += size{s}()",
    ),
    *("x += int(total{s} * 2)", "x += sum(many{s}.values())", "x += state{s}.bump{s}()", "x += state{s}.n{s}"),
    *("x += len(state{s}.log{s})", "x += len(state{s}.table{s})", "x += count{s}()", "x += len(seen{s})"),
    *("for each in queue{s}: x += each", "if log{s}: x += 1", "x += State{s}.count", "x += len(groups{s})"),
    *("if x not in memo{s}: memo{s}[x] = x * 2\n    x += memo{s}[x]", "x += memo{s}.setdefault(x, x * 3)"),
    *("x += len(nested{s}['k'])", "x += nested{s}['r']", "x += nested{s}['deep']['n']['c']", "x += len(rows{s}[0])"),
    *("for each in nested{s}.values(): x += each == [1]", "x += len(inner{s})", "x += len(nested{s}[x % 1 + 1])"),
    *("own = nested{s}['k']\n    own.append(x)\n    x += len(own)", "x += sum(map(len, rows{s}))"),
    *("x += len(nested{s}['deep'].get('b', ''))", "x += len(nested{s}['deep']['a'])", "x += State{s}.rate"),
    *("x += many{s}['f']", "x += table{s}.get('c', 0)", "x += len(State{s}.held['log'])", "x += len(state{s}.held)"),
    *("x += len(str(nested{s}['deep']))", "x += table{s}['c'] if 'c' in table{s} else 0"),
    *("x += limits{s}['a']", "x += limits{s}.get('b', 0)", "x += 'c' in limits{s}", "x += len(text{s})"),
    *("x += int(vars(state{s})['n{s}'])", "x += getattr(state{s}, 'n{s}')", "x += len(order{s})"),
)
STARTS = 4


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[tuple[str, int]]]:
    """Draw the source of a module and the calls of its functions."""
    source, names = STATE.format(s="_all"), []
    for number in range(draw(st.integers(1, 3))):
        own, name = f"_{number}", f"f_{number}"
        source += STATE.format(s=own)
        shared = [each.format(s="_all") for each in draw(st.lists(st.sampled_from(EFFECTS), max_size=3))]
        pool = st.lists(st.sampled_from(EFFECTS + USES), min_size=1, max_size=4)
        lines = draw(st.permutations([*shared, *(each.format(s=own) for each in draw(pool))]))
        rebound = "global " + ", ".join(f"{each}{s}" for each in ("n", "total") for s in ("_all", own))
        source += f"def {name}(x):\n    {rebound}\n" + "".join(f"    {line}\n" for line in lines) + "    return x\n"
        names.append(name)
    calls = [(draw(st.sampled_from(names)), argument) for argument in range(1, draw(st.integers(2, 6)))]
    return source, calls


class Model:
    """A cache of results by key, each with the components beside the key in which it was found to be the same."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[object, dict[str, str]]]] = {}

    def call(self, function: Any, argument: int) -> object:
        made = fingerprint(function, (argument,))
        beside = dict(made.loose)
        known = self._found.setdefault(made.hash, [])
        for result, _ in known:
            rows = [row for other, row in known if other == result]
            learnt = {label for row in rows for label, _ in row.items() ^ rows[0].items()}
            if any({label for label, _ in row.items() ^ beside.items()} <= learnt for row in rows):
                return result
        result = function(argument)
        if not changed_meanwhile(made, function, (argument,), {}):
            known.append((result, beside))
        return result


@pytest.mark.whole
@given(program=programs())
def test_calls_that_are_served_change_no_result(
    program: tuple[str, list[tuple[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In any start, whatever was served in it before."""
    source, calls = program
    directory: Path = tmp_path_factory.mktemp("effects")
    expected, model = run_calls(directory, source, calls), Model()
    for start in range(STARTS):
        results = run_calls(directory, source, calls, model.call)
        assert results == expected, (start, source.rpartition("size_")[2], calls)
