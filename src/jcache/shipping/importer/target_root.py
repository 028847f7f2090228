"""The root that an import goes into: one that exists, or the one that will be made in a vacant place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.errors import DamagedEntry, InvalidValue, NoCacheHere
from jcache.layout import FileKind, Kind, Root, member
from jcache.shipping.archive import PlainTarMember
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.plain_tar import kind_of
from jcache.shipping.forecast import provenance
from jcache.store.foreign import meant_by, state_of
from jcache.store.roots import is_vacant, open_root

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_MAX_HELD_BYTES: Final = 64 << 20  # of members up to the first executable
_HELD_MEMBER_BYTES: Final = 1 << 10  # that a member in memory takes besides its content


def future_root(path: Path, *, plain: bool) -> Root:
    """Return the root at a path, or the one that will be made there; make nothing.

    Args:
        path: path of the root.
        plain: whether a new root will be a plain JAX directory.

    Raises:
        NoCacheHere: the path holds something else.
    """
    try:
        return open_root(path)
    except NoCacheHere:
        if not is_vacant(path):
            raise
    root = Root(path, plain=plain)
    return with_layout(root, meant_by(path))


def with_layout(root: Root, adapter: Adapter | None) -> Root:
    """Return the root for entries of JAX's (None) or of another program's: itself, or the one that will be made.

    Raises:
        InvalidValue: it has another layout.
    """
    if root.adapter is adapter:
        return root
    if adapter is not None and root.adapter is None and is_vacant(root.path):
        return Root(root.path, plain=True, adapter=adapter, state_path=state_of(root.path))
    theirs = adapter.title if adapter else "a JAX cache"
    raise InvalidValue(f"The entries are from {theirs}, and {root.path} is {root.title}: name another --root.")


def is_layout_open(root: Root) -> bool:
    """Return whether the entries still decide if the root will be a plain JAX directory."""
    return not root.plain and root.adapter is None and is_vacant(root.path)


def layout_by_keys(root: Root, manifest: Manifest) -> Root:
    """Return the root that will be made: a plain JAX directory, if keys of executables contain that very path.

    JAX alone then finds these executables again under the string that ``jax_compilation_cache_dir`` has always had.
    """
    if not is_layout_open(root):
        return root
    kinds = {item.kind for item in manifest.items}
    alike = {(item.maker, item.portable) for item in manifest.items if item.maker is not None}
    keyed = {provenance.key_directory(manifest.makers[maker], portable=portable) for maker, portable in alike}
    return Root(root.path, plain=kinds == {Kind.EXECUTABLES} and str(root.path) in keyed)


def layout_by_first_entry(members: Iterator[PlainTarMember], root: Root) -> tuple[Root, Iterator[PlainTarMember]]:
    """Choose the layout of a root that will be made by the first executable of a tar (see `layout_by_keys`).

    Members up to that executable are kept in memory, if they have 64 MiB at most.

    Returns:
        The root, and all members from the first one.

    Raises:
        BadArchive: the tar is torn or malformed.
    """
    held: list[PlainTarMember] = []
    left = _MAX_HELD_BYTES
    for file in members if is_layout_open(root) else ():
        left -= file.size + _HELD_MEMBER_BYTES
        if left < 0:
            return root, chain(held, [file], members)
        data = file.read_all()
        held.append(PlainTarMember(file.path, len(data), file.modified_ns, BytesIO(data).readinto))
        if member(file.name)[0] is FileKind.ENTRY and kind_of(file.path) is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                item = Item(Kind.EXECUTABLES, "", len(data), "", 0, 0, maker=0)
                makers = (provenance.provenance_of_bytes(data).maker,)
                root = layout_by_keys(root, Manifest(jcache="", root="", directory="", makers=makers, items=(item,)))
            break
    return root, chain(held, members)
