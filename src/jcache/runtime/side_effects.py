"""The side effects of this process's stored and served calls, which other calls may use.

A function that counts its calls, or writes a log, is stored, since its own code does not use the count. Where another
function uses it, the first one must be traced each time. If it was served before that is known, it is traced then, for
its side effects alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from jcache.errors import GraphKeyError
from jcache.fingerprint import fingerprint
from jcache.fingerprint.call import name_of
from jcache.fingerprint.describe import some
from jcache.fingerprint.side_effects import Changed
from jcache.fingerprint.snapshot import ValueSnapshot

REASON: Final = "another function uses what it changes"
LABEL: Final = "side effects"  # the key part with their names


class _Noted(NamedTuple):
    changed: Changed
    refuse: Callable[[str], None]
    make_up: Callable[[], object] | None


_MOST: Final = 256  # calls, for each keeps its function in use
_noted: Final[deque[_Noted]] = deque(maxlen=_MOST)


def note(changed: Changed, refuse: Callable[[str], None], make_up: Callable[[], object] | None = None) -> None:
    """Note the side effects of a call.

    Args:
        changed: the values that it changes.
        refuse: has the call not served any more; it takes the reason.
        make_up: makes the side effects of a call that was served; None for a call that had them.
    """
    if any(changed):
        _noted.append(_Noted(changed, refuse, make_up))


def settle(code: ValueSnapshot) -> bool:
    """Refuse the calls whose side effects a function uses, and make up for those that were missed.

    Args:
        code: the snapshot of a walk over the function.

    Returns:
        Whether side effects were made up for, after which the function may have another key.
    """
    used = [(each, code.named(each.changed).used_by(code, elsewhere=True)) for each in [*_noted]]
    return _settle([(each, some(texts)) for each, texts in used if texts])


def settle_for(function: Callable[..., object]) -> None:
    """Settle the side effects that a function may use which JAX traces without a look-up; all if it has no key."""
    if _noted:
        try:
            settle(fingerprint(function, for_trace=True).snapshot)
        except GraphKeyError:
            _settle([(each, f"`{name_of(function)}`, which has no key, may use it") for each in [*_noted]])


def _settle(due: Iterable[tuple[_Noted, str]]) -> bool:
    made_up = False
    for each, why in due:
        with suppress(ValueError):  # another thread was faster
            _noted.remove(each)
            each.refuse(f"{REASON}: {why}")
            made_up |= each.make_up is not None
            with suppress(Exception):  # of the program's code
                _ = each.make_up and each.make_up()
    return made_up
