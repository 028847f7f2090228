"""Graphs of networkx keep nodes, edges and attributes in their order, and share attributes as networkx does."""

from typing import Any

import pytest

from jcache.errors import NotStorable, Unresolved
from jcache.formats.pytrees import dump
from jcache.formats.pytrees.networks import ADAPTERS
from tests.formats.pytrees.test_pytrees import again
from tests.helpers.package_values import network, same

networkx = pytest.importorskip("networkx")


@pytest.mark.parametrize("name", ADAPTERS)
def test_graphs_come_back(name: str) -> None:
    """A graph of a hit is the same and works: the attributes of an edge are one dictionary from either end."""
    made = network(name.partition(":")[2], [3, "a", [1, 2]], [(0, 1, 2.5), (1, 2, "w"), (0, 0, 1.0)], 2)
    found = again(made)
    assert same(made, found)
    for each in (made, found):
        each.add_edge("a", 9, weight=1)
        key = (0,) if each.is_multigraph() else ()
        each.edges["a", 9, *key]["more"] = 2
        assert (each.pred if each.is_directed() else each.adj)[9]["a"][0 if key else "more"] == (
            {"weight": 1, "more": 2} if key else 2
        )
        each.remove_node(3)
    assert same(made, found)


def refusals() -> dict[str, Any]:
    frozen, view = networkx.freeze(networkx.path_graph(2)), networkx.path_graph(3).subgraph([1])
    odd, mine = networkx.Graph([(float("nan"), 1)]), networkx.Graph()
    mine.title = "mine"
    return {"frozen": frozen, "view": view, "odd": odd, "mine": mine, "holder": networkx.Graph(held=object())}


@pytest.mark.parametrize("name", ["frozen", "view", "odd", "mine", "holder"])
def test_other_graphs_are_refused(name: str) -> None:
    """A frozen graph, a view, a node that is not equal to itself and attributes of any object are not stored."""
    with pytest.raises(NotStorable):
        dump(refusals()[name])


def test_another_version_is_told() -> None:
    """A graph whose attributes are those of another version of networkx cannot be made."""
    with pytest.raises(Unresolved, match="other attributes"):
        ADAPTERS["networkx:Graph"].from_plain(networkx.Graph, {"graph": {}})
