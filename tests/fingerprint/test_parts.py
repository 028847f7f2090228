"""The parts of a fingerprint: labels, digests, words, and how each was reached."""

from pathlib import Path

import pytest

from jcache.errors import GraphKeyError
from jcache.fingerprint import fingerprint
from jcache.fingerprint.parts import Part, Parts, total
from tests.helpers.fingerprints import imported


def test_jaxs_options_are_parts_of_a_graphs_key_where_a_library_runs(tmp_path: Path) -> None:
    """They are no parts of the key of what uses none, nor of a trace's, which has them by itself."""
    sources = {"model.py": "import numpy as np\ndef build(): return np.ones(3)\ndef plain(): return 1"}
    with imported(tmp_path, sources) as model:
        parts = fingerprint(model.build).parts, fingerprint(model.plain).parts
        trace = fingerprint(model.build, for_trace=True).parts
    assert "environment jax_enable_x64" in parts[0]
    assert not any(label.startswith("environment") for label in (*parts[1], *trace))


def test_parts_of_one_name_are_told_apart() -> None:
    """The second has a number behind its label, and what refers to it has that as well."""
    parts = Parts("model", "build")
    references = [parts.value("global n", value) for value in (1, [2], 1)]
    parts.run()
    assert {label: part.words for label, part in parts.parts.items()} == {
        "global n": "1", "global n#2": "[2]", "global n#3": "1",
    }  # fmt: skip
    assert len(set(references)) == 3
    assert parts.parts["global n"].digest == parts.parts["global n#3"].digest


def test_what_is_seen_twice_is_told_where_it_was_seen_first() -> None:
    """One list in two places is another thing than two equal lists."""
    parts = Parts("model", "build")
    held = [1]
    for label, value in (("a", [0, held]), ("b", held), ("c", [1])):
        parts.value(label, value)
    parts.run()
    assert parts.parts["b"].words == "object 1, seen in a" and parts.parts["c"].words == "[1]"


def test_a_value_that_is_refused_is_named() -> None:
    """With the place in it that is to blame."""
    parts = Parts("model", "build")
    parts.value("global rates", {"a": [1, iter([])]})
    with pytest.raises(
        GraphKeyError, match=r"^global `rates`\['a'\]\[1\] of type list_iterator \(reached from rates\)"
    ):
        parts.run()


def test_a_change_in_any_part_changes_the_total() -> None:
    """In its label, its digest or where one label ends and the next begins; the words and the order do not count."""
    one, other = Part(b"1" * 32, "one"), Part(b"2" * 32, "other")
    made = [
        {"ab": one, "c": other}, {"a": one, "bc": other}, {"ab": other, "c": one}, {"ab": one}, {"abc": one},
        {"ab": one, "c": one}, {},
    ]  # fmt: skip
    assert len(set(map(total, made))) == len(made)
    assert total({"c": other._replace(words=""), "ab": one}) == total(made[0])
