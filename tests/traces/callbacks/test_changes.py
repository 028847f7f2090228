"""Whether an object of a recipe can change: what cannot is made anew, and what can must be held by nothing else."""

import dataclasses
import enum

import pytest

from jcache.traces.callbacks.changes import is_constant, is_frozen, is_tracer


class Kind(enum.Enum):
    ONE = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int = 0


@dataclasses.dataclass
class Open:
    x: int = 0


@pytest.mark.parametrize("value", [1, 1.5, "a", b"a", frozenset({1}), range(3), Kind.ONE])
def test_plain_values_and_members_of_enums_cannot_change(value: object) -> None:
    """Nor can their parts."""
    assert is_constant(value)
    assert not is_constant([value])


def test_a_frozen_dataclass_cannot_change() -> None:
    """An open one can."""
    assert is_frozen(Frozen())
    assert not is_frozen(Open())


@pytest.mark.jax
def test_nobody_changes_a_module_of_linen() -> None:
    """Flax itself forbids it outside of `setup`."""
    linen = pytest.importorskip("flax.linen")
    assert is_frozen(linen.Dense(1))


@pytest.mark.jax
def test_a_tracer_is_no_constant() -> None:
    """An array of JAX is one, and a tracer stands for an array in one process alone."""
    import jax

    found = []

    def note(x: object) -> object:
        found.append((is_tracer(x), is_constant(x)))
        return x

    jax.make_jaxpr(note)(1.0)
    assert found == [(True, False)]
    assert is_constant(jax.numpy.ones(1))
    assert not is_tracer(jax.numpy.ones(1))
