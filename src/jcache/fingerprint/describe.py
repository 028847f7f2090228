"""Short descriptions of the parts of a fingerprint, and of what differs between two fingerprints."""

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

SHORT: Final = 80
_DIGITS: Final = 24
_SECRET: Final = re.compile("auth|credential|key|passw|secret|token", re.IGNORECASE)
_BIG: Final = 10**40
_MAX_ITEMS: Final = 60  # in an object or container
_MAX_INNER_ITEMS: Final = 12  # in an object or container inside of another one
_MAX_CHANGES: Final = 3  # in `some`
_MAX_CHARACTERS: Final = 1000  # in a description of contents
_MAX_DEPTH: Final = 3
_ARRAYS: Final = frozenset({"numpy", "jaxlib", "jax"})
_NAMESPACES: Final = frozenset({"SimpleNamespace", "Namespace"})
_DIGEST: Final = re.compile(f"(?:^| )([0-9a-f]{{{_DIGITS}}}|[0-9a-f]{{64}})$")
_STRUCTURE: Final = re.compile(
    r"(?:(?P<kind>[\w.<>]+)?\(|[\[{])(?P<inner>.*)[)\]}] " + f"(?P<digest>[0-9a-f]{{{_DIGITS}}})", re.DOTALL
)
_OBJECT: Final = re.compile(r"(?P<head>(?P<name>\w+)=[\w.<>]+)\((?P<inner>.*)\)", re.DOTALL)  # name=Class(…)
_LISTS: Final[Mapping[type, tuple[str, str]]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}")}


def shortened(digest: bytes) -> str:
    """Return the beginning of a digest in hexadecimal, long enough to tell values apart."""
    return digest.hex()[:_DIGITS]


def describe(value: Any, digest: bytes, label: str = "") -> str:  # noqa: ANN401
    """Return a description of a value; different values have different descriptions.

    Args:
        value: any value.
        digest: the digest of its encoding.
        label: the label of its part. If the label suggests a secret, the description has only the type and the digest.
    """
    if label and not isinstance(value, int | float | None) and _SECRET.search(label):
        return f"{_kind(value)} {shortened(digest)}"
    return plain(value) or _list(value) or f"{_contents(value) or _kind(value)} {shortened(digest)}"


def in_short(value: Any) -> str:  # noqa: ANN401
    """Return a description without a digest, which different values may share."""
    return _item("", value, _MAX_DEPTH)


def _contents(value: Any) -> str | None:  # noqa: ANN401
    """Return a description of a value's contents, if it is short enough; objects of jcache describe themselves."""
    ours = str(type(value).__module__).partition(".")[0] == "jcache" and getattr(value, "in_words", None)
    told = ours() if ours else _structure(value, _MAX_DEPTH)
    return told if told is None or len(told) <= _MAX_CHARACTERS else None


def plain(value: Any) -> str | None:  # noqa: ANN401
    """Return a short scalar as Python writes it; None for anything else."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return "nan" if value != value else repr(value)
    if kind is int:
        return repr(value) if -_BIG < value < _BIG else None
    if kind is str or kind is bytes:
        shown = repr(value) if len(value) <= SHORT else ""
        return shown if 0 < len(shown) <= SHORT else None
    if kind.__module__ == "numpy" and isinstance(value, sys.modules["numpy"].generic):
        exact = value.dtype.kind in "biuf" and value.dtype.itemsize <= 8 and value.dtype.isnative
        return f"np.{value.dtype.name}({plain(value.item())})" if exact and kind.__name__ != "longlong" else None
    return None


def _list(value: Any) -> str | None:  # noqa: ANN401
    brackets = _LISTS.get(type(value))
    if brackets is None or len(value) > SHORT:
        return None
    items = [plain(item) or "" for item in value]
    if type(value) is tuple and len(items) == 1:
        items[0] += "," if items[0] else ""
    shown = brackets[0] + ", ".join(sorted(items) if type(value) is set else items) + brackets[1]
    return shown if all(items) and len(shown) <= SHORT else None


def _structure(value: Any, depth: int) -> str | None:  # noqa: ANN401
    """Return a description of what an object or container holds, without running code of its class."""
    kind, most = type(value), _MAX_ITEMS if depth == _MAX_DEPTH else _MAX_INNER_ITEMS
    if depth == 0:
        return None
    if issubclass(kind, dict):
        named = [(plain(name), each) for name, each in islice(dict.items(value), most + 1)]
        items = sorted(((name, each) for name, each in named if name is not None), key=itemgetter(0))
        sign, brackets = ": ", ("{", "}") if kind is dict else (f"{kind.__qualname__}(", ")")
    elif kind in {list, tuple}:
        items, sign, brackets = [("", each) for each in islice(value, most + 1)], "", _LISTS[kind]
    else:
        items, sign, brackets = _attributes(value), "=", (f"{kind.__qualname__}(", ")")
    if not items or len(items) > most:
        return None
    shown = [f"{name}{sign}{_item(name, each, depth)}" for name, each in items]
    return brackets[0] + ", ".join(shown) + brackets[1]


def _attributes(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """Return an object's attributes by name; none for arrays and for most objects of the standard library."""
    kind = type(value)
    if issubclass(kind, tuple) and isinstance(names := getattr(kind, "_fields", None), tuple):
        return list(zip(map(str, names), tuple.__iter__(value), strict=False))
    package = str(kind.__module__).partition(".")[0]
    if package in _ARRAYS or (package in sys.stdlib_module_names and kind.__name__ not in _NAMESPACES):
        return []
    return sorted(((name, each) for name, each in vars_of(value).items() if type(name) is str), key=itemgetter(0))


def _item(name: str, value: Any, depth: int) -> str:  # noqa: ANN401
    if _SECRET.search(name) and not isinstance(value, int | float | None):
        return _kind(value)
    return plain(value) or _list(value) or _structure(value, depth - 1) or _kind(value)


def _kind(value: Any) -> str:  # noqa: ANN401
    kind = type(value)
    if str(kind.__module__).partition(".")[0] in _ARRAYS:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple):
            return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}[{len(value)}]" if kind in {list, tuple, dict, set, frozenset, str, bytes} else name


def attribute_of(value: Any, name: str, default: Any = None) -> Any:  # noqa: ANN401
    """Return an attribute of an object; the default if it has none, or if its own code raises any error."""
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001  the value's own code
        return default


def vars_of(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a copy of an object's ``__dict__``, without running code of its class."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own.copy() if isinstance(own, dict) else {}


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return a short text for each part that differs: ``theta 2.0 → 3.0``, ``helper `rate` changed``.

    They are sorted by kind: changed functions, arguments, other values, environment variables, the rest. A function
    that only calls a changed one does not differ.
    """
    return [text for _, text in labelled_changes(old, new)]


def labelled_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the texts of `changes`, each as a pair with the label of its part before it."""
    differing = [each for each in sorted({*old, *new}) if _digest(old.get(each)) != _digest(new.get(each))]
    found = [(_change(label, old.get(label), new.get(label)), label) for label in differing]
    return [(label, text) for (_, text), label in sorted(found)]


def _digest(text: str | None) -> str | None:
    """Return what decides whether two descriptions are of the same value: the digest, if there is one."""
    found = _DIGEST.search(text) if text else None
    return found[1] if found else text


def _change(label: str, old: str | None, new: str | None) -> tuple[int, str]:
    kind, _, name = label.partition(" ")
    rank = {"argument": 0, "global": 1, "closure": 1, "default": 1, "attribute": 1, "environment": 2}.get(kind, 3)
    if kind in {"function", "helper", "class", "namespace", "ran"}:
        what = f"{kind} `{name}`" if name else kind
        rank = -1 if kind in {"function", "helper"} and old and new else rank  # before what its code reaches
        return rank, what + (" changed" if old and new else " is new" if new else " is gone")
    shown = name if kind in {"argument", "distribution"} and name else label
    if old is None or new is None:
        return rank, f"{shown} {new} is new" if old is None else f"{shown} {old} is gone"
    gone, come = (_STRUCTURE.fullmatch(text) for text in (old, new))
    apart = _differences(*(found["inner"] if found else "" for found in (gone, come)))
    if any(apart):
        return rank, f"{shown} {', '.join(apart[0]) or 'nothing'} → {', '.join(apart[1]) or 'nothing'}"
    told = [_DIGEST.sub("", each) for each in (old, new)]
    if kind == "distribution" and told[0] == told[1]:
        return rank, f"{shown} {told[0]}: its files changed"
    if kind in {"file", "directory"} and told[0] == told[1]:
        return rank, f"{shown} changed"
    if all(told) and told[0] != told[1]:
        return rank, f"{shown} {told[0]} → {told[1]}"
    return rank, f"{shown} {_briefly(old)} → {_briefly(new)}"


def _briefly(text: str) -> str:
    """Return a description without the value's contents, for values whose described contents do not differ."""
    found = _STRUCTURE.fullmatch(text)
    return f"{found['kind'] or 'contents'} {found['digest']}" if found else text


def _differences(old: str, new: str, path: str = "") -> tuple[list[str], list[str]]:
    """Return the items that only the old object or container holds, and those that only the new one holds.

    Of an object that both hold under one name, only the attributes that differ are returned.
    """
    gone, come = _items(old), _items(new)
    mine, theirs = ([each for each in these if each not in those] for these, those in ((gone, come), (come, gone)))
    inner = {found["head"]: (each, found["inner"]) for each in theirs if (found := _OBJECT.fullmatch(each))}
    below: tuple[list[str], list[str]] = [], []
    for each in list(mine):
        if (found := _OBJECT.fullmatch(each)) and found["head"] in inner:
            other, holds = inner[found["head"]]
            apart = _differences(found["inner"], holds, f"{path}{found['name']}.")
            if all(apart):
                mine.remove(each)
                theirs.remove(other)
                below[0].extend(apart[0])
                below[1].extend(apart[1])
    return [*(path + each for each in mine), *below[0]], [*(path + each for each in theirs), *below[1]]


def _items(inner: str) -> list[str]:
    """Split the text that `_structure` has written between brackets into its items."""
    items, depth, quote, start = [], 0, "", 0
    for at, sign in enumerate(inner):
        if quote:
            quote = "" if sign == quote and inner[at - 1] != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "," and depth == 0:
            items.append(inner[start:at].strip())
            start = at + 1
        else:
            depth += (sign in "([{") - (sign in ")]}")
    return [*items, inner[start:].strip()] if inner else []


def some(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - _MAX_CHANGES} more" if len(changes) > _MAX_CHANGES else ""
    return f"{'; '.join(changes[:_MAX_CHANGES])}{more}"
