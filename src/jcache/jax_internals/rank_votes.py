"""Votes of the processes of a program on a stored trace: it serves a call of theirs only if all have it.

A program whose devices belong to several processes has to be the same in each of them. So before a stored trace serves
a call with arrays or shardings on such devices, its processes tell one another by `rank_agreement` what they have, in
up to three steps: the trace, the executable that they have loaded, and the StableHLO to compile if one of them has no
executable. Where one process has another trace or none, all of them trace.

Processes need not call the same functions in the same order, and a vote that nobody else casts costs time. So a process
waits for the others no longer than about as long as tracing took. Once it has waited in vain it waits a quarter of a
second until it is answered, as after a first step for which one of them was late, and after four times not at all.

The functions import nothing of JAX, so that importing this module costs nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from jcache import clock
from jcache.jax_internals import rank_agreement

TRACE, EXECUTABLE, PROGRAM = "trace", "executable", "program"
_PATIENCE_S: Final = 2.0
_MOST_PATIENCE_S: Final = 600.0
_PATIENCE_AFTER_SILENCE_S: Final = 0.25
_MOST_IN_VAIN: Final = 4
_counts: Final[dict[str, Iterator[int]]] = {}  # of votes, by call and step


class Vote:
    """The votes of the processes of a call.

    Args:
        call: what identifies the call, the same in each process.
        processes: the numbers of the processes.

    Attributes:
        processes: as given.
    """

    def __init__(self, call: str, processes: tuple[int, ...]) -> None:
        digest = hashlib.sha256(f"{call} {processes}".encode(errors="surrogatepass")).hexdigest()
        self._name = f"jcache/trace/{digest}"
        self.processes = processes

    def all_have(self, step: str, which: str | None, seconds: float = 0.0) -> bool:
        """Tell the other processes what this one has, and return whether all of them have the same.

        Args:
            step: what is voted on.
            which: what identifies the thing that this process has; None if it has none.
            seconds: what making it took: the others are waited for as long, 2 s at least and 10 minutes at most.
        """
        state: Any = sys.modules["jax._src.distributed"].global_state
        name = f"{self._name}/{step}"
        place = f"{name}/{next(_counts.setdefault(name, itertools.count()))}"
        patience = min(max(_PATIENCE_S, seconds), _MOST_PATIENCE_S)
        patience = _PATIENCE_AFTER_SILENCE_S if _Others.in_vain else patience
        has, began = which is not None and _Others.in_vain < _MOST_IN_VAIN, clock.monotonic()
        given: dict[str, Any] = {"has": has, "which": which or "", "patience_s": patience}
        all_have = rank_agreement.agree(state.client, self.processes, int(state.process_id), place, **given)
        if has:
            is_in_vain = not all_have and clock.monotonic() - began >= patience
            _Others.in_vain = _Others.in_vain + 1 if is_in_vain else 0
        return all_have

    def give_up(self) -> None:
        """Tell the other processes, which go on after the vote on the trace, that this one cannot."""
        for step in (EXECUTABLE, PROGRAM):
            self.all_have(step, None)


class _Others:
    """How often in succession this process has waited for another one in vain."""

    in_vain = 0


def may_be_needed() -> bool:
    """Return whether this process is one of several that `jax.distributed` has joined."""
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return getattr(state, "client", None) is not None


def vote_of(call: str, values: Iterable[Any]) -> Vote | None:
    """Return the votes of a call; None if its devices belong to one process.

    Args:
        call: what identifies the call, the same in each process.
        values: its arrays and the shardings that it was jitted with, among any other things.
    """
    found: set[Any] = set()
    for value in values:
        with suppress(Exception):  # values of other types may have anything under these names
            found |= set(getattr(getattr(value, "sharding", value), "device_set", ()))
    processes = rank_agreement.processes_of(found)
    return Vote(call, processes) if processes else None


def are_shared(devices: Iterable[Any]) -> bool:
    """Return whether some devices belong to several processes."""
    return len({getattr(device, "process_index", 0) for device in devices}) > 1
