"""Looking a call up while JAX traces it, or to explain it: what there is of it, or why it is traced as ever."""

from pathlib import Path
from typing import Any

import pytest

from jcache.runtime.worlds.judgement import Check
from jcache.traces.call_lookup import CallLookup
from jcache.traces.keys import Statics
from tests.helpers.jax_programs import run
from tests.helpers.traces import step

BEGINNING = """
import json, sys
import jax, jax.numpy as jnp
import jcache
from jcache.runs import observers
from jcache.runtime.worlds.judgement import Check
from jcache.traces.arguments import Arguments, holds_arguments
from jcache.traces.call_lookup import CallLookup
from jcache.traces.keys import Statics
from jcache.traces.stored_trace import StoredTrace
jcache.enable(sys.argv[1], strict=True)

def step(x, n=1):
    return x * n + 1

def lookup(function=step, counts=True, check=Check.FIRST):
    return CallLookup(function, Statics(function, None, "n"), {}, check, (), counts=counts)

@holds_arguments
def look_up(look, *args, **kwargs):
    found = []
    def traced(*args, **kwargs):
        found.append(look.look_up(Arguments(args, kwargs)))
        return 0
    jax.jit(traced, static_argnames="n")(*args, **kwargs)
    return found[0]

heard = []
observers.add(lambda line: heard.append([line["e"], line.get("outcome"), line.get("reason")]))
x = jnp.ones(3)
"""


def said(program: str, root: Path) -> Any:
    return run(BEGINNING + program, root).value


def test_reasons_are_remembered_by_their_names_and_are_bounded() -> None:
    """A call that was traced for a reason has it by its key and by its rough name; a long run keeps no more of them."""
    lookup = CallLookup(step, Statics(step, None, None), {}, Check.FIRST, (), counts=True)
    lookup.refuse("it has effects", "key", "rough")
    assert lookup.refused == {"key": "it has effects", "rough": "it has effects"}
    lookup.refuse("other", *map(str, range(2000)))
    assert len(lookup.refused) == 1000
    told = lookup.explain_without_key("it has effects")
    assert (told.name, told.key, told.hit, told.reason) == ("step", None, False, "it has effects")


@pytest.mark.jax
def test_a_call_is_looked_up_by_its_types_and_static_arguments(tmp_path: Path) -> None:
    """What is asked for has the key of the call, and there is nothing of it until its trace is stored."""
    program = """
jitted = jcache.jit(step, static_argnames="n")
before = look_up(lookup(), x, n=2)
jitted(x, n=2)
after, other = look_up(lookup(), x, n=2), look_up(lookup(), x, n=3)
told = [before.found, isinstance(after.found, StoredTrace), other.found]
told += [before.request.key == after.request.key != other.request.key, [a.tolist() for a in after.given.args]]
print(json.dumps([*told, after.given.kwargs]))
"""
    assert said(program, tmp_path / "root") == [None, True, None, True, [[1.0] * 3], {"n": 2}]


@pytest.mark.jax
def test_what_cannot_be_looked_up_is_told_with_its_reason(tmp_path: Path) -> None:
    """A function without a key, an option of JAX that observes the program, and a root that is gone; it is traced."""
    program = """
numbers = iter(())
def reading(x, n=1): return x + len(list(numbers))
odd, checked, disabled = lookup(reading), lookup(), lookup()
results = [look_up(odd, x)]
with jax.debug_nans(True):
    results.append(look_up(checked, x))
jcache.disable()
results.append(look_up(disabled, x))
lines = [line for line in heard if line[0] == "trace"]
print(json.dumps([results, lines, [look.explain((x,), {}).reason for look in (odd, disabled)]]))
"""
    results, lines, explained = said(program, tmp_path / "root")
    assert results == [None] * 3 and [line[1] for line in lines] == ["bypassed"] * 3
    reasons = [line[2] for line in lines]
    assert "numbers" in reasons[0] and reasons[1:] == ["jax_debug_nans is on", "`jcache.disable()` has been called."]
    assert explained == [reasons[0], reasons[2]]


@pytest.mark.jax
def test_what_was_found_out_before_spares_the_look(tmp_path: Path) -> None:
    """A call that is slower to look up, and a trace that cannot be stored, is not looked for; `explain` says so."""
    program = """
from jcache.traces.hints import Hints
from jcache.store import roots
hints = Hints(roots.in_use().root)
key = lookup().explain((x,), {}).key
hints.refuse(key, "it has effects")
told = [look_up(lookup(), x) is None, lookup().explain((x,), {}).reason]
rough = look_up(lookup(), x, n=2).rough_key
hints.add_slower([rough] * 3)
told += [look_up(lookup(), x, n=2) is None, lookup().explain((x,), {"n": 2}).reason]
ours = lookup()
ours.refuse("it was refused here", ours.explain((x,), {"n": 3}).key)
told.append(ours.explain((x,), {"n": 3}).reason)
print(json.dumps(told))
"""
    refused, why, slower, reason, here = said(program, tmp_path / "root")
    assert refused and (why, here) == ("it has effects", "it was refused here")
    assert slower and reason.startswith("tracing it is faster than looking it up")


@pytest.mark.jax
def test_a_function_that_is_jitted_again_is_another_one(tmp_path: Path) -> None:
    """The second function that asks for a key has another world than the first, unless it is one to precompile."""
    program = """
def made(): return lambda x: x + 1
functions = [made(), made(), made()]
looks = [look_up(lookup(each, counts=each is not functions[-1]), x) for each in functions]
print(json.dumps([len({look.request.key for look in looks}), [look.world.components["resolution"] for look in looks]]))
"""
    assert said(program, tmp_path / "root") == [1, ["1", "2", "1"]]
