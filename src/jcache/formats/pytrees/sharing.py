"""Containers that a value mentions more than once, and the nodes that say so."""

from __future__ import annotations

from typing import Any

Node = Any


class Containers:
    """The containers of one value; those that are mentioned again get numbers in `resolved`.

    Attributes:
        nodes: the nodes of the containers, by their ids; a container must be kept alive.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self._numbers: dict[int, int | None] = {}  # of the nodes that are mentioned again, by their ids
        self._again: dict[int, Node] = {}  # nodes by the ids of those that mention them again
        self._count = 0

    @property
    def are_shared(self) -> bool:
        """Whether one was mentioned more than once."""
        return bool(self._numbers)

    def add(self, container: object, node: Node) -> Node:
        """Remember the node of a container; return the node."""
        self.nodes[id(container)] = node
        return node

    def again(self, container: object) -> Node:
        """Return a node that mentions a container again."""
        first = self.nodes[id(container)]
        self._numbers[id(first)] = None
        node: dict[str, Any] = {}
        self._again[id(node)] = first
        return node

    def resolved(self, node: Node) -> Node:
        """Return a node, with the numbers of the containers that are mentioned again."""
        if (first := self._again.get(id(node))) is not None:
            node["$again"] = self._numbers[id(first)]
            return node
        for place, each in enumerate(node) if type(node) is list else node.items():
            if type(each) is list or type(each) is dict:
                node[place] = self.resolved(each)
        if id(node) not in self._numbers:
            return node
        self._numbers[id(node)] = self._count
        self._count += 1
        return {"$shared": node}
