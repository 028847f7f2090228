"""Keys of entries: ``<name>-<64 hex>``, and the shortened keys for names that are too long for a file."""

import os
from collections.abc import Sequence
from typing import Final

from jcache.errors import InvalidValue
from jcache.layout.names import ENTRY_SUFFIX, NAME_LIMIT

HASH_LENGTH: Final = 64
_HEX: Final = "0123456789abcdef"
_SHORT_HASH: Final = 8  # digits that tables print
_TAG_MARK: Final = "~"
_TAG_LENGTH: Final = 16
_ROOM: Final = NAME_LIMIT - len(ENTRY_SUFFIX) - len("-") - HASH_LENGTH - len(_TAG_MARK) - _TAG_LENGTH


def is_key(text: str) -> bool:
    """Return whether the text is ``<name>-<64 hex>`` with a printable name."""
    return text[-65:-64] == "-" and len(text) > 65 and not text[-64:].strip(_HEX) and text.isprintable()


def name_of(key: str) -> str:
    """Return the function's name in a key; a legacy ``<64 hex>`` has none and gives ``""``."""
    return key.rpartition("-")[0]  # another program's hashes have other lengths


def hash_of(key: str) -> str:
    """Return the hash in a key: what follows the name."""
    return key.rpartition("-")[2]


def short_key(key: str) -> str:
    """Return a prefix of a key that fits a table and, in most roots, belongs to only one key."""
    name, dash, digits = key.rpartition("-")
    return f"{name}{dash}{digits[:_SHORT_HASH]}" if dash else key


def are_files_of_keys(names: Sequence[str]) -> bool:
    """Return whether every name is a key and a suffix of six characters: what `is_key` says of each, all at once."""
    hashes = "".join([name[-70:-6] for name in names])
    dashes = "".join([name[-71:-70] for name in names])
    return (
        min(map(len, names), default=72) > 71
        and len(hashes) == HASH_LENGTH * len(names)
        and _are_hex(hashes)
        and not dashes.strip("-")
        and "".join(names).isprintable()
    )


def _are_hex(digits: str) -> bool:
    """Return whether a long text of even length consists of hexadecimal digits."""
    try:
        return bytes.fromhex(digits).hex() == digits
    except ValueError:
        return False


def check_key(key: str) -> str:
    """Return the key if it is valid.

    Raises:
        InvalidValue: it is not ``<name>-<64 hex>``, or its file name would be longer than 255 bytes.
    """
    if not is_key(key) or "/" in key:
        raise InvalidValue(f"'{key}' is not a key: a key is a name, a dash and 64 hexadecimal digits.")
    if len(os.fsencode(key + ENTRY_SUFFIX)) > NAME_LIMIT:
        raise InvalidValue(f"'{key}' is too long for a file name of {NAME_LIMIT} bytes.")
    return key


def storable(key: str) -> str:
    """Return the key under which an entry is stored: the key itself, or a shortened one if no file can have its name.

    A key of JAX is ``<module>-<64 hex>``. Generated programs have module names so long that the key is longer than a
    file name may be, and JAX never caches them. Here the name is cut and the hash kept::

        a key that fits       itself
        <name>-<64 hex>       <beginning of the name>~<16 hex of the SHA-256 of the name>-<64 hex>
        any other text        <beginning of the text>~<16 hex of its SHA-256>-<64 hex of its SHA-256>

    The digits behind ``~`` keep two long names apart that begin alike and have the same hash.
    """
    try:
        return check_key(key)
    except ValueError:
        pass
    digits = key[-HASH_LENGTH:]
    if is_key(f"x-{digits}") and key[-HASH_LENGTH - 1 : -HASH_LENGTH] == "-":
        return f"{shortened(name_of(key))}-{digits}"
    return f"{shortened(key)}-{_sha256(key)}"


def shortened(name: str) -> str:
    """Return a name as `storable` cuts it, with what tells it from others that begin alike."""
    clean = "".join(c if c.isprintable() and c != "/" else "_" for c in name)
    return f"{clean.encode()[:_ROOM].decode(errors='ignore')}{_TAG_MARK}{_sha256(name)[:_TAG_LENGTH]}"


def kept_of(key: str) -> str | None:
    """Return the beginning of the module's name that a stored key has kept, None for a key whose name was not cut."""
    name = name_of(key)
    tag = name[-_TAG_LENGTH:]
    cut = name[-_TAG_LENGTH - 1 : -_TAG_LENGTH] == _TAG_MARK and not tag.strip("0123456789abcdef")
    return name[: -_TAG_LENGTH - 1] if cut else None


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
