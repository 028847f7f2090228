"""In what a trace or graph differs from another one: by the parts of the keys in their entries."""

import os
from collections.abc import Iterator, Mapping

import pytest

from jcache.errors import DamagedEntry, InvalidValue, UnknownKey
from jcache.explain.sealed_entries import PartChange, SealedComparison, compare_sealed, find_sealed
from jcache.formats.envelope import Codec, EnvelopeHeader, seal
from jcache.layout import Kind, Root
from jcache.store.store import Store
from tests.helpers.entries import NOW, key

FILE = "12 bytes " + "a" * 64
PARTS = {"argument n": "3", "global RATE": "1.0", "content": "0" * 32, "working directory": "/here"}


@pytest.fixture
def store(native: Root) -> Iterator[Store]:
    with Store(native) as opened:
        yield opened


def add(store: Store, a_key: str, parts: Mapping[str, str], kind: Kind = Kind.GRAPHS, *, parents: str = "") -> str:
    """Store a trace or graph that was made from some parts, and return its key."""
    store.root.directory(kind).mkdir(exist_ok=True)
    data = seal(
        b"payload", kind=kind, name=a_key.rpartition("-")[0], key=a_key, build_seconds=1.5, created_ns=NOW,
        key_parts={**PARTS, **parts}, codec=Codec.NONE, parents=(parents,) if parents else (),
    )  # fmt: skip
    (store.root.directory(kind) / f"{a_key}-cache").write_bytes(data)
    return a_key


def header(store: Store, text: str) -> EnvelopeHeader:
    found = find_sealed(store, text)
    assert found is not None
    return found


def compared(store: Store, one: str, other: str | None = None) -> SealedComparison:
    return compare_sealed(store, header(store, one), header(store, other) if other else None)


def test_an_entry_is_compared_with_the_most_similar_one_of_its_name(store: Store) -> None:
    """Parts that tell entries apart, and not calls, do not count: what they hold, and the directories."""
    old = add(store, key(1, "tab"), {"content": "1" * 32, "working directory": "/there"})
    add(store, key(2, "tab"), {"argument n": "5", "global RATE": "3.0"})
    add(store, key(3, "other"), {"argument n": "4"})
    new = add(store, key(4, "tab"), {"argument n": "4"})
    assert compared(store, new) == SealedComparison(new, old, (PartChange("argument n", "n 3 → 4", "4", "3"),))
    assert compared(store, key(3, "other")).baseline is None


def test_two_entries_are_compared_as_they_are_named(store: Store) -> None:
    """All differences are told; a file that was read by two paths once, under the shorter one."""
    files = {"file cfg.json": FILE, "file /there/cfg.json": FILE}
    old = add(store, key(1, "tab"), files)
    new = add(store, key(2, "tab"), {"global RATE": "2.0", **dict.fromkeys(files, FILE.replace("a", "b"))})
    found = compared(store, new, old)
    assert [each.text for each in found.changes] == ["global RATE 1.0 → 2.0", "file cfg.json changed"]
    told = found.to_json()
    assert (told["key"], told["baseline"]) == (new, old)
    assert told["causes"][0] == {"name": "global RATE", "current": "2.0", "baseline": "1.0"}


def test_a_program_of_a_trace_stands_for_the_trace(store: Store) -> None:
    """What the program was lowered from is in the entry of its trace; without that, it cannot be told."""
    trace = add(store, key(1, "step"), {}, Kind.TRACES)
    add(store, key(2, "step.stablehlo"), {"trace": "1"}, Kind.TRACES, parents=trace)
    assert header(store, "step.stablehlo-").key == header(store, "step.stablehlo").key == trace
    store.root.place(Kind.TRACES, trace).unlink()
    add(store, key(3, "other.stablehlo"), {"trace": "1"}, Kind.TRACES)
    add(store, key(4, "hostile.stablehlo"), {"trace": "1"}, Kind.TRACES, parents="../../x")
    for name in ("step", "other", "hostile"):
        with pytest.raises(UnknownKey, match="the program of a trace that is gone or cannot be read"):
            find_sealed(store, f"{name}.stablehlo-")


def test_a_function_stands_for_its_latest_entry(store: Store) -> None:
    """Of a trace and a graph of one name, the trace."""
    graphs = [add(store, key(number, "tab"), {}) for number in range(2)]
    for number, each in enumerate(graphs[::-1]):
        os.utime(store.root.place(Kind.GRAPHS, each), ns=(NOW + number, NOW + number))
    assert header(store, "tab").key == graphs[0]
    trace = add(store, key(2, "tab"), {}, Kind.TRACES)
    assert header(store, "tab").key == trace


def test_what_stands_for_nothing_or_for_several_or_is_damaged(store: Store) -> None:
    """What is no beginning of a key is nothing; several keys and damage are errors, and so are two functions."""
    graph = add(store, key(1, "tab"), {})
    trace = add(store, key(2, "tab"), {}, Kind.TRACES)
    assert find_sealed(store, "nothing") is None
    with pytest.raises(UnknownKey, match="'tab-' stands for 2 keys of traces and graphs"):
        find_sealed(store, "tab-")
    with pytest.raises(InvalidValue, match=r"is a trace of tab, .* a graph of tab"):
        compared(store, trace, graph)
    store.root.place(Kind.GRAPHS, graph).write_bytes(b"damaged")
    with pytest.raises(DamagedEntry):
        find_sealed(store, graph)
