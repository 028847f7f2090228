"""The orders in which an eviction removes entries."""

from enum import StrEnum


class Order(StrEnum):
    """The order in which entries go."""

    LRU = "lru"
    COST = "cost"
