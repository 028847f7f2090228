"""Compare the arguments of two recorded calls: static values, structure, types, shardings, donation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from jcache.explain.change import Change
from jcache.explain.modules import Pairs, mask_addresses, size_pairs
from jcache.runs.record import Argument, ProgramRecord
from jcache.vocabulary import CauseKind

_TYPE: Final = re.compile(r"([^\[\]{}]+)\[([^\]]*)\](.*)")
_WEAK: Final = re.compile(r"\{?weak_type=True\}?")
_WORD: Final = re.compile(r"(?:b?[Ff]loat|[Uu]?[Ii]nt|[Cc]omplex)\d+|\d+")
_TOKEN: Final = re.compile(r"[\w.]+|[^\w.]+")
_LONG_CHARS: Final = 60  # of a value that is shown as a whole
_WORDS_BEFORE: Final = 4
_DTYPES: Final = (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"))
_MAX_NAMES: Final = 3


def static_changes(ours: ProgramRecord, theirs: ProgramRecord) -> Iterator[Change]:
    changed = [
        name
        for name in sorted({*ours.static, *theirs.static})
        if mask_addresses(ours.static.get(name, "")) != mask_addresses(theirs.static.get(name, ""))
    ]
    for name in changed[:1]:
        new, old = ours.static.get(name, ""), theirs.static.get(name, "")
        yield Change(CauseKind.STATIC, name, *_differing_parts(new, old), _pairs_in(old, new), more=len(changed) - 1)


def _differing_parts(new: str, old: str) -> tuple[str, str]:
    """Return two values, or of long ones the part that differs, with an ellipsis for what is left out."""
    if max(len(new), len(old)) <= _LONG_CHARS:
        return new, old
    words = [_TOKEN.findall(text) for text in (new, old)]
    first_word = next((n for n, (a, b) in enumerate(zip(*words, strict=False)) if a != b), min(map(len, words)))
    start = max(0, first_word - _WORDS_BEFORE)
    rest = [some[start:] for some in words]
    pairs = zip(*(some[::-1] for some in rest), strict=False)
    end = next((n for n, (a, b) in enumerate(pairs) if a != b), min(map(len, rest)))
    first, second = (f"{'…' if start else ''}{''.join(some[: len(some) - end])}{'…' if end else ''}" for some in rest)
    return first, second


def _pairs_in(old: str, new: str) -> Pairs:
    """Return the numbers and dtypes that differ in two texts which are equal otherwise, such as ``(64, 8)``."""
    if _WORD.split(old) != _WORD.split(new):
        return frozenset()
    pairs = zip(_WORD.findall(old), _WORD.findall(new), strict=True)
    return frozenset((_short(a), _short(b)) for a, b in pairs if a != b)


def _short(word: str) -> str:
    """Return a number as it is, and a dtype as JAX writes it in types: ``f32`` for ``Float32DType``."""
    return next((f"{short}{word[len(name) :]}" for name, short in _DTYPES if word.lower().startswith(name)), word)


def argument_changes(ours: ProgramRecord, theirs: ProgramRecord) -> Iterator[Change]:
    if len(ours.arguments) != len(theirs.arguments):
        yield _structure(ours.arguments, theirs.arguments)
        return
    found: dict[CauseKind, list[Change]] = {}
    for new, old in zip(ours.arguments, theirs.arguments, strict=True):
        for change in _argument(new, old):
            found.setdefault(change.item, []).append(change)
    for alike in found.values():
        pairs = frozenset(pair for change in alike for pair in change.pairs)
        yield alike[0]._replace(pairs=pairs, more=len(alike) - 1)


def _structure(ours: tuple[Argument, ...], theirs: tuple[Argument, ...]) -> Change:
    """Return the change of the number of arguments, with those that only one side has."""
    names, others = [one.name for one in ours], [one.name for one in theirs]
    new, old = (sorted({*a} - {*b})[:_MAX_NAMES] for a, b in ((names, others), (others, names)))
    counted = (f"{len(ours)} arrays", f"{len(theirs)} arrays")
    shown = (" ".join(new), " ".join(old))
    return Change(CauseKind.STRUCTURE, "", *(shown if any(shown) else counted))


def _argument(new: Argument, old: Argument) -> Iterator[Change]:
    name = new.name or old.name
    ours, theirs = _split_type(new.type), _split_type(old.type)
    if ours is None or theirs is None:
        if new.type != old.type:
            yield Change(CauseKind.DTYPE, name, new.type, old.type, frozenset({(old.type, new.type)}))
    else:
        types = _WEAK.sub("", new.type), _WEAK.sub("", old.type)
        if ours.dtype != theirs.dtype or ours.rest != theirs.rest:
            yield Change(CauseKind.DTYPE, name, *types, frozenset({(theirs.dtype, ours.dtype)}))
        if ours.sizes != theirs.sizes:
            yield Change(CauseKind.SHAPE, name, *types, size_pairs(theirs.sizes, ours.sizes))
        if ours.is_weak != theirs.is_weak:
            yield Change(CauseKind.WEAK_TYPE, name, _weakness(ours), _weakness(theirs))
    if new.sharding != old.sharding:
        yield Change(CauseKind.SHARDING, name, new.sharding or "none", old.sharding or "none")
    if new.donated != old.donated:
        yield Change(CauseKind.DONATION, name, _donation(new), _donation(old))


def _donation(argument: Argument) -> str:
    return "donated" if argument.donated else "not donated"


class _Type(NamedTuple):
    dtype: str
    sizes: tuple[str, ...]
    is_weak: bool
    rest: str


def _split_type(text: str) -> _Type | None:
    match = _TYPE.fullmatch(text)
    if match is None:
        return None
    sizes = tuple(size.strip() for size in match[2].split(",")) if match[2] else ()
    return _Type(match[1], sizes, bool(_WEAK.search(match[3])), _WEAK.sub("", match[3]))


def _weakness(one: _Type) -> str:
    return f"{one.dtype}[{','.join(one.sizes)}]{', weakly typed' if one.is_weak else ''}"
