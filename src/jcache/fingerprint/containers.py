"""Containers that may grow during a call, and the names by which code reaches them."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from jcache.fingerprint.side_effects import HIDDEN
from jcache.fingerprint.ways import item_name

if TYPE_CHECKING:
    from jcache.fingerprint.snapshot import ValueSnapshot
    from jcache.fingerprint.values import Encoder


def growing(encoder: Encoder, container: Any, names: Set[str], before: ValueSnapshot | None) -> Any:
    """Return what counts of a container: its copy in the snapshot of an earlier walk if it has only grown since.

    Args:
        encoder: the encoder, whose snapshot gets a copy if there was no earlier walk.
        container: a container of a type in `jcache.fingerprint.snapshot.GROWING`.
        names: the names by which code reaches it.
        before: the snapshot of an earlier walk, if there is one.
    """
    if before is not None:
        return before.as_it_was(container)
    encoder.snapshot.add(container, names, id(encoder.originals.get(id(container), container)))
    return container


def names_of(encoder: Encoder, value: Any, within: Set[str]) -> Set[str]:
    """Return the names by which code may reach a value within what has some names.

    A value is hidden if it has no name of its own, and no container or object holds it, but a partial or a pytree.
    """
    name = name_here(encoder)
    names = {name, *(item_name(each, key) for each in within for key in (name, None))}
    return names if within or value is encoder.head else names | {item_name(HIDDEN, name)}


def name_here(encoder: Encoder) -> str:
    """Return the name under which the value was found that is being encoded: its own, or that of its part."""
    return encoder.place or encoder.label.partition(" ")[2].partition(" ")[0].rpartition(".")[2]
