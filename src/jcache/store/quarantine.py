"""Where damaged and replaced entries go: out of JAX's way, so that it can write them again, and not lost.

    ROOT/.jcache/quarantine/<id>.json      the record: which entry, what was wrong, when
    ROOT/.jcache/quarantine/<id>.entry     the file itself, renamed or linked: no byte of it is read or copied, but
                                           where it comes from another file system

    id = 8 hexadecimal digits of the key's hash "-" 8 random ones

The record is written first and removed last. So a file here always has one, and a record without a file, which a crash
between the two leaves, stands for nothing.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.errors import JcacheError, UnknownKey
from jcache.findings import Damage, Finding
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, TEMPORARY_PREFIX, Kind, Root, parse_kind
from jcache.store import birth_time, file_tree, files
from jcache.store.directories import Directories, is_there, opened
from jcache.store.ledger import Known
from jcache.store.lookup import KeyFinder
from jcache.store.quarantine_record import QuarantineRecord, fits
from jcache.store.removal import take_back
from jcache.store.sidecar import read_recency, write_recency
from jcache.text import command

_SCHEMA_VERSION: Final = 2
_RECORD, _ENTRY = ".json", ".entry"
_MAX_RECORD: Final = 1 << 20


class Quarantine:
    """The quarantine of a root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._directory = root.quarantine

    def records(self) -> list[QuarantineRecord]:
        """Return the records, oldest first, without those that cannot be read or have no file."""
        try:
            with opened(self._root, self._directory) as here:
                names = [name for name in os.listdir(here) if name.endswith(_RECORD)]
                found = [record for name in names if (record := self._read(name, here)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(found, key=lambda record: (record.quarantined_ns, record.id))

    def find(self, text: str) -> QuarantineRecord:
        """Return the record that an id or a key, or an unambiguous beginning of one or of a hash, stands for.

        Raises:
            UnknownKey: none or several do.
        """
        records = self.records()
        keys = KeyFinder(record.key for record in records).answering(self._root.layout.key_of(text))
        found = [r for r in records if text in (r.id, r.key)] or [
            r for r in records if text and (r.id.startswith(text) or r.key in keys)
        ]
        if not found:
            look = command("quarantine list", self._root.path)
            raise UnknownKey(f"No entry in quarantine has the id or key '{text}': `{look}` lists them.")
        if len(found) > 1:
            ids = ", ".join(record.id for record in found[:3])
            raise UnknownKey(f"'{text}' stands for {len(found)} entries in quarantine ({ids} …): name one by its id.")
        return found[0]

    def keep(self, path: Path, kind: Kind, key: str, on_record: Known | None = None) -> None:
        """Keep an entry that is about to be replaced, if there is one, with the directory's lock held.

        It stays where it is as well, so that its name always holds the old bytes or the new ones; but for a file system
        without hard links.

        Args:
            path: of its file.
            kind: of the entry.
            key: of the entry.
            on_record: what the ledger knows of it, so that damage nobody has found yet is still found afterwards.

        Raises:
            OSError: it cannot be kept; nothing has changed then.
        """
        evidence, expected = "Other bytes were to take its place.", None
        if on_record is not None and self._root.layout.follows_jax:
            born = birth_time.born_ns(path)
            if born is not None and born <= (on_record.digest_ns or 0):
                expected = on_record.digest  # of this very file, not of one before it
        finding = Finding(damage=Damage.REPLACED, path=path, kind=kind, key=key, evidence=evidence, expected=expected)
        with suppress(FileNotFoundError):
            self.take(finding, clock.now_ns(), stays=True)

    def take(self, finding: Finding, now_ns: int, *, stays: bool = False) -> QuarantineRecord:
        """Move the file of a finding here, with the directory's lock held, and remove its sidecar.

        Args:
            finding: which file, and what is wrong.
            now_ns: the time.
            stays: whether the file is to stay in its place as well, with its sidecar.

        Raises:
            OSError: it cannot be moved; nothing has changed then.
        """
        kind, key, path = finding.kind, finding.key, finding.path
        if kind is None or key is None:
            raise ValueError("only what has a key goes to quarantine")
        sidecar = key + SIDECAR_SUFFIX
        with Directories(self._root) as directories:
            name, directory = directories.of(path)
            record = QuarantineRecord(
                id=f"{key.rpartition('-')[2][:8]}-{os.urandom(4).hex()}",
                kind=kind,
                key=key,
                file_name=str(path.relative_to(self._root.directory(kind))),
                damage=finding.damage,
                evidence=finding.evidence,
                bytes=os.lstat(name, dir_fd=directory).st_size,
                digest=finding.digest,
                expected=finding.expected,
                recency_ns=read_recency(sidecar, directory=directory),
                quarantined_ns=now_ns,
            )
            here = directories.descriptor(self._directory, make=True)
            text = json.dumps({"schema_version": _SCHEMA_VERSION} | asdict(record), indent=2)
            files.publish(record.id + _RECORD, text.encode(), directory=here)
            try:
                _transfer((name, directory), (record.id + _ENTRY, here), stays=stays)
            except OSError:
                _unlink(record.id + _RECORD, here)
                raise
            take_back(self._root, kind, key, directories)
            if name != sidecar and not stays and self._root.layout.has_sidecars:
                with suppress(OSError):
                    files.remove(sidecar, directory=directory)
        return record

    def restore(self, record: QuarantineRecord, *, replace: bool = False, on_record: Known | None = None) -> int:
        """Move an entry back to where it was, with the directory's lock held; return as of when its file is there.

        Args:
            record: which.
            replace: whether an entry that has its key now comes here in its stead.
            on_record: what the ledger knows of that one.

        Raises:
            JcacheError: there is an entry of that key again, and not to be replaced.
            OSError: it cannot be moved.
        """
        path = self._root.directory(record.kind) / record.file_name
        with Directories(self._root) as directories:
            directory = directories.descriptor(path.parent, make=True)
            if replace:
                self.keep(path, record.kind, record.key, on_record)
            elif is_there(path.name, directory):
                drop = command(f"quarantine drop {record.id}", self._root.path)
                swap = command(f"quarantine restore --replace {record.id}", self._root.path)
                raise JcacheError(
                    f"{record.key} exists again: `{drop}` removes the one in quarantine, and `{swap}` swaps the two."
                )
            sidecar = record.key + SIDECAR_SUFFIX
            if record.recency_ns is not None and path.name != sidecar and self._root.layout.has_sidecars:
                write_recency(sidecar, record.recency_ns, directory=directory)
            here = directories.descriptor(self._directory)
            _transfer((record.id + _ENTRY, here), (path.name, directory), stays=False)
            _unlink(record.id + _RECORD, here)
            return os.lstat(path.name, dir_fd=directory).st_ctime_ns

    def read(self, record: QuarantineRecord) -> bytes:
        """Return the bytes of an entry.

        Raises:
            OSError: it cannot be read.
        """
        with opened(self._root, self._directory) as here:
            return files.read(record.id + _ENTRY, directory=here)

    def drop(self, record: QuarantineRecord) -> int:
        """Remove an entry for good and return its bytes.

        Raises:
            OSError: it cannot be removed.
        """
        with opened(self._root, self._directory) as here:
            size = file_tree.remove_tree(record.id + _ENTRY, directory=here)
            _unlink(record.id + _RECORD, here)
        return size

    def sweep(self, before_ns: int) -> int:
        """Remove what crashes left: records and handed files without an entry, temporary files, older than a time."""
        removed = 0
        with Directories(self._root) as directories:
            for place in (self._directory, self._root.state, self._root.handed):
                with suppress(OSError):
                    directory = directories.descriptor(place)
                    for name in self._left(place, directory, directories):
                        removed += _discard(name, directory, before_ns)
        return removed

    def _left(self, place: Path, directory: int, directories: Directories) -> list[str]:
        """Return the names in a directory of the state that belong to nothing."""
        names = set(os.listdir(directory))
        temporary = [name for name in names if name.startswith(TEMPORARY_PREFIX)]
        if place == self._directory:
            return temporary + [n for n in names if n.endswith(_RECORD) and n[: -len(_RECORD)] + _ENTRY not in names]
        if place == self._root.handed:
            entries = directories.descriptor(self._root.directory(Kind.GRAPHS))
            handed = (name for name in names if not name.startswith("."))
            return temporary + [name for name in handed if not is_there(name + ENTRY_SUFFIX, entries)]
        return temporary

    def _read(self, name: str, directory: int) -> QuarantineRecord | None:
        try:
            fields = json.loads(files.read(name, _MAX_RECORD, directory=directory))
            if fields.pop("schema_version") != _SCHEMA_VERSION or fields["id"] + _RECORD != name:
                return None
            typed = {"kind": parse_kind(fields["kind"]), "damage": Damage(fields["damage"])}
            record = QuarantineRecord(**(fields | typed))
            fitting = fits(record) and self._root.layout.is_file_of(record.kind, record.key, record.file_name)
            if not (fitting and is_there(record.id + _ENTRY, directory)):
                return None
            return replace(record, bytes=file_tree.tree_size(record.id + _ENTRY, directory=directory)[1])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, JcacheError):
            return None


def _discard(name: str, directory: int, before_ns: int) -> bool:
    """Remove a file, or what is only temporary, that is older than a time; return whether it did."""
    try:
        if os.lstat(name, dir_fd=directory).st_mtime_ns >= before_ns:
            return False
        if name.startswith(TEMPORARY_PREFIX):
            file_tree.remove_tree(name, directory=directory)
            return True
        return files.remove(name, directory=directory) is not None
    except OSError:
        return False


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _transfer(path: tuple[str, int], place: tuple[str, int], *, stays: bool) -> None:
    """Give a file another name, beside its own where it stays; each is a name in an open directory."""
    (name, source), (new, target) = path, place
    if stays:
        try:
            return os.link(name, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return _copy(path, place)
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    try:
        return os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    _copy(path, place)  # what is not in the root itself may lie on another file system
    return os.unlink(name, dir_fd=source)


def _copy(path: tuple[str, int], place: tuple[str, int]) -> None:
    (name, source), (new, target) = path, place
    status = os.lstat(name, dir_fd=source)
    files.publish(new, files.read(name, directory=source), directory=target)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=target, follow_symlinks=False)
