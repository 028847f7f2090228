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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from jcache import clock, files
from jcache.errors import JcacheError, UnknownKey
from jcache.findings import Damage, Finding
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, TEMPORARY_PREFIX, Kind, Root, parse_kind
from jcache.removal import remove_tree, take_back

_SCHEMA_VERSION: Final = 2
_RECORD, _ENTRY = ".json", ".entry"
_MAX_RECORD: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An entry in quarantine.

    Attributes:
        id: by which it is named.
        kind: of the entry.
        key: of the entry.
        file_name: that it had in its directory.
        damage: what was wrong.
        evidence: of it, as a sentence.
        bytes: of the file.
        digest: of it, where it was read.
        expected: the digest on record then, where it was another one.
        recency_ns: when the entry was last used, nanoseconds since 1970; None where nobody knows.
        quarantined_ns: when it was taken here.
    """

    id: str
    kind: Kind
    key: str
    file_name: str
    damage: Damage
    evidence: str
    bytes: int
    digest: str | None
    expected: str | None
    recency_ns: int | None
    quarantined_ns: int


class Quarantine:
    """The quarantine of a root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._directory = root.quarantine

    def records(self) -> list[Record]:
        """What is here, oldest first; a record that cannot be read or has no file is passed over."""
        found = [record for path in self._paths(_RECORD) if (record := self._read(path)) is not None]
        return sorted(found, key=lambda record: (record.quarantined_ns, record.id))

    def find(self, text: str) -> Record:
        """The record that an id or a key, or an unambiguous beginning of one, stands for.

        Raises:
            UnknownKey: none or several do.
        """
        records = self.records()
        found = [r for r in records if text in (r.id, r.key)] or [
            r for r in records if r.id.startswith(text) or r.key.startswith(text)
        ]
        if not found or not text:
            raise UnknownKey(
                f"Nothing in quarantine answers to '{text}': `jcache quarantine list` shows what is there."
            )
        if len(found) > 1:
            ids = ", ".join(record.id for record in found[:3])
            raise UnknownKey(f"'{text}' stands for {len(found)} entries in quarantine ({ids} …): name one by its id.")
        return found[0]

    def keep(self, path: Path, kind: Kind, key: str) -> None:
        """Keeps an entry that is about to be replaced, if there is one, with the directory's lock held.

        It stays where it is as well, so that its name always holds the old bytes or the new ones; but for a file system
        without hard links.

        Raises:
            OSError: it cannot be kept; nothing has changed then.
        """
        evidence = "Other bytes were to take its place."
        finding = Finding(damage=Damage.REPLACED, path=path, kind=kind, key=key, evidence=evidence)
        with suppress(FileNotFoundError):
            self.take(finding, clock.now_ns(), stays=True)

    def take(self, finding: Finding, now_ns: int, *, stays: bool = False) -> Record:
        """Moves the file of a finding here, with the directory's lock held, and removes its sidecar.

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
        sidecar = path.with_name(key + SIDECAR_SUFFIX)
        self._directory.mkdir(parents=True, exist_ok=True)
        record = Record(
            id=f"{key.rpartition('-')[2][:8]}-{os.urandom(4).hex()}",
            kind=kind,
            key=key,
            file_name=str(path.relative_to(self._root.directory(kind))),
            damage=finding.damage,
            evidence=finding.evidence,
            bytes=os.lstat(path).st_size,
            digest=finding.digest,
            expected=finding.expected,
            recency_ns=files.read_recency(sidecar),
            quarantined_ns=now_ns,
        )
        text = json.dumps({"schema_version": _SCHEMA_VERSION} | asdict(record), indent=2)
        files.publish(self._path(record, _RECORD), text.encode())
        try:
            _transfer(path, self._path(record, _ENTRY), stays=stays)
        except OSError:
            self._path(record, _RECORD).unlink(missing_ok=True)
            raise
        take_back(self._root, kind, key)
        if path != sidecar and not stays and self._root.adapter is None:
            with suppress(OSError):
                files.remove(sidecar)
        return record

    def restore(self, record: Record, *, replace: bool = False) -> Path:
        """Moves an entry back to where it was, with the directory's lock held.

        Args:
            record: which.
            replace: whether an entry that has its key now comes here in its stead.

        Raises:
            JcacheError: there is an entry of that key again, and not to be replaced.
            OSError: it cannot be moved.
        """
        directory = self._root.directory(record.kind)
        path = directory / record.file_name
        if replace:
            self.keep(path, record.kind, record.key)
        elif os.path.lexists(path):
            raise JcacheError(
                f"{record.key} is there again, written anew: `jcache quarantine drop {record.id}` removes the old one, "
                f"and `jcache quarantine restore --replace {record.id}` lets them change places."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        sidecar = directory / (record.key + SIDECAR_SUFFIX)
        if record.recency_ns is not None and path != sidecar:
            files.write_recency(sidecar, record.recency_ns)
        _transfer(self._path(record, _ENTRY), path, stays=False)
        self._path(record, _RECORD).unlink(missing_ok=True)
        return path

    def drop(self, record: Record) -> int:
        """Removes an entry for good and returns its bytes.

        Raises:
            OSError: it cannot be removed.
        """
        size = remove_tree(self._path(record, _ENTRY))
        self._path(record, _RECORD).unlink(missing_ok=True)
        return size

    def sweep(self, before_ns: int) -> int:
        """Removes what crashes left: records and handed files without an entry, temporary files, older than a time."""
        without = [path for path in self._paths(_RECORD) if not os.path.lexists(path.with_suffix(_ENTRY))]
        places = self._directory, self._root.state, self._root.handed
        temporary = [path for place in places for path in place.glob(f"{TEMPORARY_PREFIX}*")]
        removed = 0
        for path in (*without, *temporary, *self._handed_of_none()):
            with suppress(OSError):
                if os.lstat(path).st_mtime_ns < before_ns:
                    removed += files.remove(path) is not None
        return removed

    def _handed_of_none(self) -> list[Path]:
        """Files in which payloads were handed to other code whose entries are gone."""
        entries = self._root.directory(Kind.GRAPHS)
        handed = self._root.handed.glob(f"[!{TEMPORARY_PREFIX[0]}]*")
        return [path for path in handed if not os.path.lexists(entries / (path.name + ENTRY_SUFFIX))]

    def _paths(self, ending: str) -> Iterator[Path]:
        try:
            names = os.listdir(self._directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from (self._directory / name for name in sorted(names) if name.endswith(ending))

    def _path(self, record: Record, ending: str) -> Path:
        return self._directory / (record.id + ending)

    def _read(self, path: Path) -> Record | None:
        try:
            fields = json.loads(files.read(path, _MAX_RECORD))
            if fields.pop("schema_version") != _SCHEMA_VERSION or fields["id"] != path.stem:
                return None
            typed = {"kind": parse_kind(fields["kind"]), "damage": Damage(fields["damage"])}
            record = Record(**(fields | typed))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return record if self._is_whole(record) and os.path.lexists(self._path(record, _ENTRY)) else None

    def _is_whole(self, record: Record) -> bool:
        """Whether its file's name leads to where its entry lies, and nowhere else."""
        if self._root.adapter is None:
            return os.path.basename(record.file_name) == record.file_name
        return self._root.adapter.file_name(record.kind, record.key) == record.file_name


def _transfer(path: Path, place: Path, *, stays: bool) -> None:
    """Gives a file another name, beside its own where it stays."""
    if stays:
        try:
            return os.link(path, place, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return _copy(path, place)
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    try:
        return os.rename(path, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    _copy(path, place)  # what is not in the root itself may lie on another file system
    return os.unlink(path)


def _copy(path: Path, place: Path) -> None:
    status = os.lstat(path)
    files.publish(place, files.read(path))
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
