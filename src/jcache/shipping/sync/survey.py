"""What a store has, as the manifest of an archive: so a pull is an import, with its plan, forecast and checks.

A listing tells keys, sizes and namespaces. Manifests tell digests, makers and worlds of what pushes have stored. Of an
entry in no manifest, the namespace tells what it was made by, and its object the digest when it is read.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jcache import __version__, clock
from jcache.admin.fields import Facts
from jcache.admin.filters import Filter
from jcache.admin.remote.listing import facts_of
from jcache.entry import Entry
from jcache.errors import InvalidValue, UnknownKey
from jcache.layout import Kind, Root
from jcache.remote.client import Remote
from jcache.remote.entries import RemoteEntry
from jcache.remote.names import parts_of
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive.manifest import MAX_ENTRIES, Host, Item, Maker, Manifest, WorldLine
from jcache.shipping.importer.outcome import EntryId
from jcache.shipping.sync.manifests import Manifests, SignatureRule, read_manifests
from jcache.store.lookup import KeyFinder

_CPU: Final = "cpu"


class PullRequest(NamedTuple):
    """Which entries of a store to pull. Every condition narrows the selection.

    Attributes:
        kinds: only these kinds.
        filters: only entries that satisfy all of them.
        keys: only entries with these keys, or unambiguous beginnings of keys; empty for all.
        names: only these entries, which a recorded run used; None for no such condition.
        rule: whose signatures count.
    """

    kinds: tuple[Kind, ...] = tuple(Kind)
    filters: tuple[Filter, ...] = ()
    keys: tuple[str, ...] = ()
    names: frozenset[str] | None = None
    rule: SignatureRule = SignatureRule()


@dataclass(slots=True)
class Available:
    """What a store has of the requested entries.

    Attributes:
        manifest: the manifest; the digest of an entry that no manifest names is empty.
        places: the namespace of each entry.
        unsigned: number of entries that are left out since no signed manifest names them.
        signer: the principals who have signed; None where that was not asked for.
        damaged: names of objects that are no manifests.
        claimed: the entries whose digest in the manifest is the one that their objects claim, and no push has checked.
    """

    manifest: Manifest
    places: dict[EntryId, str] = field(default_factory=dict)
    unsigned: int = 0
    signer: str | None = None
    damaged: tuple[str, ...] = ()
    claimed: frozenset[EntryId] = frozenset()


def survey_store(remote: Remote, request: PullRequest, spaces: Collection[str] = ()) -> Available:
    """Return what a store has of the requested entries.

    Args:
        remote: the store.
        request: which entries.
        spaces: namespaces in which executables of this machine can be, for a store that cannot list.

    Raises:
        InvalidValue: the store cannot list, and the entries are not named.
        UnknownKey: a key that was asked for is none of the store's, or several are.
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    if remote.can_list:
        manifests, listed = _with_manifests(remote, request)
        return _Merge(remote, request, manifests).merge(listed)
    if not request.keys and request.names is None:
        remote.check_can_list()
    return _Merge(remote, request, Manifests([])).merge(_asked(remote, request, spaces))


def _with_manifests(remote: Remote, request: PullRequest) -> tuple[Manifests, list[RemoteEntry]]:
    """Return the manifests, and the listed entries that are asked for: read at the same time."""
    jobs: tuple[Callable[[], Any], ...] = (
        lambda: read_manifests(remote, request.rule),
        lambda: list(_listed(remote, request)),
    )
    (_, manifests), (_, listed) = in_parallel(lambda read: read(), jobs)
    return manifests, listed


def _listed(remote: Remote, request: PullRequest) -> Iterable[RemoteEntry]:
    """Return the listed entries that are asked for."""
    found = (one for kind in request.kinds for one in remote.list(kind))
    if request.names is not None:
        names = request.names
        found = (one for one in found if one.key in names)
    if not request.keys:
        return found
    some = list(found)
    finder, wanted = KeyFinder(one.key for one in some), set[str]()
    for text in request.keys:
        keys = finder.answering(text)
        if len(keys) != 1:
            raise UnknownKey(f"{'Several entries begin' if keys else 'No entry begins'} with '{text}' in {remote}.")
        wanted |= keys
    return [one for one in some if one.key in wanted]


def _asked(remote: Remote, request: PullRequest, spaces: Collection[str]) -> Iterator[RemoteEntry]:
    """Yield the entries of known keys that a store has, which cannot list: each is asked for by its name."""
    keys = sorted({*request.keys, *(request.names or ())})
    names = [(kind, space, key) for key in keys for kind in request.kinds
             for space in (spaces if kind is Kind.EXECUTABLES else ("",))]  # fmt: skip
    seen = set[EntryId]()
    now_ns = clock.now_ns()
    absent = dict.fromkeys(request.keys)
    for (kind, space, key), size in in_parallel(lambda name: remote.size(*name), names):
        if size is not None and (kind, key) not in seen:
            seen.add((kind, key))
            absent.pop(key, None)
            yield RemoteEntry(kind, space, key, size, now_ns)
    if absent:
        raise UnknownKey(f"{remote} has no entry {next(iter(absent))} that this machine could use.")


class _Merge:
    """Merges a listing with manifests."""

    def __init__(self, remote: Remote, request: PullRequest, manifests: Manifests) -> None:
        self._remote = remote
        self._request = request
        self._manifests = manifests
        self._known: dict[EntryId, tuple[Item, Manifest]] = {}
        for stored in manifests.usable:  # the latest is believed
            self._known |= {(item.kind, item.key): (item, stored.manifest) for item in stored.manifest.items}
        self._makers: dict[Maker, int] = {}
        self._unsigned = 0

    def merge(self, listed: Iterable[RemoteEntry]) -> Available:
        items, places, now_ns = dict[EntryId, Item](), dict[EntryId, str](), clock.now_ns()
        for one in listed:
            item = self._item(one)
            if item is not None and self._is_wanted(one, item, now_ns):
                items[one.kind, one.key], places[one.kind, one.key] = item, one.namespace
        if len(items) > MAX_ENTRIES:
            raise InvalidValue(
                f"{self._remote} has {len(items):,} such entries, and a pull takes {MAX_ENTRIES:,} at most: choose"
                " fewer by --kind or --filter."
            )
        signers = sorted({stored.signer for stored in self._manifests.usable if stored.signer})
        return Available(
            manifest=Manifest(
                jcache=__version__,
                root=str(self._remote),
                directory="",
                host=self._host(),
                makers=tuple(self._makers),
                items=tuple(items[name] for name in sorted(items)),
                worlds=self._worlds(),
            ),
            places=places,
            unsigned=self._unsigned,
            signer=", ".join(signers) or None,
            damaged=self._manifests.damaged,
        )

    def _item(self, one: RemoteEntry) -> Item | None:
        """Return an entry as a manifest has it; None for one that no signed manifest names, if signatures count."""
        item, manifest = self._known.get((one.kind, one.key), (None, None))
        if item is not None and manifest is not None and item.bytes == one.bytes:
            return item._replace(maker=None if item.maker is None else self._number(manifest.makers[item.maker]))
        if self._request.rule.applies:
            self._unsigned += 1
            return None
        maker = None
        if one.kind is Kind.EXECUTABLES:
            jaxlib, platform, device = parts_of(one.namespace)
            capability = device if platform not in (None, _CPU) else None
            maker = self._number(Maker(platform=platform, jaxlib=jaxlib, compute_capability=capability))
        return Item(one.kind, one.key, one.bytes, "", one.written_ns, one.written_ns, maker=maker)

    def _number(self, maker: Maker) -> int:
        return self._makers.setdefault(maker, len(self._makers))

    def _is_wanted(self, one: RemoteEntry, item: Item, now_ns: int) -> bool:
        if not self._request.filters:
            return True
        entry, facts = entry_of(one, item, None if item.maker is None else list(self._makers)[item.maker])
        return all(each.matches(entry, now_ns, facts) for each in self._request.filters)

    def _host(self) -> Host:
        """Return the machine of the manifests, if they are all of one."""
        hosts = {stored.manifest.host for stored in self._manifests.usable}
        return hosts.pop() if len(hosts) == 1 else Host()

    def _worlds(self) -> tuple[WorldLine, ...]:
        return tuple(sorted({line for stored in self._manifests.usable for line in stored.manifest.worlds}))


def entry_of(one: RemoteEntry, item: Item | None, maker: Maker | None) -> tuple[Entry, Facts]:
    """Return an entry of a store as filters compare it, and the facts that are known of it."""
    facts = facts_of(one.namespace, None if maker is None else maker.cpu_name)
    recency_ns = one.written_ns if item is None else max(one.written_ns, item.recency_ns)
    seconds = None if item is None else item.seconds
    return Entry(one.kind, one.key, one.bytes, one.written_ns, recency_ns, sidecar=False, seconds=seconds), facts


def with_digests(available: Available, remote: Remote, root: Root) -> Available:
    """Return what a store has, with the digests of the entries that no manifest names and that the root has as well.

    Raises:
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    places = {kind: root.directory(kind) for kind in Kind}
    unknown = [item for item in available.manifest.items
               if not item.digest and _has_size(os.path.join(places[item.kind], root.file_name(item.kind, item.key)),
                                                item.bytes)]  # fmt: skip
    ask: Callable[[Item], str | None] = lambda item: remote.digest(  # noqa: E731
        item.kind, available.places[item.kind, item.key], item.key
    )
    found: Mapping[EntryId, str | None] = {(one.kind, one.key): digest for one, digest in in_parallel(ask, unknown)}
    available.claimed = frozenset(found)
    items = (item._replace(digest=found.get((item.kind, item.key)) or item.digest) for item in available.manifest.items)
    available.manifest = dataclasses.replace(available.manifest, items=tuple(items))
    return available


def _has_size(path: str, size: int) -> bool:
    try:
        return os.lstat(path).st_size == size
    except OSError:
        return False
