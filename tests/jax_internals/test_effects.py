"""The names of effects."""

from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json
import jax
from jax._src import callback, core, debugging, effects
from jcache.errors import NotStorable
from jcache.jax_internals.effects import named, names_of

class Own(effects.Effect): pass

def refused(call):
    try: call()
    except NotStorable as error: return str(error)

known = [debugging.debug_effect, debugging.ordered_debug_effect]
names = names_of(known)
print(json.dumps([sorted(names), [each in known for each in named(names)], refused(lambda: names_of([Own()])),
                  refused(lambda: named(["jax._src.debugging:no_effect"])), refused(lambda: named(["os:environ"]))]))
"""


def test_effects_of_jax_are_found_by_their_names() -> None:
    """Those of a program's own are refused, and names that JAX does not have."""
    said: Any = run(PROGRAM).value
    assert said[0] == ["jax._src.debugging:debug_effect", "jax._src.debugging:ordered_debug_effect"]
    assert said[1] == [True, True] and said[2].startswith("it has the effect")
    assert said[3:] == [f"this JAX has no effect {name}" for name in ("jax._src.debugging:no_effect", "os:environ")]
