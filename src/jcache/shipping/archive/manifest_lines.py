"""The usual line of a manifest's item, written and read in one step each; the schema is for all other lines.

Archives have up to hundreds of thousands of items, and `manifest_schema` takes 10 µs for each. Nearly all are lines in
which texts need no escapes and numbers have few digits. One pattern matches them. It is narrower than the schema: what
it matches is canonical JSON, and each value is one that the schema reads and writes alike.
"""

from __future__ import annotations

import re
from typing import Final

from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item

_TIME: Final = r"(0|[1-9]\d{0,17}|[1-8]\d{18})"
_SHORT_TEXT: Final = r"[ !#-\[\]-~]{0,99}"
_PATTERN: Final = re.compile(
    r'\{"bytes":(0|[1-9]\d{0,8})'
    r'(?:,"codec":"(zstd|zlib)")?'
    rf',"created_ns":{_TIME}'
    r',"digest":"(blake3:[0-9a-f]{64})"'
    r',"key":"([A-Za-z0-9_.]{1,64}-[0-9a-f]{64})"'
    r',"kind":"(executables|traces|graphs)"'
    r'(?:,"maker":(0|[1-9]\d{0,5}))?'
    rf'(?:,"origin":"({_SHORT_TEXT})")?'
    r'(?:,"pinned":(true))?'
    r'(?:,"portable":(true))?'
    rf',"recency_ns":{_TIME}'
    r'(?:,"seconds":((?:0|[1-9]\d{0,8})\.(?:0|\d{0,3}[1-9])))?'
    r'(?:,"sidecar":(true))?\}',
    re.ASCII,
)
_KINDS: Final = {kind.value: kind for kind in Kind}


def write_usual(item: Item) -> str | None:
    """Return the line of an item; None if it is not a usual one."""
    (
        kind,
        key,
        size,
        digest,
        created_ns,
        recency_ns,
        sidecar,
        pinned,
        seconds,
        origin,
        parents,
        codec,
        portable,
        maker,
    ) = item
    line = "".join(
        (
            f'{{"bytes":{size}',
            "" if codec is None else f',"codec":"{codec}"',
            f',"created_ns":{created_ns},"digest":"{digest}","key":"{key}","kind":"{kind.value}"',
            "" if maker is None else f',"maker":{maker}',
            "" if origin is None else f',"origin":"{origin}"',
            ',"pinned":true' if pinned else "",
            ',"portable":true' if portable else "",
            f',"recency_ns":{recency_ns}',
            "" if seconds is None else f',"seconds":{seconds!r}',
            ',"sidecar":true}' if sidecar else "}",
        )
    )
    return line if not parents and _PATTERN.fullmatch(line) else None


def read_usual(line: str) -> Item | None:
    """Return the item of a line; None if it is not a usual line."""
    match = _PATTERN.fullmatch(line)
    if match is None:
        return None
    size, codec, created_ns, digest, key, kind, maker, origin, pinned, portable, recency_ns, seconds, sidecar = (
        match.groups()
    )
    return Item(
        _KINDS[kind],
        key,
        int(size),
        digest,
        int(created_ns),
        int(recency_ns),
        sidecar is not None,
        pinned is not None,
        None if seconds is None else float(seconds),
        origin,
        (),
        codec,
        portable is not None,
        None if maker is None else int(maker),
    )
