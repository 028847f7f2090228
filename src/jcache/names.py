"""Under which key JAX's own key is stored: itself, unless that were no name that a file can have.

A key of JAX is ``<module>-<64 hex>``. Modules of long names, which generated programs have, make it longer than a file
name may be, and JAX then never caches them. Here the name is cut and the hash kept::

    key that fits         itself
    <name>-<64 hex>       <beginning of the name>~<16 hex of the SHA-256 of the name>-<64 hex>
    any other text        <beginning of the text>~<16 hex of its SHA-256>-<64 hex of its SHA-256>

The digits behind ``~`` keep two long names apart that begin alike, should their hashes ever be equal.
"""

from typing import Final

from jcache.layout import ENTRY_SUFFIX, HASH_LENGTH, NAME_LIMIT, check_key, is_key, name_of

_TAG_MARK: Final = "~"
_TAG_LENGTH: Final = 16
_ROOM: Final = NAME_LIMIT - len(ENTRY_SUFFIX) - len("-") - HASH_LENGTH - len(_TAG_MARK) - _TAG_LENGTH


def storable(key: str) -> str:
    """The key under which an entry of any key is stored; the same for the same key in every process."""
    try:
        return check_key(key)
    except ValueError:
        pass
    digits = key[-HASH_LENGTH:]
    if is_key(f"x-{digits}") and key[-HASH_LENGTH - 1 : -HASH_LENGTH] == "-":
        return f"{shortened(name_of(key))}-{digits}"
    return f"{shortened(key)}-{_sha256(key)}"


def shortened(name: str) -> str:
    """A name as `storable` cuts it, with what tells it from others that begin alike."""
    clean = "".join(c if c.isprintable() and c != "/" else "_" for c in name)
    return f"{clean.encode()[:_ROOM].decode(errors='ignore')}{_TAG_MARK}{_sha256(name)[:_TAG_LENGTH]}"


def kept_of(key: str) -> str | None:
    """The beginning of the module's name that a stored key has kept, None for a key whose name was not cut."""
    name = name_of(key)
    tag = name[-_TAG_LENGTH:]
    cut = name[-_TAG_LENGTH - 1 : -_TAG_LENGTH] == _TAG_MARK and not tag.strip("0123456789abcdef")
    return name[: -_TAG_LENGTH - 1] if cut else None


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
