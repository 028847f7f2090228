"""Attributes that a program has set on a value of Python's own types count beside the value."""

from jcache.fingerprint.handlers import HANDLERS
from jcache.fingerprint.value_types import PLAIN

KEEPING = frozenset({"function", "SimpleNamespace", "module", "type", "ABCMeta"})


def test_each_type_whose_values_can_have_attributes_is_known() -> None:
    """Its handler encodes them, but for types whose own handler does."""
    can = {kind for kind in PLAIN if kind.__dictoffset__ and kind.__name__ not in KEEPING}
    aliases = {kind for kind in can if kind.__module__ == "typing" and kind.__name__ != "TypeVar"}
    assert {kind for kind in can - aliases if HANDLERS[kind] is PLAIN[kind]} == set()
    assert HANDLERS.keys() == PLAIN.keys()
