"""Export entries: select them, survey them for the manifest, then read, compare and write each to the stream.

The survey checks every entry as `jcache verify` does, so that no damaged entry leaves the root, and takes its digest.
It does not read entries that the ledger records as sound and that are unchanged since. The second reading goes into the
stream: every byte is read and compared with the digest before the entry's first byte is written. A file that has other
bytes by then, or is gone, is named in the archive's trailer, and no reader of the archive takes it. Export takes no
lock and changes no file of the cache.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from jcache import __version__
from jcache.configuration.files import of_root
from jcache.findings import Finding
from jcache.layout import XLA_NAMES, Kind
from jcache.shipping.archive import ArchiveWriter, item_name, neighbour_name, recompressors
from jcache.shipping.archive.manifest import Item, Maker, Manifest, XlaFile, adapter_of
from jcache.shipping.archive.manifest_codec import encode
from jcache.shipping.archive.members import XLA_KIND
from jcache.shipping.archive.worlds import lines_of
from jcache.shipping.exporter.scan import hash_file
from jcache.shipping.exporter.selection import ExportRequest, choose_entries
from jcache.shipping.exporter.send import BUFFER_BYTES, find_damage, send_file
from jcache.shipping.exporter.survey import Progress, SourceFile, Survey
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.installation import Installation, this_installation
from jcache.store.store import Store

_PROGRESS_STEPS: Final = 256


@dataclass(slots=True)
class PreparedExport:
    """The entries that can be exported, surveyed and checked.

    Attributes:
        manifest: the archive's manifest.
        findings: the damaged entries, which are left out.
        being_written: the entries that were left out because another process was writing them.
        legacy: number of entries that were left out because only jax <= 0.4.30 reads them.
        excluded: number of entries that were left out on request.
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
        """Stored bytes of all entries and neighbours."""
        return sum(source.state.stamp.bytes for source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The content of an archive that was written.

    Attributes:
        entries: number of entries that are whole.
        neighbours: number of files of XLA's sub-caches that are whole.
        bytes: stored bytes of both.
        omitted: entries that changed or vanished meanwhile, as pairs of kind (or ``xla``) and key (or path).
    """

    entries: int
    neighbours: int
    bytes: int
    omitted: tuple[tuple[str, str], ...]


def _no_progress(done: int, total: int) -> None:
    del done, total


# -- the first reading


def prepare_export(store: Store, request: ExportRequest, progress: Progress = _no_progress) -> PreparedExport:
    """Select the entries, check each, and make the manifest.

    Args:
        store: store of the root.
        request: the entries to export, and how.
        progress: called with the bytes that are read so far, and with those of all entries.

    Raises:
        UnknownKey: a key or a run that was asked for matches no entry or run, or several.
        CannotWrite: a directory of the root cannot be read.
        LedgerUnavailable: a run was asked for, and its record cannot be read.
        InvalidValue: ``JCACHE_PYTHON`` names no interpreter.
        JcacheError: a process that was reading was killed.
    """
    installed = this_installation(os.environ)
    prepared = PreparedExport(
        dataclasses.replace(
            empty_manifest(store, installed),
            solid=request.solid,
            recompressors=recompressors() if request.solid else (),
            settings=of_root(store.root) if request.config else (),
        )
    )
    chosen = choose_entries(store, request)
    prepared.legacy, prepared.excluded = chosen.legacy, chosen.excluded
    survey = Survey(store, chosen.entries, grace_ns=request.grace_ns, processes=request.processes)
    survey.read(progress)
    prepared.findings, prepared.being_written, prepared.sources = survey.findings, survey.being_written, survey.sources
    xla = request.xla and store.root.adapter is None
    neighbours = list(_read_neighbours(store.root.directory(Kind.EXECUTABLES))) if xla else []
    prepared.sources += (source for _, source in neighbours)
    prepared.manifest = dataclasses.replace(
        with_items(prepared.manifest, store, installed, survey.items, survey.makers),
        neighbours=tuple(neighbour for neighbour, _ in neighbours),
    )
    return prepared


def empty_manifest(store: Store, installed: Installation) -> Manifest:
    """Return a manifest that says where it is made, and names no entry."""
    return Manifest(
        jcache=__version__,
        root=_path_text(store.root.path),
        directory=_path_text(store.root.directory(Kind.EXECUTABLES)),
        layout=None if store.root.adapter is None else store.root.adapter.name,
        jax=installed.jax,
        jaxlib=installed.jaxlib,
        host=provenance.describe_host(),
    )


def with_items(
    manifest: Manifest, store: Store, installed: Installation, items: Iterable[Item], makers: Iterable[Maker]
) -> Manifest:
    """Return a manifest with the entries of a root, and the worlds in which its traces and graphs were compared."""
    word, named = installed.zstd_word, tuple(items)
    return dataclasses.replace(
        manifest,
        makers=tuple(maker._replace(compression=word) for maker in makers),
        items=named,
        worlds=tuple(lines_of(store.root, named)),
    )


def _path_text(path: Path) -> str:
    """Return a path as text for the manifest, whatever bytes its names have."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _read_neighbours(directory: Path) -> Iterator[tuple[XlaFile, SourceFile]]:
    """Yield the files of XLA's sub-caches, sorted, without links and names that are not printable text."""
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
                state, digest = hashed
                yield XlaFile(relative, state.stamp.bytes, digest), SourceFile(file, state, digest)


def count_key_directories(manifest: Manifest) -> dict[str, int]:
    """Return how many executables have keys that contain a directory, by directory, the most first."""
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
    """Write the archive of a prepared export.

    Args:
        prepared: the result of `prepare_export`; damage that is found now is added to its findings.
        stream: the archive goes there.
        sign: returns the signature of the manifest's bytes; None for an unsigned archive.
        level: level of compression; None for the default.
        progress: called with the bytes of entries that are written so far, and with those of all entries.

    Raises:
        OSError: the stream cannot be written.
    """
    manifest, total = prepared.manifest, prepared.bytes
    writer = ArchiveWriter(stream, level=level, solid=manifest.solid)
    data = encode(manifest)
    writer.write_manifest(data, None if sign is None else sign(data))
    entries = neighbours = size = 0
    omitted: list[tuple[str, str]] = []
    damaged: list[tuple[str, str]] = []
    buffer = bytearray(BUFFER_BYTES)
    done = due = 0
    for (kind, name, path), source in zip(_member_names(manifest), prepared.sources, strict=True):
        done += source.state.stamp.bytes
        if send_file(writer, path, source, buffer):
            entries += kind != XLA_KIND
            neighbours += kind == XLA_KIND
            size += source.state.stamp.bytes
        elif finding := find_damage(source):
            prepared.findings.append(finding)
            damaged.append((kind, name))
        else:
            omitted.append((kind, name))
        if done >= due:
            progress(done, total)
            due = min(done + total // _PROGRESS_STEPS, total)
    writer.close(omitted + damaged)
    prepared.findings.sort(key=lambda finding: finding.path)
    return ExportResult(entries=entries, neighbours=neighbours, bytes=size, omitted=tuple(sorted(omitted)))


def _member_names(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Yield kind (or ``xla``), key (or path) and member's name of each item and neighbour, in the manifest's order."""
    adapter = adapter_of(manifest)
    for item in manifest.items:
        yield item.kind.value, item.key, item_name(item, adapter)
    for neighbour in manifest.neighbours:
        yield XLA_KIND, neighbour.path, neighbour_name(neighbour)
