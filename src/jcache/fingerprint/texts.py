"""Parts of a fingerprint in words: what a value is, and what has changed."""

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

SHORT: Final = 80
_DIGITS: Final = 24
_SECRET: Final = re.compile("auth|credential|key|passw|secret|token", re.IGNORECASE)
_BIG: Final = 10**40
_LISTS: Final[Mapping[type, tuple[str, str]]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}")}


def shortened(digest: bytes) -> str:
    """As much of a digest as tells things apart."""
    return digest.hex()[:_DIGITS]


def describe(value: Any, digest: bytes, label: str = "") -> str:  # noqa: ANN401
    """A value in words, different ones for different values; of what its label says is secret a digest alone."""
    if label and not isinstance(value, int | float | None) and _SECRET.search(label):
        return f"{_kind(value)} {shortened(digest)}"
    return plain(value) or _list(value) or f"{_kind(value)} {shortened(digest)}"


def plain(value: Any) -> str | None:  # noqa: ANN401
    """A short scalar as Python writes it; None for anything else."""
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


def _kind(value: Any) -> str:  # noqa: ANN401
    kind = type(value)
    if str(kind.__module__).partition(".")[0] in {"numpy", "jaxlib", "jax"}:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple):
            return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}[{len(value)}]" if kind in {list, tuple, dict, set, frozenset, str, bytes} else name


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What is not the same in the parts of two fingerprints.

    Args:
        old: parts of one.
        new: parts of the other.

    Returns:
        One short text for each: ``theta 2.0 → 3.0``, ``helper `rate` changed``, ``numpy 2.2.0 → 2.3.1``. What
        changed by itself comes first; code that only leads to it is not mentioned beside it.
    """
    found = [_change(label, old.get(label), new.get(label)) for label in _differing(old, new)]
    return [text for _, text in sorted(found)]


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[str]:
    return (label for label in sorted({*old, *new}) if old.get(label) != new.get(label))


def _change(label: str, old: str | None, new: str | None) -> tuple[int, str]:
    kind, _, name = label.partition(" ")
    rank = {"argument": 0, "global": 1, "closure": 1, "default": 1, "attribute": 1, "environment": 2}.get(kind, 3)
    if kind in {"function", "helper", "class", "namespace", "ran"}:
        what = f"{kind} `{name}`" if name else kind
        return rank, what + (" changed" if old and new else " is new" if new else " is gone")
    shown = name if kind in {"argument", "distribution"} and name else label
    if old is None or new is None:
        return rank, f"{shown} {new} is new" if old is None else f"{shown} {old} is gone"
    return rank, f"{shown} {old} → {new}"
