"""Encoding of the attributes of an object that count."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from jcache.fingerprint import attributes, origins
from jcache.fingerprint.selection import is_handed_on, select
from jcache.fingerprint.side_effects import IN_LIBRARY, IN_OBJECT

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder


def encode_state(encoder: Encoder, value: Any, beside: Collection[str] = ()) -> bytes:
    """Encode the attributes of an object that count.

    Args:
        encoder: the encoder.
        value: the object.
        beside: the names of attributes that are left out.
    """
    kind = type(value)
    wholly = encoder.is_whole(kind) or attributes.is_frozen(kind) or id(value) in encoder.compared
    found = []
    held, is_library = list(attributes.held(value)), encoder.is_library(kind)
    is_linen = attributes.is_of_linen(kind)  # flax uses the fields of the program's modules by their names
    is_fixed = is_library and not attributes.is_holder(kind)
    handed_on = is_handed_on(encoder, value)
    if encoder.may_grow and is_fixed:
        held = encoder.before.without_memos(value, held)
    elif encoder.for_trace and not is_fixed:
        held = encoder.before.without_new(value, f"object {origins.path_of(kind)}", held)
    for name, each in held:
        if name in beside:
            continue
        if name == "_id" and is_linen:
            found.append((name, encoder.linen_ids.setdefault(each, len(encoder.linen_ids))))
        elif (kept := attributes.is_kept(kind, name)) or not (wholly or name in encoder.names):
            encoder.aside.update(() if kept else attributes.names_reading(kind, name))
            was = each if kept or is_fixed else encoder.then(value, name, each, may_count=False)
            encoder.set_aside(attributes.label_of(kind, name, is_cached=kept, is_handed_on=handed_on), was)
        elif attributes.is_hash(each, name) and (is_library or attributes.is_hash_of(each, value)):
            encoder.set_aside(f"attribute {name} of {kind.__qualname__}", each)
        else:
            encoder.nones.update([name] if each is None else ())
            each = each if is_fixed else encoder.then(value, name, each)
            by_name = not is_fixed and (is_linen or not wholly)
            found.append((name, select(encoder, (name,), each, is_handed_on=handed_on) if by_name else each))
    encoder.note_order(name for name, _ in found)
    encoder.snapshot.read_otherwise.update(name for name, _ in found if id(value) in encoder.compared)
    return encoder.members(found, IN_LIBRARY if is_fixed else IN_OBJECT)
