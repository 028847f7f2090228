"""Values that tell two recorded programs apart."""

from __future__ import annotations

from typing import NamedTuple

from jcache.explain.modules import Pairs
from jcache.runs.record import ProcessRecord, ProgramRecord, RunRecord
from jcache.vocabulary import CauseKind


class Seen(NamedTuple):
    """A program that a process of a run requested."""

    run: RunRecord
    process: ProcessRecord
    program: ProgramRecord


class Change(NamedTuple):
    """A difference between two programs.

    Attributes:
        item: the cause.
        name: the name of what changed, such as ``--xla_dump``, ``batch`` or ``jax_enable_x64``; empty if it has none.
        current, baseline: the values.
        pairs: sizes or dtypes that changed, of the baseline and of the current one.
        more: how many other arguments changed as well.
        note: the reason in this case, a text; empty for the reason of the vocabulary.
    """

    item: CauseKind
    name: str
    current: str
    baseline: str
    pairs: Pairs = frozenset()
    more: int = 0
    note: str = ""
