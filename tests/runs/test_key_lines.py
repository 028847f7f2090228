"""The lines about keys of a process are kept as far as they fit together."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.runs import key_lines
from jcache.runs.key_lines import KeyLines
from jcache.runs.log import LogReader

JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
LINES = st.dictionaries(
    st.sampled_from(["id", "values", "part", "hash", "value", "parts", "key", "computation", "options", "host", "th"]),
    JSON | st.dictionaries(st.text(max_size=2), JSON, max_size=2),
)


def key_line(key: str, **fields: Any) -> dict[str, Any]:
    return {"e": "key", "key": key, "computation": "c", "parts": "p", "options": "o"} | fields


def test_lines_refer_to_one_another() -> None:
    """A key's parts are those of their identifier and its own computation; a value is put together from its pieces."""
    lines = KeyLines()
    lines.add({"e": "value", "part": "XLA flags", "hash": "f", "value": ["--a", "=1"]})
    lines.add({"e": "parts", "id": "p", "parts": {"XLA flags": "f"}})
    lines.add(key_line("jit_f-1"))
    assert lines.parts_of(lines.by_key["jit_f-1"]) == {"computation": "c", "XLA flags": "f"}
    assert lines.values == {"XLA flags": {"f": "--a=1"}}
    assert lines.parts_of(key_line("jit_g-1", parts="q")) == lines.parts_of({}) == {}


def test_a_key_with_a_path_has_the_parts_of_the_other() -> None:
    """Where JAX looks under a key that depends on a path, its parts are those of the key that does not."""
    lines = KeyLines()
    lines.add(key_line("jit_f-1"))
    lines.take_over("jit_f-2", "jit_f-1")
    lines.take_over("jit_f-3", "jit_g-1")
    assert lines.by_key["jit_f-2"] == lines.by_key["jit_f-1"] and "jit_f-3" not in lines.by_key


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many keys and values are kept: the first ones."""
    monkeypatch.setattr(key_lines, "_MAX_KEYS", 3)
    monkeypatch.setattr(key_lines, "_MAX_VALUES", 2)
    lines = KeyLines()
    for number in range(9):
        lines.add(key_line(f"jit_f-{number}"))
        lines.add({"e": "value", "part": "p", "hash": str(number), "value": []})
    assert list(lines.by_key) == ["jit_f-0", "jit_f-1", "jit_f-2"] and len(lines.values["p"]) == 2


@given(st.lists(st.tuples(st.sampled_from(sorted(key_lines.KEY_EVENTS)), LINES)))
def test_malformed_lines_are_passed_over(found: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever stands in a line, reading goes on."""
    reader = LogReader()
    for event, line in found:
        reader.feed({**line, "e": event})
    for line in reader.end().keys.by_key.values():
        reader.recording.keys.parts_of(line)
