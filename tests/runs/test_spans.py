"""Seconds of nested spans are told apart."""

from hypothesis import given, strategies as st

from jcache.runs.spans import Spans

# A span as a tree: its own seconds, and the spans inside it.
TREES = st.recursive(
    st.tuples(st.integers(1, 9), st.just(())),
    lambda inner: st.tuples(st.integers(1, 9), st.lists(inner, max_size=4).map(tuple)),
    max_leaves=20,
)
Tree = tuple[int, tuple["Tree", ...]]


def length(tree: Tree) -> int:
    return tree[0] + sum(map(length, tree[1]))


def ends(tree: Tree, start: int) -> list[tuple[int, int, int]]:
    """Return end, whole seconds and own seconds of each span, in the order in which they end."""
    found, at = [], start
    for inner in tree[1]:
        found += ends(inner, at)
        at += length(inner)
    return [*found, (start + length(tree), length(tree), tree[0])]


@given(st.lists(TREES, max_size=5))
def test_each_second_counts_once(trees: list[Tree]) -> None:
    """A span's own seconds are those in which no inner span runs."""
    spans, at = Spans(), 0
    for tree in trees:
        for end, seconds, own in ends(tree, at):
            assert spans.own_seconds(float(end), float(seconds)) == own
        at += length(tree) + 1


def test_memory_is_bounded() -> None:
    """Of any number of spans at one level at most 4,096 are remembered, and an outer one still subtracts all."""
    spans = Spans()
    for number in range(10_001):
        spans.own_seconds(number + 1.0, 1.0)
    assert len(spans._ended) <= 4096
    assert spans.own_seconds(10_001.5, 10_001.5) == 0.5
