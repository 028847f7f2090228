"""The filter language of `jcache ls --filter`, and the orders of `--sort`.

Grammar (blanks around the operator are allowed; several filters must all hold)::

    filter   = field operator value | word
    field    = a name of a field (`jcache.admin.fields`), such as size, used, name or hits
    operator = "=" | "!=" | ">=" | "<=" | ">" | "<" | "~"
    word     = letters, digits, "_", "." and "-": a part of the name; but no name of a field
    sort     = field [ ":" ( "asc" | "desc" ) ]

    sizes    as `units.parse_size` reads them             size>100MB
    ages     as `units.parse_age` reads them              used>30d
    seconds  a number                                     seconds>=1.5
    counts   a whole number                               hits=0
    flags    yes or no                                    pinned=yes
    versions are compared number by number                jaxlib<0.10
    texts    are compared whole, or searched by ``~``     name~^jit_step

``~`` searches a regular expression (Python's `re`). An entry matches no filter on a field whose value is not known.
"""

import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jcache.admin.fields import FIELDS, NO_FACTS, Facts, Field, Type, field_named
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import parse_kind
from jcache.units import parse_age, parse_size

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
_LAST: Final = 2**63 - 1
_PART: Final = "part"  # the operator of a word alone
_FLAGS: Final = {"yes": True, "true": True, "no": False, "false": False}
_ORDERINGS: Final = (">", "<", ">=", "<=")
_DIRECTIONS: Final = ("asc", "desc")
FIELD_NAMES: Final = frozenset(name for field in FIELDS.values() for name in field.names)
_FILTER = re.compile(rf"(\w+)\s*({'|'.join(OPERATORS)})\s*(.*)", re.DOTALL)
_WORD = re.compile(r"[\w.-]+")
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison of a field with a value.

    Attributes:
        field: what is compared.
        operator: how; ``part`` asks whether the value is a part of the text.
        value: with what: bytes, nanoseconds, seconds, a number, a flag, a text or a compiled expression.
    """

    field: Field
    operator: str
    value: Any

    def matches(self, entry: Entry, now_ns: int, facts: Facts = NO_FACTS) -> bool:
        """Return whether an entry satisfies it for certain.

        Args:
            entry: which.
            now_ns: the present, nanoseconds since 1970.
            facts: what is known of the entry, as far as the field's source asks for it.
        """
        if self.field.name == "used" and self.operator in (">", ">="):
            entry = entry._replace(recency_ns=min(entry.latest_ns, max(now_ns, entry.recency_ns)))
        value = value_of(self.field, entry, now_ns, facts)
        if value is None:
            return False
        if self.operator == _PART:
            return self.value in value
        compare = _COMPARE[self.operator]
        if self.field.type is Type.VERSION and self.operator in _ORDERINGS:
            known = [version for part in value.split(",") if (version := _version(part))]
            return bool(known) and all(compare(version, self.value) for version in known)
        return compare(value, self.value)


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of entries by a field, ascending or descending; entries with an unknown value come last."""

    field: Field
    descending: bool

    def number(self, entry: Entry, now_ns: int, facts: Facts) -> float:
        """Return the number by which an entry is ordered, if the field has numbers; unknown ones are the largest."""
        value = value_of(self.field, entry, now_ns, facts)
        return _LAST if value is None else -value if self.descending else value

    def key(self, now_ns: int, facts_of: Callable[[Entry], Facts] = lambda _: NO_FACTS) -> Callable[[Entry], Any]:
        """Return a key for `sorted` and `heapq.nsmallest`; numbers are negated to descend.

        Args:
            now_ns: the present, nanoseconds since 1970.
            facts_of: what is known of an entry, as far as the field's source asks for it.
        """
        sign = -1 if self.descending else 1

        def key(entry: Entry) -> tuple[bool, Any, str]:
            value = value_of(self.field, entry, now_ns, facts_of(entry))
            if isinstance(value, str):
                order = _version(value) if self.field.type is Type.VERSION else tuple(map(ord, value))
                return False, _descending(order) if self.descending else order, entry.key
            return value is None, sign * (value or 0), entry.key

        return key


def _descending(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return a key that sorts tuples in descending order; the end of one comes after every number."""
    return (*(-number for number in numbers), 1)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version; none if there are none."""
    match = _VERSION.match(text.strip())
    return tuple(map(int, match[0].split("."))) if match else ()


def parse_filter(text: str) -> Filter:
    """Return the filter that the text means.

    Raises:
        InvalidValue: the text is no filter; the message names the part that cannot be parsed.
    """
    match = _FILTER.fullmatch(text.strip())
    if match is None:
        return _parse_word(text.strip(), text)
    name, sign, value = match.groups()
    field = field_named(name, "is not a field to filter by")
    if not value:
        raise InvalidValue(f"The filter '{text}' has no value: write one after '{sign}', such as '{field.example}'.")
    return Filter(field, sign, _parse_value(field, name, sign, value))


def _parse_word(word: str, text: str) -> Filter:
    """Return the filter for a part of the name."""
    if _WORD.fullmatch(word) is None:
        raise InvalidValue(
            f"'{text}' is not a filter: write a field, an operator and a value, such as 'size>100MB', "
            "or a word that is a part of the name."
        )
    if word in FIELD_NAMES:
        field = field_named(word, "")
        raise InvalidValue(
            f"'{text}' is not a filter, but a field: write an operator and a value after it, such as "
            f"'{field.example}'; 'name~{word}' looks for a name."
        )
    return Filter(field_named("name", ""), _PART, word)


def parse_sort(text: str) -> Sort:
    """Return the order that the text means; sizes and counts descend unless told otherwise, ages and names ascend.

    Raises:
        InvalidValue: there is no such field or direction.
    """
    name, colon, direction = text.partition(":")
    field = field_named(name, "is not a field to sort by")
    if colon and direction not in _DIRECTIONS:
        raise InvalidValue(f"'{text}' is not an order: write '{name}', '{name}:asc' or '{name}:desc'.")
    return Sort(field, direction == "desc" if colon else field.descending)


def value_of(field: Field, entry: Entry, now_ns: int, facts: Facts = NO_FACTS) -> Any:  # noqa: ANN401
    """Return the value of a field that filters compare: bytes, nanoseconds, a number or text; None for unknown."""
    value = field.read(entry, facts)
    return now_ns - value if field.type is Type.AGE and value is not None else value


def _parse_value(field: Field, name: str, sign: str, text: str) -> Any:  # noqa: ANN401  one type for each field
    signs = field.type.operators
    if sign not in signs:
        *first, last = signs
        what = "searched" if sign == "~" else "compared"
        raise InvalidValue(f"'{name}' cannot be {what} by '{sign}': use {', '.join(first)} or {last}.")
    if sign == "~":
        return _parse_pattern(text)
    match field.type:
        case Type.SIZE:
            return parse_size(text)
        case Type.AGE:
            return parse_age(text)
        case Type.SECONDS:
            return _parse_seconds(text)
        case Type.COUNT:
            return _parse_count(name, text)
        case Type.FLAG:
            return _parse_flag(name, text)
        case Type.KIND:
            return str(parse_kind(text))
        case Type.VERSION:
            return _parse_version(text) if sign in _ORDERINGS else text
    return text


def _parse_count(name: str, text: str) -> int:
    if re.fullmatch(r"\d{1,18}", text, re.ASCII) is None:
        raise InvalidValue(f"'{text}' is not a whole number: give '{name}' one, such as '{name}>10'.")
    return int(text)


def _parse_flag(name: str, text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise InvalidValue(f"'{text}' is neither yes nor no: write '{name}=yes' or '{name}=no'.")
    return _FLAGS[text.lower()]


def _parse_version(text: str) -> tuple[int, ...]:
    if not (version := _version(text)):
        raise InvalidValue(f"'{text}' is not a version: write numbers such as 0.10.2.")
    return version


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
