"""Many keys in little memory: 36 bytes for each, and the text of each name once."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, overload

from jcache.layout.keys import HASH_LENGTH, is_key

_HASH_BYTES: Final = HASH_LENGTH // 2
_AT_ONCE: Final = 4096  # keys that are converted together
_SIZE_BYTES: Final = 8
_HASH_BITS: Final = 40  # of a place: enough to tell nearly all hashes apart


class KeyList(Sequence[str]):
    """A list of keys that holds the hash of each in 32 bytes, and the number of its name.

    Args:
        keys: the keys.
    """

    __slots__ = ("_hashes", "_index", "_names", "_numbers")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._names: list[
            str
        ] = []  # with the dash behind them; and whole texts that are no keys, as some programs' are
        self._index: dict[str, int] = {}
        self._numbers = array("i")  # of the names; ~number of a whole text
        self._hashes = bytearray()
        for key in keys:
            self.append(key)

    def __len__(self) -> int:
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KeyList({list(self)!r})"

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        number = self._numbers[at]
        if number < 0:
            return self._names[~number]
        start = (at if at >= 0 else at + len(self)) * _HASH_BYTES
        return self._names[number] + self._hashes[start : start + _HASH_BYTES].hex()

    def __iter__(self) -> Iterator[str]:
        names = self._names
        for start in range(0, len(self), _AT_ONCE):
            digits = self._hashes[start * _HASH_BYTES : (start + _AT_ONCE) * _HASH_BYTES].hex()
            at = 0
            for number in self._numbers[start : start + _AT_ONCE]:
                yield names[number] + digits[at : at + HASH_LENGTH] if number >= 0 else names[~number]
                at += HASH_LENGTH

    def append(self, key: str) -> None:
        """Add a key, or any other text by which another program names an entry."""
        if is_key(key):
            self.extend([key])
        else:
            self._numbers.append(~self._number(key))
            self._hashes += bytes(_HASH_BYTES)

    def extend(self, keys: Sequence[str]) -> None:
        """Add texts that are known to be keys."""
        self._hashes += bytes.fromhex("".join([key[-HASH_LENGTH:] for key in keys]))
        number_of, known = self._number, self._index.get
        for key in keys:
            name = key[:-HASH_LENGTH]
            number = known(name)
            self._numbers.append(number_of(name) if number is None else number)

    def _number(self, name: str) -> int:
        number = self._index.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def where(self, keep: Sequence[bool]) -> KeyList:
        """Return the keys whose flag is true."""
        return KeyList(compress(self, keep))

    def places(self) -> array[int]:
        """Return a number of each key that orders keys nearly as texts: by their names, then by their hashes."""
        ranks = {name: rank << _HASH_BITS for rank, name in enumerate(sorted(self._names))}
        starts = [ranks[name] for name in self._names]
        begins = struct.iter_unpack(f">Q{_HASH_BYTES - 8}x", self._hashes)
        numbers = (starts[number if number >= 0 else ~number] for number in self._numbers)
        return array("q", (start | begin >> 64 - _HASH_BITS for start, (begin,) in zip(numbers, begins, strict=True)))

    def packed(self) -> bytes:
        """Return the keys as bytes, for `unpacked` on this machine."""
        names = os.fsencode("\0".join(self._names))
        return b"".join((len(names).to_bytes(_SIZE_BYTES, "little"), names, self._numbers.tobytes(), self._hashes))

    @classmethod
    def unpacked(cls, data: bytes) -> KeyList | None:
        """Return the keys that were packed; None for bytes that hold anything else, or a text that is no key."""
        begin = int.from_bytes(data[:_SIZE_BYTES], "little") + _SIZE_BYTES
        found = cls()
        count, rest = divmod(len(data) - begin, _HASH_BYTES + found._numbers.itemsize)
        if count < 0 or rest:
            return None
        names = os.fsdecode(data[_SIZE_BYTES:begin]).split("\0") if begin > _SIZE_BYTES else []
        middle = begin + count * found._numbers.itemsize
        found._numbers.frombytes(data[begin:middle])
        found._hashes += memoryview(data)[middle:]
        found._names, found._index = names, {name: number for number, name in enumerate(names)}
        known = min(found._numbers, default=0) >= 0 and max(found._numbers, default=-1) < len(names)
        none = "0" * HASH_LENGTH
        return found if known and all(is_key(name + none) and "/" not in name for name in names) else None
