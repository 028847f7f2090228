"""Sizes and ages as text: parsed as people write them, and formatted for printing.

Grammar (case does not matter in sizes; blanks around the unit are allowed):

    size  = number [ unit ]        unit = B | K M G T P | KiB MiB GiB TiB PiB | kB MB GB TB PB
    age   = number unit            unit = s | min | h | d | w | mo | y

``K`` … ``P`` alone mean KiB … PiB; ``kB`` … ``PB`` are powers of 1000; a plain number of bytes has no unit.
A bare ``m`` is refused as an age, since it could be minutes or months. A month has 30 days, a year 365.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from jcache.errors import InvalidValue
from jcache.text import unknown_choice

NANOSECONDS: Final = 1_000_000_000

_SIZE = re.compile(r"(\d{1,24}(?:\.\d{1,24})?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_AGE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*([a-z]*)", re.ASCII)
_PREFIXES: Final = "kmgtp"
_SIZE_UNITS: Final = (
    {"": 1, "b": 1}
    | {p: 1024 ** (i + 1) for i, p in enumerate(_PREFIXES)}
    | {p + "ib": 1024 ** (i + 1) for i, p in enumerate(_PREFIXES)}
    | {p + "b": 1000 ** (i + 1) for i, p in enumerate(_PREFIXES)}
)
_AGE_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 30 * 86400, "y": 365 * 86400}


Choice = TypeVar("Choice", bound=StrEnum)


def parse_choice(choices: type[Choice], text: str, fault: str) -> Choice:
    """Return the member of an enum that a text names.

    Args:
        choices: the enum.
        text: the member's value.
        fault: what the message says about another text, such as ``is not a kind``.

    Raises:
        InvalidValue: there is no such member; the message lists them all.
    """
    try:
        return choices(text)
    except ValueError:
        raise InvalidValue(unknown_choice(text, fault, choices)) from None


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``20GiB``, ``1.5G``, ``20GB`` or ``4096``, rounded down.

    Raises:
        InvalidValue: the text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidValue(f"'{text}' is not a size: write bytes or a number with a unit, such as 20GiB, 20GB or 20G.")
    return _multiply(match[1], unit)


def parse_bound(size: object) -> int | None:
    """Return a bound in bytes, given as a number, as a size that `parse_size` reads, or as None for no bound.

    Raises:
        InvalidValue: it is given in another form.
    """
    if size is None:
        return None
    if isinstance(size, str):
        return parse_size(size)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidValue(f"{size!r} is no bound: give bytes, a text such as '20GiB', or None for no bound of yours.")
    return size


def parse_age(text: str) -> int:
    """Return the nanoseconds of an age such as ``30d``, ``12h`` or ``1.5y``.

    Raises:
        InvalidValue: the text is not an age, or has the ambiguous unit ``m``.
    """
    match = _AGE.fullmatch(text.strip())
    if match and match[2] == "m":
        raise InvalidValue(f"'{text}' is ambiguous: write {match[1]}min for minutes or {match[1]}mo for months.")
    unit = _AGE_UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise InvalidValue(f"'{text}' is not an age: write a number and one of s, min, h, d, w, mo, y, such as 30d.")
    return _multiply(match[1], unit * NANOSECONDS)


def whole_number(option: str, number: str | int | None) -> int | None:
    """Return the whole number that was given to an option, None where none was.

    Raises:
        InvalidValue: it is not a whole number from 0 on.
    """
    if number is None:
        return None
    text = str(number)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidValue(f"'{text}' is not a whole number: give {option} one, such as 10.")
    return int(text)


def _multiply(number: str, unit: int) -> int:
    """Return number x unit, computed exactly and rounded down."""
    whole, _, decimals = number.partition(".")
    return int(whole + decimals) * unit // int(10 ** len(decimals))


def format_size(count: int) -> str:
    """Return a number of bytes as IEC text: ``1.5 MiB``."""
    from humanize import naturalsize

    return naturalsize(count, binary=True).replace(" Bytes", " B").replace(" Byte", " B")


def format_apart(*counts: int) -> list[str]:
    """Return `format_size` of several numbers, with more digits where different numbers would have the same text."""
    from humanize import naturalsize

    texts = {count: format_size(count) for count in counts}
    for digits in (2, 3, 4, None):
        shown = Counter(texts.values())
        for count in (count for count, text in texts.items() if shown[text] > 1):
            more = f"{count:,} B" if digits is None else naturalsize(count, binary=True, format=f"%.{digits}f")
            texts[count] = more.replace(" Bytes", " B").replace(" Byte", " B")
    return [texts[count] for count in counts]


def format_age(nanoseconds: int) -> str:
    """Return an age in its largest whole unit, as `parse_age` reads it: ``3d``; a negative age gives ``in 3d``."""
    seconds = abs(nanoseconds) // NANOSECONDS
    unit = max((u for u, length in _AGE_UNITS.items() if length <= seconds), key=_AGE_UNITS.__getitem__, default="s")
    text = f"{seconds // _AGE_UNITS[unit]}{unit}"
    return text if nanoseconds >= 0 or seconds == 0 else f"in {text}"


def format_seconds(seconds: float) -> str:
    """Return a duration for people: ``0.04 s``, ``12.3 s``, ``4 min 10 s``, ``2 h 05 min``."""
    if seconds < -0.005:
        return "-" + format_seconds(-seconds)
    seconds = max(seconds, 0.0)
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def rfc3339(time_ns: int) -> str | None:
    """Return nanoseconds since 1970 as RFC 3339 text in UTC, to the microsecond; None beyond the years 1 to 9999."""
    whole = _whole_seconds(time_ns // NANOSECONDS)
    return None if whole is None else f"{whole}.{time_ns % NANOSECONDS // 1000:06d}Z"


@lru_cache(maxsize=256)
def _whole_seconds(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
