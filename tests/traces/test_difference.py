"""What differs between two traces is said in a few words."""

import pytest

from jcache.jax_internals.avals import Result
from jcache.traces.difference import difference, difference_of_programs
from jcache.traces.format import Trace

TRACE = Trace(kept=(0, 2), results=(Result((3,), "float32", is_weak=False),), structure=["*"], targets=("a",))


def test_the_first_thing_that_differs_is_named() -> None:
    """Structure, types of results, arguments and calls; nothing where two traces are alike."""
    assert difference(TRACE, TRACE) is None
    other = TRACE._replace(results=(Result((3,), "int32", is_weak=True),))
    assert difference(TRACE, other) == "the array 0 of its result was `float32[3]` and is `int32[3] weak`"
    assert difference(TRACE, TRACE._replace(results=())) == "it returned 1 arrays and returns 0"
    assert difference(TRACE, TRACE._replace(kept=())) == "it used its arguments 0, 2 and uses none"
    assert difference(TRACE, TRACE._replace(targets=("a", "b"))) == "it calls b"
    assert difference(TRACE._replace(targets=("a", "b")), TRACE) is None
    said = difference(TRACE, TRACE._replace(structure=[["builtins:list", None, 1], "*"]))
    assert said == 'the structure of its result was `["*"]` and is `[["builtins:list", None, 1], "*"]`'.replace(
        "None", "null"
    )


def test_seconds_may_be_others_where_only_the_time_differs() -> None:
    """Floating-point numbers in what tracing sets, and nothing else."""
    then, now, other = (
        TRACE._replace(settings=[["mod.took", 0, seconds], ["mod.all", 0, {"more": {"list": [seconds, name]}}]])
        for seconds, name in ((0.5, "f"), (0.25, "f"), (0.25, "g"))
    )
    assert difference(then, now, seconds=0.1) is None and "what it sets was" in str(difference(then, now))
    assert "what it sets was" in str(difference(now, other, seconds=0.1))
    later = TRACE._replace(settings=[["mod.took", 0, 1.5], *(now.settings or [])[1:]])
    assert "what it sets was" in str(difference(now, later, seconds=0.1))  # tracing took no such time


def test_the_state_of_a_generator_is_not_shown() -> None:
    """It is a long number, which says nothing."""
    then, now = (TRACE._replace(settings=[["(generator)", 0, {"text": ["bytes", state]}]]) for state in ("5b", "5c"))
    assert difference(then, now) == "it left a random generator in another state"


def test_long_texts_are_cut_around_the_difference() -> None:
    """Both are shown from the same place on."""
    then, now = (TRACE._replace(structure=["*" * 500, name, "*" * 500]) for name in ("old", "new"))
    said = difference(then, now) or ""
    assert "old" in said and "new" in said and "…" in said and len(said) < 300


@pytest.mark.full
def test_programs_differ_in_a_line() -> None:
    """The first line that differs is named; a stored program that this jaxlib cannot read differs as well."""
    import jax
    from jax import export

    one, other = (
        export.export(jax.jit(function))(1.0).mlir_module_serialized for function in (jax.numpy.sin, jax.numpy.cos)
    )
    assert "stablehlo.sine" in (said := difference_of_programs(one, other)) and "stablehlo.cosine" in said
    for unreadable in (b"StableHLO of a later version", one[: len(one) // 2]):
        assert difference_of_programs(unreadable, one) == "its stored StableHLO cannot be read by this jaxlib"
    assert difference_of_programs(None, one) == "its StableHLO differs"
