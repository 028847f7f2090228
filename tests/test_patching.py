"""Functions and attributes of other modules are replaced, and put back in any order."""

from types import SimpleNamespace

import pytest

from jcache.patching import Patch, View


def test_patches_are_undone_in_any_order_and_leave_nothing_behind() -> None:
    """Patches that come and go in any order leave no layer behind; below another program's patch they do nothing."""
    module = SimpleNamespace(function=lambda: "original")
    original = module.function

    def patch(name: str) -> Patch:
        return Patch(module, "function", lambda below: lambda: f"{name} {below()}")

    first = patch("first")
    for number in range(2000):
        second = patch(f"second {number}")
        first.undo()
        first = patch("first")
        second.undo()
    assert module.function() == "first original"
    assert module.function.__wrapped__ is original
    second, ours = patch("second"), module.function
    module.function = lambda: f"theirs {ours()}"
    third = patch("third")
    first.undo()
    assert module.function() == "third theirs second original"
    second.undo()
    second.undo()
    third.undo()
    assert module.function() == "theirs original"


def test_a_view_stands_in_for_an_object() -> None:
    """Only the given attributes are others, and the object itself stays as it is."""
    original = SimpleNamespace(a=1, b=2)
    view = View(original, b=3)
    assert (view.a, view.b, original.b) == (1, 3, 2)
    original.a = 4
    assert view.a == 4
    with pytest.raises(AttributeError):
        view.c  # noqa: B018


def test_a_replaced_method_of_a_class_is_called_at_once() -> None:
    """Code that Python has specialised for the old method calls the new one, however often it is replaced."""

    class Table:
        def __getitem__(self, key: int) -> int:
            return key

    def look() -> list[int]:
        return [Table()[1] for _ in range(50)]

    for _ in range(1500):
        patch = Patch(Table, "__getitem__", lambda original: lambda self, key: original(self, key) + 1)
        assert Table()[1] == 2
        patch.undo()
        assert Table()[1] == 1
    patch = Patch(Table, "__getitem__", lambda original: lambda self, key: -1)
    assert look() == [-1] * 50
    patch.undo()
    assert look() == [1] * 50
