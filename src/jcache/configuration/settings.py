"""The settings of ``jcache.toml``: the name of each, the form of its value, and where it may stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from jcache.errors import InvalidValue
from jcache.frozen import Frozen
from jcache.jax_internals.presets import Preset
from jcache.store.order import Order
from jcache.text import unknown_choice
from jcache.units import parse_age, parse_choice, parse_size

Value = int | str | tuple[str, ...]  # bytes, nanoseconds or a number; a name; paths

_LARGEST: Final = 2**63 - 1


class Source(StrEnum):
    """Where the value of a setting comes from; an earlier one wins."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    ROOT = "root"
    USER = "user"
    DEFAULT = "default"


class Setting(NamedTuple):
    """A setting.

    Attributes:
        parse: returns the value that a file or a command line gives; raises InvalidValue if it has another form.
        help: what it sets, in a few words.
        default: the value if nothing sets it; None for none.
        in_root: whether a root may set it; a root may come from somebody else.
        variable: the environment variable that sets it; None if there is none.
    """

    parse: Callable[[object], Value]
    help: str
    default: Value | None = None
    in_root: bool = True
    variable: str | None = None


def _size(value: object) -> int:
    size = parse_size(value) if isinstance(value, str) else value
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST:
        raise InvalidValue(f"{value!r} is not a size: write bytes, or a text such as '20GiB'.")
    return size


def _number(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _LARGEST:
        raise InvalidValue(f"{value!r} is not a whole number.")
    return number


def _age(value: object) -> int:
    if not isinstance(value, str):
        raise InvalidValue(f"{value!r} is not an age: write a text such as '30d'.")
    return parse_age(value)


def _choice(choices: type[Preset] | type[Order], fault: str) -> Callable[[object], str]:
    return lambda value: str(parse_choice(choices, str(value), fault))


def _paths(value: object) -> tuple[str, ...]:
    paths = value if isinstance(value, list | tuple) else [value]
    texts = tuple(path for path in paths if isinstance(path, str) and path and "\0" not in path)
    if len(texts) != len(paths):
        raise InvalidValue(f"{value!r} is not a list of directories: write texts, such as ['/scratch/jax'].")
    return texts


SETTINGS: Final[Mapping[str, Setting]] = Frozen(
    {
        "max_size": Setting(
            _size, "largest total size to keep, such as 20GiB", variable="JAX_COMPILATION_CACHE_MAX_SIZE"
        ),
        "max_entries": Setting(_number, "largest number of entries that prune keeps"),
        "min_free": Setting(_size, "free space that prune keeps on the disk"),
        "older_than": Setting(_age, "time without use, such as 90d, after which prune removes an entry"),
        "keep_last": Setting(_number, "number of most recently used entries that prune always keeps"),
        "order": Setting(
            _choice(Order, "is not an order"),
            "which entries go first over a limit: lru or cost",
            default=Order.LRU.value,
        ),
        "preset": Setting(
            _choice(Preset, "is not a preset"),
            "preset of jcache.enable()",
            default=Preset.BALANCED.value,
            in_root=False,
        ),
        "places": Setting(_paths, "more directories at which info --all looks", default=(), in_root=False),
    }
)
LIMITS: Final = ("max_size", "max_entries", "min_free", "older_than")  # each lets prune choose what goes


def setting(name: str) -> Setting:
    """Return the setting of a name, also if it is written with dashes.

    Raises:
        InvalidValue: there is none; the message names the nearest one.
    """
    found = SETTINGS.get(normal(name))
    if found is None:
        raise InvalidValue(unknown_choice(name, "is not a setting", SETTINGS))
    return found


def normal(name: str) -> str:
    """Return a setting's name as files have it: with underscores."""
    return name.strip().lower().replace("-", "_")


def to_write(name: str, texts: Sequence[str]) -> object:
    """Return the value that a file gets for a setting: the text as it was given, but a number for a number.

    Args:
        name: of the setting, as files have it.
        texts: the value; several texts for ``places`` alone.

    Raises:
        InvalidValue: the setting has no such value.
    """
    if name == "places":
        return list(_paths([os.path.abspath(os.path.expanduser(text)) for text in texts]))
    value = SETTINGS[name].parse(texts[0])
    return value if texts[0].isascii() and texts[0].isdigit() else texts[0].strip()


def as_json(name: str, value: Value | None) -> Any:  # noqa: ANN401  JSON
    """Return a value for JSON: bytes and numbers as integers, an age in seconds, paths as a list."""
    if isinstance(value, tuple):
        return list(value)
    return value / 1e9 if name == "older_than" and isinstance(value, int) else value
