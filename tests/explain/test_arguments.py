"""What differs between the arguments of two calls."""

import pytest

from jcache.explain.arguments import argument_changes, static_changes
from jcache.runs.record import Argument
from jcache.vocabulary import CauseKind
from tests.helpers.records import program


@pytest.mark.parametrize(
    ("new", "old", "items", "pairs"),
    [
        ("f32[61,128]", "f32[64,128]", [CauseKind.SHAPE], {("64", "61")}),
        ("f32[]", "f32[64]", [CauseKind.SHAPE], {("64", "")}),
        ("bf16[64]", "f32[64]", [CauseKind.DTYPE], {("f32", "bf16")}),
        ("i32[3]", "f32[4]", [CauseKind.DTYPE, CauseKind.SHAPE], {("f32", "i32")}),
        ("f32[]{weak_type=True}", "f32[]", [CauseKind.WEAK_TYPE], set()),
        ("key<fry>[2]", "key<fry>[3]", [CauseKind.SHAPE], {("3", "2")}),
        ("Token", "f32[3]", [CauseKind.DTYPE], {("f32[3]", "Token")}),
        ("f32[3]", "f32[3]", [], set()),
    ],
)
def test_types_are_compared_by_dtype_shape_and_weakness(
    new: str, old: str, items: list[CauseKind], pairs: set[tuple[str, str]]
) -> None:
    """Each way in which two types differ is a change, with the sizes or dtypes that differ."""
    ours, theirs = (program(arguments=(Argument("x", kind),)) for kind in (new, old))
    found = list(argument_changes(ours, theirs))
    assert [change.item for change in found] == items
    assert not found or found[0].pairs == pairs


def test_arguments_that_change_alike_are_one_change() -> None:
    """The first of several arguments that change alike is named, and the others are counted."""
    ours, theirs = (program(arguments=tuple(Argument(f"x{n}", f"f32[{size}]") for n in range(3))) for size in (61, 64))
    (change,) = argument_changes(ours, theirs)
    assert (change.name, change.more) == ("x0", 2)


def test_addresses_in_static_arguments_are_no_change() -> None:
    """The address of an object is another one in each process, and tells nothing."""
    ours, theirs = (program(static={"f": f"<function f at 0x7f00{n}00aa>"}) for n in (1, 2))
    assert list(static_changes(ours, theirs)) == []


def test_of_long_static_arguments_the_part_that_differs_is_shown() -> None:
    """A static value that is long is shown where it differs, with a few words before."""
    values = [f"({'layer, ' * 30}width={n}, {'name, ' * 30})" for n in (64, 61)]
    ours, theirs = (program(static={"model": value}) for value in values[::-1])
    (change,) = static_changes(ours, theirs)
    assert (change.current, change.baseline) == ("…layer, width=61…", "…layer, width=64…")
    assert change.pairs == {("64", "61")}
