"""The side effects of this process's stored and served calls, which other calls may use.

A function that counts its calls, or writes a log, is stored, since its own code does not use the count. Where another
function uses it, the first one must be traced each time. If it was served before that is known, it is traced then, for
its side effects alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from jcache.fingerprint.describe import some
from jcache.fingerprint.side_effects import SideEffects
from jcache.fingerprint.snapshot import ValueSnapshot

LABEL: Final = "side effects"  # the key part with their names


class _Noted(NamedTuple):
    effects: SideEffects
    refuse: Callable[[str], None]
    make_up: Callable[[], object] | None


_noted: Final[list[_Noted]] = []


def note(effects: SideEffects, refuse: Callable[[str], None], make_up: Callable[[], object] | None = None) -> None:
    """Note the side effects of a call.

    Args:
        effects: their names.
        refuse: has the call not served any more; it takes the reason.
        make_up: makes the side effects of a call that was served; None for a call that had them.
    """
    if any(effects):
        _noted.append(_Noted(effects, refuse, make_up))


def settle(code: ValueSnapshot) -> bool:
    """Refuse the calls whose side effects a function uses, and make up for those that were missed.

    Args:
        code: the snapshot of a walk over the function.

    Returns:
        Whether side effects were made up for, after which the function may have another key.
    """
    made_up = False
    for each in [*_noted]:
        if used := each.effects.used_by(code, elsewhere=True):
            _noted.remove(each)
            each.refuse(f"another function uses what it changes: {some(used)}")
            with suppress(Exception):  # the program's code
                if each.make_up is not None:
                    each.make_up()
                    made_up = True
    return made_up
