"""A function that is traced now: what it was made from, and why its trace must not be stored."""

import uuid
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.traces.miss import Miss
from jcache.traces.stored_trace import NO_PROGRAM
from tests.helpers.jax_programs import run
from tests.helpers.traces import HERE, TRACE, compiled, judged, missed, request, store, traces_of


def miss(root: Root, *changes: str) -> Miss:
    """Return a call that is about to be traced, and whose key will have changed in this way."""
    traces = traces_of(root)
    return Miss(traces.store, request()._replace(changed=lambda: [*changes]), None, None, HERE, judged(traces))


def test_what_tracing_reads_is_a_part_of_the_trace(native: Root, tmp_path: Path) -> None:
    """Files that it reads are parts besides those of the key, and it returns what the function returned."""
    path = tmp_path / "data.json"
    path.write_text("3")
    one = miss(native)
    assert one.run(path.read_text) == "3" and one.reason is None
    assert f"file {path}" in one.parts and one.parts.items() >= request().parts.items()


def test_tracing_that_changes_its_key_is_not_stored(native: Root) -> None:
    """The reason says what has changed; what the function raises is raised."""
    one = miss(native, "global table {} → {1}")
    assert one.run(lambda: 3) == 3
    assert one.reason == "tracing it changes its key: global table {} → {1}"
    with pytest.raises(ZeroDivisionError):
        miss(native).run(lambda: 1 // 0)


def test_what_differs_in_each_process_is_chance(native: Root) -> None:
    """A function that asks for random bytes while it is traced may be another one in each process."""
    one, other = miss(native), miss(native)
    one.run(uuid.uuid4)
    other.run(uuid.UUID(int=3).hex.upper)
    assert one.chance == {"`os.urandom`"} and other.chance == frozenset()


def test_a_call_is_compared_where_a_trace_could_have_served(native: Root) -> None:
    """So not where there is none, nor where there is a reason why the one that is there cannot serve."""
    traces = traces_of(native)
    assert not missed(traces).is_compared
    store(traces)
    assert missed(traces).is_compared and not missed(traces, why=NO_PROGRAM).is_compared


def test_a_program_that_did_not_fit_is_not_stored_again(native: Root) -> None:
    """Where the trace has this very program, and it could not be replayed, storing it once more would not help."""
    traces = traces_of(native)
    store(traces)
    unfit = missed(traces, why=NO_PROGRAM)
    assert "other devices" in (traces.keeping.keep(unfit, compiled()) or "") and unfit.is_refused


def test_a_trace_has_what_was_traced_and_what_was_compiled(native: Root) -> None:
    """Results and structure are those of the function, the rest is what the compiler says; targets are sorted."""
    record = compiled()
    record.targets, record.effects, record.callbacks = frozenset({"b", "a"}), ("ordered",), {"codes": []}
    one = missed(traces_of(native))
    expected = TRACE._replace(targets=("a", "b"), effects=("ordered",), callbacks={"codes": []})
    assert one.trace(record) == expected and one.callbacks == {"codes": []}


TAKING = """
import json, sys
import jax, jax.numpy as jnp
from pathlib import Path
from jcache.store.roots import create_root
from tests.helpers.traces import traces_of, missed

class Box:
    def __init__(self, *values): self.values = values
jax.tree_util.register_pytree_node(Box, lambda box: (box.values, None), lambda _, parts: Box(*parts[::-1]))

traces, said = traces_of(create_root(Path(sys.argv[1]))), []
for result in ({"a": jnp.ones(3), "b": [2.0]}, "text", Box(jnp.ones(1), jnp.ones(1))):
    miss = missed(traces)
    miss.take(*jax.tree_util.tree_flatten(result), keep=list)
    said.append([miss.reason, len(miss.results), miss.structure])
print(json.dumps(said))
"""


@pytest.mark.jax
def test_a_result_is_taken_as_types_and_structure(tmp_path: Path) -> None:
    """What is no array, and a class that is not made again from its leaves as it was, is a reason not to store it."""
    good, text, box = run(TAKING, tmp_path / "root", cwd=Path(__file__).parents[2]).value
    assert good == [None, 2, [["builtins:dict", ["a", "b"], 2], "*", ["builtins:list", None, 1], "*"]]
    assert text[0] and "a class in its result is not made again" in box[0]
