"""The filter language of `jcache ls --filter`, and the orders of `--sort`.

Grammar (blanks around the operator are allowed; several filters must all hold)::

    filter   = field operator value
    field    = "size" | "age" | "used" | "name" | "kind" | "seconds"
    operator = "=" | "!=" | ">=" | "<=" | ">" | "<" | "~"
    sort     = field [ ":" ( "asc" | "desc" ) ]

    size     bytes, as `units.parse_size` reads them             size>100MB
    age      time since the entry was written, as an age         age<=2h
    used     time since it was last used, as an age              used>30d
    seconds  build time in seconds, a number                     seconds>=1.5
    name     the function's name                                 name=jit_step
    kind     executables, traces or graphs                       kind!=graphs

``~`` searches a regular expression (Python's `re`) in a name or kind; ``=`` and ``!=`` compare the whole text. An entry
whose build time is unknown matches no filter on ``seconds``.
"""

import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import parse_kind
from jcache.units import parse_age, parse_size

FIELDS: Final = ("size", "age", "used", "name", "kind", "seconds")
OPERATORS: Final = ("!=", ">=", "<=", "=", ">", "<", "~")

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "~": lambda text, pattern: pattern.search(text) is not None,
}
_TEXT_FIELDS: Final = ("name", "kind")
_DESCENDING_FIELDS: Final = ("size", "seconds")
_FILTER = re.compile(rf"(\w+)\s*({'|'.join(OPERATORS)})\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison of a field with a value.

    Attributes:
        field: name of the field.
        operator: operator.
        value: value to compare with: bytes, nanoseconds, seconds, text or a compiled expression.
    """

    field: str
    operator: str
    value: Any

    def matches(self, entry: Entry, now_ns: int) -> bool:
        """Return whether an entry surely satisfies the filter at a time, in nanoseconds since 1970."""
        if self.field == "used" and self.operator in (">", ">="):
            entry = entry._replace(recency_ns=min(entry.latest_ns, max(now_ns, entry.recency_ns)))
        value = value_of(self.field, entry, now_ns)
        return value is not None and _COMPARE[self.operator](value, self.value)


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of entries by a field, ascending or descending; entries with an unknown value come last."""

    field: str
    descending: bool

    def key(self, now_ns: int) -> Callable[[Entry], tuple[bool, Any, str]]:
        """Return a key for `sorted` and `heapq.nsmallest`; numbers are negated to descend."""
        sign = -1 if self.descending else 1

        def key(entry: Entry) -> tuple[bool, Any, str]:
            value = value_of(self.field, entry, now_ns)
            if isinstance(value, str):
                return False, _descending(value) if self.descending else value, entry.key
            return value is None, sign * (value or 0), entry.key

        return key


def _descending(text: str) -> tuple[int, ...]:
    """Return a key that sorts texts in descending order; the end of a text comes after every character."""
    return (*(-ord(character) for character in text), 1)


def parse_filter(text: str) -> Filter:
    """Return the filter that the text means.

    Raises:
        InvalidValue: the text is no filter; the message names the part that cannot be parsed.
    """
    match = _FILTER.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"'{text}' is not a filter: write a field, an operator and a value, such as 'size>100MB'.")
    field, sign, value = match.groups()
    if field not in FIELDS:
        raise InvalidValue(f"'{field}' is not a field to filter by: choose from {', '.join(FIELDS)}.")
    if not value:
        raise InvalidValue(f"The filter '{text}' has no value: write one after '{sign}', such as 'size>100MB'.")
    return Filter(field, sign, _parse_value(field, sign, value))


def parse_sort(text: str) -> Sort:
    """Return the order that the text means; sizes and seconds descend unless told otherwise, ages and names ascend.

    Raises:
        InvalidValue: there is no such field or direction.
    """
    field, colon, direction = text.partition(":")
    if field not in FIELDS or (colon and direction not in ("asc", "desc")):
        raise InvalidValue(
            f"'{text}' is not an order: write one of {', '.join(FIELDS)}, with ':asc' or ':desc' after it if needed."
        )
    return Sort(field, direction == "desc" if colon else field in _DESCENDING_FIELDS)


def value_of(field: str, entry: Entry, now_ns: int) -> int | float | str | None:
    """Return the value of a field of an entry: bytes, nanoseconds, seconds or text; None where it is unknown."""
    match field:
        case "size":
            return entry.bytes
        case "age":
            return now_ns - entry.created_ns
        case "used":
            return now_ns - entry.recency_ns
        case "seconds":
            return entry.seconds
        case "name":
            return entry.name
        case _:
            return str(entry.kind)


def _parse_value(field: str, sign: str, text: str) -> Any:  # noqa: ANN401  one type for each field
    if field in _TEXT_FIELDS:
        if sign == "~":
            return _parse_pattern(text)
        if sign not in ("=", "!="):
            raise InvalidValue(f"'{field}' cannot be compared by '{sign}': use =, != or ~.")
        return str(parse_kind(text)) if field == "kind" else text
    if sign == "~":
        raise InvalidValue(f"'{field}' cannot be searched by '~': use =, !=, >, <, >= or <=.")
    if field == "size":
        return parse_size(text)
    return _parse_seconds(text) if field == "seconds" else parse_age(text)


def _parse_pattern(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of syntax that it may change
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidValue(f"'{text}' is not a regular expression: {error}.") from None


def _parse_seconds(text: str) -> float:
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text, re.ASCII) is None:
        raise InvalidValue(f"'{text}' is not a number of seconds: write one such as 1.5.")
    return float(text)
