"""Which calls are traced without being looked up: noted by processes, believed by later ones, for a day."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.store.roots import create_root
from jcache.traces.hints import Hints
from tests.helpers.jax_programs import run

DAY = 86_400


def age(root: Root, seconds: float) -> None:
    for path in root.verdicts.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def test_three_processes_have_to_agree(native: Root) -> None:
    """A call counts as slower once so many have said so, and no other call does."""
    hints = Hints(native)
    for _ in range(3):
        assert not hints.is_slower("step")
        hints.add_slower(["step"])
    assert hints.is_slower("step") and not hints.is_slower("other")


def test_a_refusal_is_told_as_it_was_noted(native: Root) -> None:
    """Under its key, the latest one counts, and control characters that somebody has put there are not passed on."""
    hints = Hints(native)
    assert hints.refusal("key") is None
    for reason in ("it has effects", "it calls back to the host"):
        hints.refuse("key", reason)
        assert hints.refusal("key") == reason
    hints.refuse("key", "\x1b[31mred")
    assert hints.refusal("key") == "�[31mred"


def test_verdicts_hold_for_a_day(native: Root) -> None:
    """After that they are found out anew."""
    hints = Hints(native)
    hints.add_slower(["step"] * 3)
    hints.refuse("key", "it has effects")
    age(native, DAY - 60)
    assert hints.is_slower("step") and hints.refusal("key")
    age(native, DAY + 60)
    assert not hints.is_slower("step") and hints.refusal("key") is None
    hints.add_slower(["step"])
    assert not hints.is_slower("step")


def test_old_verdicts_go_where_there_are_many(native: Root) -> None:
    """So that their number stays bounded by what a day brings."""
    hints = Hints(native)
    hints.add_slower(map(str, range(1001)))
    age(native, DAY + 60)
    hints.add_slower(["step"])
    assert len(list(native.verdicts.iterdir())) <= 2


@pytest.mark.parametrize("what", ["a file", "nothing"])
def test_where_nothing_can_be_noted(native: Root, tmp_path: Path, what: str) -> None:
    """Nothing is said and nothing is made: not even a root that is gone."""
    if what == "a file":
        native.verdicts.parent.mkdir(exist_ok=True)
        native.verdicts.write_text("")
    root = native if what == "a file" else Root(tmp_path / "gone", plain=False)
    hints = Hints(root)
    hints.add_slower(["step"] * 3)
    hints.refuse("key", "it has effects")
    assert not hints.is_slower("step") and hints.refusal("key") is None
    assert what == "a file" or not (tmp_path / "gone").exists()


CALLED = """
import contextlib, io, json, sys
import jax.numpy as jnp
import jcache
from jcache.traces.hints import lookup_costs
jcache.enable(sys.argv[1], strict=True)
took = float(sys.argv[2])
add = lookup_costs.add
lookup_costs.add = lambda root, call, seconds, spared: add(root, call, took, 1.0)

@jcache.jit
def step(x):
    print("traced")
    return x + 1

with contextlib.redirect_stdout(io.StringIO()) as printed:
    value = float(step(jnp.float32(1)))
print(json.dumps([value, printed.getvalue().count("traced"), str(step.explain(jnp.float32(1)))]))
"""


def test_small_losses_are_taken(tmp_path: Path) -> None:
    """Calls whose looking up takes less than a quarter of a second in all are served in every process."""
    code = """
import sys
from pathlib import Path
from jcache.layout import Root
from jcache.traces.hints import lookup_costs
for call in range(int(sys.argv[2])):
    lookup_costs.add(Root(Path(sys.argv[1]), plain=False), str(call), 0.03, 0.04)
"""
    for calls, noted in ((8, 0), (9, 9)):
        native = create_root(tmp_path / str(calls))
        subprocess.run([sys.executable, "-c", code, native.path, str(calls)], check=True)
        assert len(list(native.verdicts.glob("*"))) == noted


@pytest.mark.jax
@pytest.mark.parametrize(("took", "traced"), [(0.15, [1, 0, 0, 0, 0]), (0.3, [1, 0, 0, 0, 1])])
def test_what_takes_longer_to_look_up_is_traced(tmp_path: Path, took: float, traced: list[int]) -> None:
    """Where looking up takes more than a fifth of what tracing took, in three processes that were served."""
    said = [run(CALLED, tmp_path / "root", took).value for _ in range(5)]
    assert [each[:2] for each in said] == [[2.0, times] for times in traced]
    assert ("tracing it is faster than looking it up" in said[-1][2]) == (traced[-1] == 1)


def test_long_lookups_of_calls_that_are_traced_count(tmp_path: Path) -> None:
    """A second or more, and longer than tracing: a process that compares a trace says so, too."""
    code = """
import sys
from pathlib import Path
from jcache.layout import Root
from jcache.traces.hints import lookup_costs
for call, took, traced in (("long", 1.1, 0.4), ("slow", 1.1, 1.2), ("short", 0.9, 0.1), ("long", 1.1, 0.4)):
    lookup_costs.add_traced(Root(Path(sys.argv[1]), plain=False), call, took, traced)
"""
    native = create_root(tmp_path / "root")
    for _ in range(3):
        assert not Hints(native).is_slower("long")
        subprocess.run([sys.executable, "-c", code, native.path], check=True)
    assert [Hints(native).is_slower(call) for call in ("long", "slow", "short")] == [True, False, False]


SEVERAL = """
import json, sys
import jax.numpy as jnp
import jcache
from jcache.traces.hints import lookup_costs
jcache.enable(sys.argv[1], strict=True)
seconds = {"first": (1.0, 1.0), "small": (0.5, 1.0), "large": (1.0, 100.0)}
add = lookup_costs.add
lookup_costs.add = lambda root, call, took, spared: add(root, call, *seconds[call.split(chr(0))[1]])

def first(x): return x + 1
def small(x): return x + 2
def large(x): return x + 3

x = jnp.float32(1)
for function in (first, small, large):
    jcache.jit(function)(x)
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


@pytest.mark.jax
def test_each_call_is_judged_by_itself(tmp_path: Path) -> None:
    """A small one beside a large one, too; but the first, which takes longer than it would later, by all of them."""
    said = [run(SEVERAL, tmp_path / "root").value for _ in range(5)]
    assert said == [["stored"] * 3, *[["hit"] * 3] * 3, ["hit", "bypassed", "hit"]]


WAITING = """
import json, sys, time
import jax.numpy as jnp
import jcache
from jcache.traces import structures
jcache.enable(sys.argv[1], strict=True)
decode = structures.decode
def waiting(*arguments):
    time.sleep(0.4)
    return decode(*arguments)
structures.decode = waiting
jcache.jit(lambda x: x + 1)(jnp.float32(1))
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


@pytest.mark.jax
def test_waiting_for_the_cpu_does_not_count(tmp_path: Path) -> None:
    """Processes that look traces up while others have the CPU do not call that slower than tracing."""
    said = [run(WAITING, tmp_path / "root").value for _ in range(5)]
    assert said == [["stored"], *[["hit"]] * 4]
