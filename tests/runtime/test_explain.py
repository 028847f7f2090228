"""Why a call is, or is not, served: the entry itself, or what differs from the nearest one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from jcache.errors import Unresolved
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root
from jcache.runtime.explain import Explanation, explain, nearest, why_missed
from jcache.runtime.sealed_store import OpenedEntry
from jcache.store.roots import create_root
from jcache.vocabulary import CauseKind
from tests.helpers.entries import NOW, key, tree

KIND = Kind.GRAPHS
PARTS = {"function": "mesh", "n": "3", "theta": "2.0"}


def add(root: Root, number: int, parts: Mapping[str, str] | None = None, *, age: int = 0) -> str:
    """Store a graph, and return its key."""
    a_key = key(number, "mesh")
    root.directory(KIND).mkdir(exist_ok=True)
    data = seal(
        b"payload", kind=KIND, name="mesh", key=a_key, build_seconds=1.5, created_ns=NOW - age,
        key_parts={**PARTS, **(parts or {})}, codec=Codec.NONE,
    )  # fmt: skip
    (root.directory(KIND) / f"{a_key}-cache").write_bytes(data)
    return a_key


def load(opened: OpenedEntry) -> object:
    """Load an entry, unless a part of it cannot be made here."""
    if "unknown" in opened.header.key_parts:
        raise Unresolved("its class is gone")
    return bytes(opened.payload)


def asked(root: Root, number: int, *shared: Root, **parts: str) -> Explanation:
    return explain(root, KIND, "mesh", key(number, "mesh"), PARTS | parts, load, shared)


def test_a_hit_names_its_root_and_what_building_took(native: Root, tmp_path: Path) -> None:
    """A read-only root serves as well, after the first one; nothing is changed by asking."""
    other = create_root(tmp_path / "other")
    add(other, 1)
    before = tree(native.path)
    found = asked(native, 1, other)
    assert found.hit and found.reason == f"from {other.path}, built in 1.50 s" and "mesh: hit" in str(found)
    add(native, 1)
    assert f"from {native.path}" in asked(native, 1, other).reason
    assert tree(native.path).keys() >= before.keys()


def test_a_miss_names_the_most_similar_entry(native: Root) -> None:
    """Of the entries of the name, the one with the fewest differences is compared; the later of equal ones."""
    add(native, 1, {"n": "4", "theta": "3.0"})
    add(native, 2, {"n": "4"}, age=5)
    latest = add(native, 3, {"n": "5"})
    found = asked(native, 9)
    assert (found.hit, found.nearest) == (False, latest)
    (change,) = found.changes
    assert "5 → 3" in change and change in str(found)
    assert why_missed(native, KIND, "mesh", key(9, "mesh"), PARTS) == change


def test_where_nothing_of_the_name_is_there(native: Root) -> None:
    """Entries of other functions are not compared."""
    assert "nothing of this name" in asked(native, 1).reason
    other = key(1, "net")
    found = nearest(native, KIND, "net", other, PARTS)
    add(native, 1)
    assert nearest(native, KIND, "net", other, PARTS) == found and found.nearest is None


def test_dependencies_of_a_build_are_no_differences(native: Root) -> None:
    """What was read while the nearest entry was built is no part of the call that is asked for."""
    add(native, 1, {"n": "4", "file /a": "1", "environment HOME": "/x"})
    (change,) = asked(native, 9).changes
    assert "4 → 3" in change


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "it is damaged: "),
        (lambda path: None, "it cannot be loaded: its class is gone"),
    ],
)
def test_an_entry_that_does_not_serve_says_why(native: Root, spoil: object, reason: str) -> None:
    """Damage, and what cannot be made here, are told, and no other entry is compared."""
    assert callable(spoil)
    a_key = add(native, 1, {"unknown": "1"})
    spoil(native.directory(KIND) / f"{a_key}-cache")
    found = asked(native, 1, unknown="1")
    assert not found.hit and found.reason.startswith(reason) and found.nearest is None


def test_a_stale_entry_says_what_has_changed(native: Root, tmp_path: Path) -> None:
    """A file that the entry was made from is named, with the entry itself as the nearest one."""
    a_key = add(native, 1, {f"file {tmp_path / 'gone'}": "blake2b:00"})
    found = asked(native, 1)
    assert (found.hit, found.nearest) == (False, a_key)
    assert "have changed since it was built" in found.reason and "gone" in found.changes[0]


@pytest.mark.parametrize(
    ("label", "old", "new", "item"),
    [
        ("argument n", "3", "4", CauseKind.STATIC),
        ("array x", "float32[64]", "float32[61]", CauseKind.SHAPE),
        ("array x", "float32[64]", "float16[64]", CauseKind.DTYPE),
        ("array x", "float32[]", "float32[] weak", CauseKind.WEAK_TYPE),
        ("option jax_enable_x64", "False", "True", CauseKind.JAX_OPTION),
        ("distribution jaxlib", "0.10.2", "0.12", CauseKind.VERSION),
        ("helper `rate`", "1", "2", CauseKind.PROGRAM),
    ],
)
def test_the_cause_of_a_miss_is_a_word_of_the_vocabulary(
    native: Root, label: str, old: str, new: str, item: CauseKind
) -> None:
    """What differs first from the nearest entry is named as `jcache explain` names it."""
    add(native, 1, {label: old, "n": "3"})
    assert asked(native, 9, **{label: new}).item is item


def test_causes_of_misses_without_a_difference(native: Root) -> None:
    """A hit has no cause; where nothing of the name is there, and where an entry is damaged, the words are the same."""
    assert asked(native, 1).item is CauseKind.FIRST_TIME
    a_key = add(native, 1)
    assert asked(native, 1).item is None
    path = native.directory(KIND) / f"{a_key}-cache"
    path.write_bytes(path.read_bytes()[:-1])
    assert asked(native, 1).item is CauseKind.DAMAGED
