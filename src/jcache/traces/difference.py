"""The difference between a stored trace and the trace that it is compared with, in a few words."""

from __future__ import annotations

import json
from itertools import repeat, zip_longest
from typing import Any, Final

from jcache.fingerprint.restored import without_states
from jcache.jax_internals import stablehlo
from jcache.jax_internals.avals import Result
from jcache.jax_internals.module_text import text_of
from jcache.traces.format import Trace

_WIDTH: Final = 100  # characters of a text that are shown
_MOST_CALLS: Final = 10  # whose times are added up
_BEFORE: Final = 30  # characters that are shown before the first one that differs


def difference(then: Trace, now: Trace, *, seconds: float = 0) -> str | None:
    """Return the first difference between two traces in words; None if there is none.

    Args:
        then: the stored trace.
        now: the new one.
        seconds: how long tracing took, if it asks for nothing that differs between processes but the time; else 0.
            Then the numbers of seconds that it has measured may be others.
    """
    if then.structure != now.structure:
        return _pair("the structure of its result was", _shown(then.structure), _shown(now.structure))
    if then.objects != now.objects:
        return _pair("objects in its result were", _shown(then.objects), _shown(now.objects))
    if then.results != now.results:
        return _of_results(then.results, now.results)
    if then.kept != now.kept:
        return f"it used its arguments {_numbers(then.kept)} and uses {_numbers(now.kept)}"
    if (then.callbacks, then.effects) != (now.callbacks, now.effects):
        return _pair("what it calls back on the host was", *map(_shown, (then.callbacks, now.callbacks)))
    if then.settings != now.settings and not _differ_in_seconds(then.settings, now.settings, seconds):
        if without_states(then.settings) == without_states(now.settings):
            return "it left a random generator in another state"
        return _pair("what it sets was", _shown(then.settings), _shown(now.settings))
    new = sorted(set(now.targets) - set(then.targets))
    return f"it calls {', '.join(new)}" if new else None


def _differ_in_seconds(then: Any, now: Any, seconds: float) -> bool:  # noqa: ANN401 - JSON
    """Return whether settings differ in no more than times that something took within a few calls of some seconds."""
    if type(then) is not type(now):
        return False
    if isinstance(now, list):
        return len(then) == len(now) and all(map(_differ_in_seconds, then, now, repeat(seconds)))
    if isinstance(now, dict):
        return then.keys() == now.keys() and all(
            _differ_in_seconds(then[name], each, seconds) for name, each in now.items()
        )
    return then == now or (type(now) is float and then >= 0 and 0 <= now <= _MOST_CALLS * seconds)


def difference_of_programs(then: bytes | None, now: bytes) -> str:
    """Return the first line in which the texts of two programs differ, in words.

    Args:
        then: the stored program as a portable artifact; None if there is none.
        now: the new program as a portable artifact.
    """
    if then is None:
        return "its StableHLO differs"
    try:
        stored = _lines(then)
    except Exception:  # noqa: BLE001 - jaxlib has no one type of error for an artifact of a later version
        return "its stored StableHLO cannot be read by this jaxlib"
    for number, (before, after) in enumerate(zip_longest(stored, _lines(now), fillvalue=""), 1):
        if before != after:
            return _pair(f"line {number} of its StableHLO was", before, after)
    return "its StableHLO differs"


def _lines(artifact: bytes) -> list[str]:
    return [line.strip() for line in text_of(stablehlo.module_of(artifact)).splitlines()]


def _of_results(then: tuple[Result, ...], now: tuple[Result, ...]) -> str:
    if len(then) != len(now):
        return f"it returned {len(then)} arrays and returns {len(now)}"
    number = next(i for i, (before, after) in enumerate(zip(then, now, strict=True)) if before != after)
    return _pair(f"the array {number} of its result was", _type(then[number]), _type(now[number]))


def _type(result: Result) -> str:
    place = "" if result.place is None else f" on {tuple(result.place.axes)} by {result.place.spec}"
    return f"{result.dtype}[{','.join(map(str, result.shape))}]{' weak' if result.is_weak else ''}{place}"


def _numbers(kept: tuple[int, ...]) -> str:
    return ", ".join(map(str, kept)) or "none"


def _shown(structure: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(structure, ensure_ascii=False)


def _pair(what: str, then: str, now: str) -> str:
    """Return both texts, cut around the first character in which they differ, as a sentence that begins with `what`."""
    at = next((i for i, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), min(len(then), len(now)))
    start = max(0, at - _BEFORE) if max(len(then), len(now)) > _WIDTH else 0
    before, after = (_cut(text, start) for text in (then, now))
    return f"{what} `{before}` and is `{after}`"


def _cut(text: str, start: int) -> str:
    shown = "".join(c if c.isprintable() else "�" for c in text[start : start + _WIDTH])
    return f"{'…' if start else ''}{shown}{'…' if len(text) > start + _WIDTH else ''}"
