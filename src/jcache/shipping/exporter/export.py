"""Entries into an archive: chosen, surveyed for the manifest, then read, compared and written to the stream.

The survey checks every entry as `jcache verify` does, so that nothing damaged leaves the root, and takes its digest.
What is on record as sound, and unchanged since, is not read for that. The second reading goes into the stream: every
byte is read and compared with the digest before the entry's first byte is written. A file that has other bytes by then,
or is gone, is named in the archive's trailer, and no reader of the archive takes it. No lock is taken, no file of the
cache changes.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from jcache import __version__
from jcache.admin.selection import Selection, select
from jcache.entry import GRACE_NS, Entry
from jcache.findings import Finding
from jcache.layout import XLA_NAMES, Kind, storable
from jcache.runs.calls import HIT, STORED
from jcache.runs.report import report_named
from jcache.runs.stored_reports import read_reports
from jcache.shipping.archive import ArchiveWriter, item_name, neighbour_name, recompressors
from jcache.shipping.archive.manifest import Manifest, Neighbour, adapter_of
from jcache.shipping.archive.manifest_codec import encode
from jcache.shipping.archive.members import XLA_KIND
from jcache.shipping.exporter.scan import hash_file
from jcache.shipping.exporter.send import BUFFER_BYTES, find_damage, send_file
from jcache.shipping.exporter.survey import Progress, SourceFile, Survey
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.installation import this_installation
from jcache.store.store import Store

_PROGRESS_STEPS: Final = 256  # of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What to export.

    Attributes:
        selection: entries as `jcache ls` selects them; legacy ones are never exported.
        keys: of these, those with these keys or unambiguous beginnings of keys; none for all.
        run: of these, those that this recorded run has stored or hit; ``last`` for the last one.
        exclude: but none with these keys.
        xla: also XLA's sub-caches.
        solid: recompress across entries.
        grace_ns: what was written less than this ago may still be in the making.
        processes: how many read at once; None for as many as there are cores for us.
    """

    selection: Selection = field(default_factory=Selection)
    keys: tuple[str, ...] = ()
    run: str | None = None
    exclude: frozenset[str] = frozenset()
    xla: bool = False
    solid: bool = False
    grace_ns: int = GRACE_NS
    processes: int | None = None


@dataclass(slots=True)
class PreparedExport:
    """What can be exported, read and checked.

    Attributes:
        manifest: what comes first.
        findings: the damaged entries, which stay behind.
        being_written: those that were left out since somebody was writing them.
        legacy: how many were left out since only jax <= 0.4.30 reads them.
        excluded: how many were left out on request.
        sources: files of the manifest's items, then of its neighbours.
    """

    manifest: Manifest
    findings: list[Finding] = field(default_factory=list)
    being_written: list[tuple[Kind, str]] = field(default_factory=list)
    legacy: int = 0
    excluded: int = 0
    sources: list[SourceFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Of all that goes into the stream."""
        return sum(source.mark.stamp.bytes for source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What was written.

    Attributes:
        entries: how many, whole.
        neighbours: how many files of XLA's sub-caches, whole.
        bytes: of both, as they lie in the root.
        omitted: what changed or vanished meanwhile, as pairs of kind (or ``xla``) and key (or path).
    """

    entries: int
    neighbours: int
    bytes: int
    omitted: tuple[tuple[str, str], ...]


def _no_progress(done: int, total: int) -> None:
    del done, total


# -- choosing


def _choose_entries(store: Store, request: ExportRequest, prepared: PreparedExport) -> list[Entry]:
    """The entries that were asked for, in the manifest's order; those that are left out are counted."""
    found = {
        (entry.kind, entry.key): entry
        for entry in select(store, dataclasses.replace(request.selection, legacy=True), seconds=False)
    }
    if request.keys:
        exact = {entry.key for entry in found.values()}
        wanted = {key if key in exact else store.find(key).key for key in request.keys}
        found = {place: entry for place, entry in found.items() if entry.key in wanted}
    if request.run is not None:
        of_run = _entries_of_run(store, request.run)
        found = {place: entry for place, entry in found.items() if place in of_run}
    chosen = [entry for entry in found.values() if not entry.legacy]
    prepared.legacy = len(found) - len(chosen)
    kept = [entry for entry in chosen if entry.key not in request.exclude]
    prepared.excluded = len(chosen) - len(kept)
    return sorted(kept)


def _entries_of_run(store: Store, wanted: str) -> set[tuple[Kind, str]]:
    """The entries that a recorded run has stored or hit."""
    report = report_named(read_reports(store.ledger.runs()), wanted, store.root.path)
    found = {(known.kind, known.key) for kind in Kind for known in store.ledger.known(kind).values()
             if known.run == report["id"]}  # fmt: skip
    if "programs" not in report:
        store.notice(f"Of run {report['id']}, which was long ago, only what it stored is known, not what it hit.")
    for program in report.get("programs", ()):
        if program["outcome"] in (HIT, STORED) and program["key"]:
            found |= {(Kind.EXECUTABLES, key) for key in (program["key"], storable(program["key"]))}
    return found


# -- the first reading


def prepare_export(store: Store, request: ExportRequest, progress: Progress = _no_progress) -> PreparedExport:
    """Chooses the entries, checks each, and makes the manifest.

    Args:
        store: of the root.
        request: what to export.
        progress: is told how many bytes are read, and of how many.

    Raises:
        UnknownKey: no entry, or no run, or more than one, answers to what was asked for.
        CannotWrite: a directory of the root cannot be read.
        LedgerUnavailable: a run was asked for, and what it did cannot be read.
        InvalidValue: ``JCACHE_PYTHON`` names no interpreter.
        JcacheError: a process that was reading was killed.
    """
    mine, directory = this_installation(os.environ), _path_text(store.root.directory(Kind.EXECUTABLES))
    prepared = PreparedExport(
        Manifest(
            jcache=__version__,
            root=_path_text(store.root.path),
            directory=directory,
            layout=None if store.root.adapter is None else store.root.adapter.name,
            jax=mine.jax,
            jaxlib=mine.jaxlib,
            host=provenance.describe_host(),
            solid=request.solid,
            recompressors=recompressors() if request.solid else (),
        )
    )
    chosen = _choose_entries(store, request, prepared)
    survey = Survey(store, chosen, grace_ns=request.grace_ns, processes=request.processes)
    survey.read(progress)
    prepared.findings, prepared.being_written, prepared.sources = survey.findings, survey.being_written, survey.sources
    xla = request.xla and store.root.adapter is None
    beside = list(_read_neighbours(store.root.directory(Kind.EXECUTABLES))) if xla else []
    prepared.sources += (source for _, source in beside)
    prepared.manifest = dataclasses.replace(
        prepared.manifest,
        makers=tuple(maker._replace(compression=mine.zstd_word) for maker in survey.makers),
        items=tuple(survey.items),
        neighbours=tuple(neighbour for neighbour, _ in beside),
    )
    return prepared


def _path_text(path: Path) -> str:
    """A path as the manifest has it, which is text whatever bytes a name has."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _read_neighbours(directory: Path) -> Iterator[tuple[Neighbour, SourceFile]]:
    """The files of XLA's sub-caches, in order; links, and what is not text, are none of them."""
    found: list[str] = []
    for name in XLA_NAMES:
        top = directory / name
        if top.is_dir() and not top.is_symlink():
            found += (os.path.join(path, file) for path, _, some in os.walk(top) for file in some)
        else:
            found.append(str(top))
    for file in sorted(found):
        relative = os.path.relpath(file, directory)
        with suppress(OSError):
            hashed = hash_file(file) if relative.isprintable() else None
            if hashed is not None:
                mark, digest = hashed
                source = SourceFile(file, mark, digest)
                yield Neighbour(relative, mark.stamp.bytes, digest), source


def count_key_directories(manifest: Manifest) -> dict[str, int]:
    """The directories that executables are keyed for, by JAX's default settings, and how many are; the most first."""
    found: Counter[str] = Counter()
    for item in manifest.items:
        if item.maker is not None:
            path = provenance.key_directory(manifest.makers[item.maker], portable=item.portable)
            found.update([path] if path is not None else ())
    return dict(found.most_common())


# -- the second reading


def write_archive(
    prepared: PreparedExport,
    stream: BinaryIO,
    *,
    sign: Callable[[bytes], bytes] | None = None,
    level: int | None = None,
    progress: Progress = _no_progress,
) -> ExportResult:
    """Writes the archive of what is prepared.

    Args:
        prepared: what `prepare_export` gave; its findings are completed.
        stream: where to.
        sign: makes the signature of the manifest's bytes; None for none.
        level: of compression; None for what suits.
        progress: is told how many bytes of the entries are written, and of how many.

    Raises:
        OSError: the stream cannot be written.
    """
    manifest, total = prepared.manifest, prepared.bytes
    adapter = adapter_of(manifest)
    members = [(item.kind.value, item.key, item_name(item, adapter)) for item in manifest.items]
    members += [(XLA_KIND, one.path, neighbour_name(one)) for one in manifest.neighbours]
    writer = ArchiveWriter(stream, level=level, solid=manifest.solid)
    data = encode(manifest)
    writer.write_manifest(data, None if sign is None else sign(data))
    sent: dict[tuple[str, str], SourceFile] = {}
    omitted: list[tuple[str, str]] = []
    damaged: list[tuple[str, str]] = []
    buffer = bytearray(BUFFER_BYTES)
    passed = due = 0
    for (kind, name, path), source in zip(members, prepared.sources, strict=True):
        passed += source.mark.stamp.bytes
        if send_file(writer, path, source, buffer):
            sent[kind, name] = source
        elif finding := find_damage(source):
            prepared.findings.append(finding)
            damaged.append((kind, name))
        else:
            omitted.append((kind, name))
        if passed >= due:
            progress(passed, total)
            due = min(passed + total // _PROGRESS_STEPS, total)
    writer.close(omitted + damaged)
    prepared.findings.sort(key=lambda finding: finding.path)
    entries = sum(kind != XLA_KIND for kind, _ in sent)
    size = sum(source.mark.stamp.bytes for source in sent.values())
    return ExportResult(entries=entries, neighbours=len(sent) - entries, bytes=size, omitted=tuple(sorted(omitted)))
