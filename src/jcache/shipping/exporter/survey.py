"""The survey of an export, its first reading: what the manifest says of each entry, and which entries are left out.

Every entry is checked as `jcache verify` does, unless the ledger records it as sound and it is unchanged since:
`jcache.shipping.exporter.send` compares it with that digest. An entry that may still be being written is read twice,
with a pause between. New digests and contents go to the ledger, so that the next survey need not read these entries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from jcache import clock
from jcache.entry import GRACE_NS, Entry, is_young
from jcache.errors import LedgerUnavailable
from jcache.findings import Finding
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Maker
from jcache.shipping.exporter.scan import FileState, ScanRequest, ScanResult, scan_entries, scan_entry, state_on_record
from jcache.shipping.forecast import provenance
from jcache.store.ledger import Known, holds_from
from jcache.store.ledger_contents import Content
from jcache.store.sidecar import LATEST_NS
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION, Claim

_RETRY_PAUSE_S: Final = 0.5
_NOTHING_KNOWN: Final = Known(Kind.EXECUTABLES, "")
_FEW_RECORDS: Final = 5000  # are faster to read one by one than all records of a large root

Progress = Callable[[int, int], None]


class SourceFile(NamedTuple):
    """A file that becomes a member.

    Attributes:
        path: path of the file.
        state: the file's state when it was surveyed.
        digest: digest of its bytes at that time, or the recorded one.
        claim: the entry and its record; None for a file of XLA's sub-caches.
    """

    path: str
    state: FileState
    digest: str
    claim: Claim | None = None


class SurveyedEntry(NamedTuple):
    """An entry whose bytes are sound.

    Attributes:
        item: the entry as a manifest has it, without its maker.
        source: its file.
        maker: what made it; None for traces and graphs.
    """

    item: Item
    source: SourceFile
    maker: Maker | None


def with_makers(entries: Sequence[SurveyedEntry]) -> tuple[list[Item], list[Maker]]:
    """Return the items of some entries with the numbers of their makers, and the makers."""
    few = {id(one.maker): one.maker for one in entries if one.maker}  # hashing each of thousands takes longer
    makers = sorted(set(few.values()), key=json.dumps)
    places = {maker: number for number, maker in enumerate(makers)}
    numbers = {identity: places[maker] for identity, maker in few.items()}
    return [
        one.item if one.maker is None else one.item._replace(maker=numbers[id(one.maker)]) for one in entries
    ], makers


class Survey:
    """Reads entries; collects the manifest's items and the ledger's new records.

    Args:
        store: store of the root.
        entries: the entries to read, in the manifest's order.
        grace_ns: an entry that was written less than this many nanoseconds ago may still be being written.
        processes: number of processes that read at once; None for one for each available core.

    Attributes:
        items, makers: entries and makers for the manifest.
        sources: files of the items.
        findings: the damaged entries.
        being_written: the entries that another process was writing.
    """

    def __init__(
        self,
        store: Store,
        entries: Iterable[Entry],
        *,
        grace_ns: int = GRACE_NS,
        processes: int | None = None,
    ) -> None:
        self.items: list[Item] = []
        self.makers: list[Maker] = []
        self.sources: list[SourceFile] = []
        self.findings: list[Finding] = []
        self.being_written: list[tuple[Kind, str]] = []
        self._store = store
        self._grace_ns = grace_ns
        self._processes = processes
        self._entries = {(entry.kind, entry.key): entry for entry in entries}
        self._directories = {kind: store.root.directory(kind) for kind in Kind}
        self._prefixes = {kind: os.path.join(directory, "") for kind, directory in self._directories.items()}
        self._contents = provenance.load_contents(store)
        self._known = {kind: self._query_ledger(kind) for kind in Kind}
        self._copied_ns = store.queue.attempt(store.ledger.copied_ns)
        self._news: list[Known] = []
        self._new_contents: list[Content] = []

    def read(self, progress: Progress) -> None:
        """Read all entries, and make the manifest's items and makers of them; raise as `entries`."""
        found = {(one.item.kind, one.item.key): one for one in self.entries(progress)}
        sound = [found[place] for place in self._entries if place in found]
        self.items, self.makers = with_makers(sound)
        self.sources = [one.source for one in sound]
        self.findings.sort(key=lambda finding: finding.path)

    def entries(self, progress: Progress = lambda done, total: None) -> Generator[SurveyedEntry]:
        """Read all entries, and yield those that are sound as soon as they are checked, in any order.

        New facts are recorded in the ledger even if this is interrupted.

        Args:
            progress: called with the bytes that are read so far, and with those of all entries.

        Raises:
            JcacheError: a process that was reading was killed.
        """
        requests, wanted, unsure = map(self._request, self._entries.values()), list[ScanRequest](), list[ScanResult]()
        try:
            for one in requests:
                if (source := self._source_on_record(one)) is not None:
                    yield self._described(one.claim, source)
                else:
                    wanted.append(one)
            total, done = sum(one.bytes for one in wanted), 0
            for size, results in scan_entries(self._directories, wanted, processes=self._processes):
                for result in results:
                    if self._is_unsure(result):
                        unsure.append(result)
                    else:
                        yield from self._collect(result)
                done += size
                progress(done, total)
            yield from self._scan_again(unsure)
        finally:
            self._record()

    def _query_ledger(self, kind: Kind) -> dict[str, Known]:
        """Return the records of the chosen entries; of many, those of all entries, which are faster to read at once."""
        keys = [key for of, key in self._entries if of is kind]
        some = keys if len(keys) <= _FEW_RECORDS else None
        return self._store.queue.attempt(lambda: self._store.ledger.known(kind, some)) or {}

    def _request(self, entry: Entry) -> ScanRequest:
        known = self._known[entry.kind].get(entry.key) or Known(entry.kind, entry.key)
        passed = known.checks == CHECKS_VERSION
        claim = Claim(
            entry.kind, entry.key, digest=known.digest, digest_ns=known.digest_ns or 0, copied_ns=self._copied_ns,
            passed=passed, adapter=self._store.root.adapter,
        )  # fmt: skip
        return ScanRequest(claim, entry.bytes, known.digest in self._contents)

    def _source_on_record(self, wanted: ScanRequest) -> SourceFile | None:
        """Return the file of an entry whose record suffices, so that it need not be read."""
        path = self._path(wanted.claim)
        state = state_on_record(path, wanted)
        return None if state is None else SourceFile(path, state, wanted.claim.digest or "", wanted.claim)

    def _path(self, claim: Claim) -> str:
        return f"{self._prefixes[claim.kind]}{claim.file_name}"

    def _is_unsure(self, result: ScanResult) -> bool:
        """Return whether damage may come from a process that is writing the entry now."""
        checked = result.checked
        if checked.finding is None or checked.finding.stamp is None:
            return checked.being_written
        return is_young(checked.finding.stamp.written_ns, clock.now_ns(), self._grace_ns)

    def _scan_again(self, unsure: list[ScanResult]) -> Iterator[SurveyedEntry]:
        if unsure:
            clock.sleep(_RETRY_PAUSE_S)
        for before in unsure:
            claim = before.checked.claim
            result = scan_entry(self._directories[claim.kind], self._request(self._entries[claim.kind, claim.key]))
            if self._is_unsure(result):
                self.being_written.append((claim.kind, claim.key))
            else:
                yield from self._collect(result)

    def _collect(self, result: ScanResult) -> Iterator[SurveyedEntry]:
        """Note what a reading has found; yield the entry if it is sound."""
        checked = result.checked
        claim = checked.claim
        if checked.finding is not None:
            self.findings.append(checked.finding)
        elif checked.gone:
            return
        elif checked.stamp and checked.digest and checked.taken_ns is not None:  # else it is gone
            state = FileState(checked.stamp, checked.taken_ns)
            if result.content is not None:
                self._new_contents.append(result.content)
                self._contents[checked.digest] = result.content
            taken_ns = holds_from(checked.taken_ns, self._copied_ns)
            if not (claim.passed and claim.digest == checked.digest and claim.digest_ns >= taken_ns):
                version = None if checked.opaque else CHECKS_VERSION
                about = Known(claim.kind, claim.key, checked.digest, checked.stamp.bytes, digest_ns=taken_ns)
                self._news.append(about._replace(verified_ns=clock.now_ns(), checks=version))
            source = SourceFile(self._path(claim), state, checked.digest, claim)
            yield self._described(claim, source, result.seconds, result.parents)

    def _record(self) -> None:
        """Record new facts in the ledger. They only save time, so a ledger that cannot be written is no failure."""
        with suppress(LedgerUnavailable):
            if self._news:
                self._store.ledger.record(self._news, anew=False)
        if self._new_contents:
            provenance.save_contents(self._store, self._new_contents)

    # -- the manifest

    def _described(
        self, claim: Claim, source: SourceFile, seconds: float | None = None, parents: tuple[str, ...] = ()
    ) -> SurveyedEntry:
        """Return a sound entry; seconds and parents are those of an envelope's header."""
        entry = self._entries[claim.kind, claim.key]
        made = self._provenance(entry, source.digest)
        return SurveyedEntry(self._item(entry, source, seconds, parents, made), source, made and made.maker)

    def _provenance(self, entry: Entry, digest: str) -> provenance.Provenance | None:
        if entry.kind is not Kind.EXECUTABLES:
            return None
        return provenance.provenance_of_content(self._contents[digest], self._known[entry.kind].get(entry.key))

    def _item(
        self,
        entry: Entry,
        source: SourceFile,
        seconds_told: float | None,
        parents: tuple[str, ...],
        made: provenance.Provenance | None,
    ) -> Item:
        known = self._known[entry.kind].get(entry.key) or _NOTHING_KNOWN
        content, seconds, stamp = self._contents.get(source.digest), known.seconds, source.state.stamp
        if seconds is None:
            seconds = seconds_told if content is None else float(content.seconds)
        written_ns = min(max(stamp.written_ns, 0), LATEST_NS)
        return Item(
            entry.kind,
            entry.key,
            bytes=stamp.bytes,
            digest=source.digest,
            created_ns=written_ns,
            recency_ns=entry.recency_ns if entry.sidecar or entry.recency_ns > entry.created_ns else written_ns,
            sidecar=entry.sidecar,
            pinned=bool(entry.pinned),
            seconds=seconds,
            origin=known.origin,
            parents=parents,
            codec=None if made is None else made.codec,
            portable=made is not None and made.portable,
        )
