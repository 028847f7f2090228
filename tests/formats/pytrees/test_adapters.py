"""Values of other packages become plain ones, are made again before they are stored, and are read by name."""

from typing import Any

import numpy as np
import pytest

from jcache.errors import InvalidValue, NotStorable, Unresolved
from jcache.formats import pytrees
from jcache.formats.pytrees import adapters
from jcache.formats.pytrees.adapters import PREFIX, ClassAdapter, from_plain, plain_of
from jcache.formats.pytrees.grammar import Unsupported

sparse = pytest.importorskip("scipy.sparse")


@pytest.fixture(name="matrix")
def matrix_fixture() -> Any:
    return sparse.csr_array(np.eye(3))


def replaced(monkeypatch: pytest.MonkeyPatch, adapter: ClassAdapter) -> None:
    """Have one adapter serve for matrices."""
    monkeypatch.setattr(adapters, "_adapters_of", lambda package: {"scipy.sparse:csr_array": adapter})


def test_a_value_is_known_by_its_class(matrix: Any) -> None:
    """A value is stored under the public name of its class; a subclass and other values are not known."""
    found = plain_of(matrix)
    assert found is not None and found[0] == f"{PREFIX}scipy.sparse:csr_array"
    assert type(from_plain(*found)) is sparse.csr_array
    mine = type("csr_array", (sparse.csr_array,), {"__module__": "scipy.sparse"})
    assert [plain_of(each) for each in (1, object(), np.eye(2), mine((1, 1)))] == [None] * 4


def test_a_value_that_comes_back_changed_is_refused(matrix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a value is stored, it is made again and compared: other bits, or another type, are a reason to refuse."""
    replaced(monkeypatch, ClassAdapter(lambda each: each.toarray(), lambda cls, state: cls(state * 2)))
    with pytest.raises(Unsupported, match="would come back changed"):
        plain_of(matrix)
    replaced(monkeypatch, ClassAdapter(lambda each: each.toarray(), lambda cls, state: sparse.csc_array(state)))
    with pytest.raises(Unsupported, match="would come back changed"):
        plain_of(matrix)
    replaced(monkeypatch, ClassAdapter(lambda each: each.toarray(), lambda cls, state: cls(state), lambda *_: False))
    with pytest.raises(Unsupported, match="would come back changed"):
        plain_of(matrix)
    replaced(monkeypatch, ClassAdapter(lambda each: each.toarray(), lambda cls, state: cls(state)))
    assert plain_of(matrix) is not None


def test_what_an_adapter_raises_is_a_reason(matrix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that fails leaves the value to a codec, which the message names."""
    replaced(monkeypatch, ClassAdapter(lambda each: 1 / 0, lambda cls, state: cls(state)))
    with pytest.raises(NotStorable, match=r"`\['a'\]`.*cannot be taken apart.*codec=jcache.FileCodec"):
        pytrees.dump({"a": matrix})


def test_names_that_cannot_be_made_are_told() -> None:
    """A name of a later jcache, of a package that is not there, or a state of another version cannot be made."""
    for name, state in (
        ("scipy.sparse:future_array", {}),
        ("absent:Thing", {}),
        ("os:system", "true"),
        ("scipy.sparse:csr_array", {}),
        ("scipy.sparse:csr_array", {"attributes": {"data": 1}, "dtypes": {}, "lists": {}}),
        ("jax:Array", {}),
    ):
        with pytest.raises(Unresolved):
            from_plain(PREFIX + name, state)


def test_names_of_jcache_are_its_own() -> None:
    """A program cannot register a class under the name of an adapter."""
    with pytest.raises(InvalidValue, match="begins with"):
        pytrees.register_class(Thing, name=f"{PREFIX}scipy.sparse:csr_array", to_dict=vars, from_dict=lambda _: Thing())


class Thing:
    pass


def test_a_registered_class_is_stored_as_the_program_says(matrix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program has registered the class, its own functions count."""
    from jcache.formats.pytrees import registration

    monkeypatch.setattr(registration, "_by_class", {})
    monkeypatch.setattr(registration, "_by_name", {})
    pytrees.register_class(
        sparse.csr_array, to_dict=lambda each: each.toarray(), from_dict=lambda state: ["mine", state]
    )
    found = pytrees.load(memoryview(bytearray(b"".join(pytrees.dump(matrix).pieces))))
    assert found[0] == "mine"
