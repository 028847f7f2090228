"""Report of `jcache import`, as text and as JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jcache.admin.census import take_census
from jcache.cli import output
from jcache.configuration.files import for_program
from jcache.findings import Damage
from jcache.layout import Kind, Root, short_key
from jcache.remote.address import parse_address
from jcache.shipping.archive.manifest import Item
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import Hit
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportOutcome, RefusedMember
from jcache.store.store import Store
from jcache.text import command, quoted, shown
from jcache.traces.recompile import Recompiled, Recompiling
from jcache.units import format_size
from jcache.verify.load_check import LoadCheck, LoadOutcome

_ROWS: Final = 20
_OUTCOME_TEXTS: Final = {
    ImportOutcome.NEW: "new",
    ImportOutcome.PRESENT: "present and equal",
    ImportOutcome.DIFFERENT: "present and different, kept",
    ImportOutcome.REPLACED: "replaced",
    ImportOutcome.CODE: "left out, since reading them runs code",
    ImportOutcome.INCOMPATIBLE: "left out, since nothing here can hit them",
    ImportOutcome.REFUSED: "refused",
    ImportOutcome.OMITTED: "omitted by the archive",
}
_VERBS: Final = {False: ("Imported", "Would import"), True: ("Pulled", "Would pull")}
_RECOMPILING_TEXTS: Final = {
    Recompiling.RECOMPILED: "recompiled",
    Recompiling.THERE: "there already",
    Recompiling.ELSEWHERE: "unusable here",
    Recompiling.FAILED: "failed",
}


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """Result of an import, or, on a dry run, its plan.

    Attributes:
        root: root of the import.
        source: name of the archive, or the root that it comes from.
        dry_run: whether nothing was changed.
        outcomes: outcome of each entry.
        neighbours: outcome of each file of XLA's sub-caches.
        bytes: number of bytes written.
        refused: entries and files that were refused, with the reason.
        forecast: forecast for the executables here.
        notes: further sentences of the text report.
        passed_over: number of files in a tar that are not entries.
        names: names of the first of these files.
        loads: result of ``--check-load``; None without it.
        recompiled: result of ``--recompile``; None without it.
        kept_damage: damage of existing entries that differ from the archive's and were kept.
        step_failed: whether another step, such as a link, failed.
        archive_fields: further fields of the JSON report.
        omissions_reported: whether the exporter reported the omitted entries, so that they are no failure here.
        is_pull: whether the entries come from a store behind a URL, and not from an archive.
        told: sentences of the forecast that were printed before the first entry came, and are not printed again.
    """

    root: Root
    source: str
    dry_run: bool
    outcomes: Mapping[EntryId, ImportOutcome]
    neighbours: Mapping[str, ImportOutcome]
    bytes: int
    refused: Sequence[RefusedMember] = ()
    forecast: Forecast
    notes: list[str] = field(default_factory=list)
    passed_over: int = 0
    names: Sequence[str] = ()
    loads: LoadCheck | None = None
    recompiled: Recompiled | None = None
    kept_damage: Mapping[EntryId, Damage] = field(default_factory=dict)
    step_failed: bool = False
    archive_fields: dict[str, Any] = field(default_factory=dict)
    omissions_reported: bool = False
    is_pull: bool = False
    told: Sequence[str] = ()

    def with_outcome(self, *outcomes: ImportOutcome) -> list[EntryId]:
        """Return the entries with one of these outcomes."""
        return [name for name, outcome in self.outcomes.items() if outcome in outcomes]

    def damaged(self) -> list[EntryId]:
        """Return the kept entries that are damaged; unreadable ones are not among them, since they may be sound."""
        return [name for name, damage in self.kept_damage.items() if damage is not Damage.UNREADABLE]

    @property
    def complete(self) -> bool:
        """Whether all entries of the archive are in the root; a pull also counts sound ones of another build."""
        lacking = {ImportOutcome.REFUSED, ImportOutcome.CODE}
        if not self.is_pull or self.kept_damage:
            lacking.add(ImportOutcome.DIFFERENT)
        if not self.omissions_reported:
            lacking.add(ImportOutcome.OMITTED)
        return not lacking & {*self.outcomes.values(), *self.neighbours.values()} and not (
            self.refused or self.step_failed
        )

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        counts = Counter(self.outcomes.values())
        damaged = set(self.damaged())
        return {
            "root": str(self.root.path),
            "dry_run": self.dry_run,
            **self.archive_fields,
            "entries": {outcome.value: counts[outcome] for outcome in ImportOutcome},
            "xla_files": {outcome.value: number for outcome, number in Counter(self.neighbours.values()).items()},
            "bytes": self.bytes,
            "kept": [_name(name) | {"damaged": name in damaged} for name in self.with_outcome(ImportOutcome.DIFFERENT)],
            "refused": [_refused(one) for one in self.refused],
            "omitted": [_name(name) for name in self.with_outcome(ImportOutcome.OMITTED)],
            "passed_over": self.passed_over,
            "forecast": {
                "executables": len(self.forecast.verdicts),
                **{hit.value: self.forecast.count(hit) for hit in Hit},
                "reasons": {f"{hit}: {reason}": n for (hit, reason), n in self.forecast.reasons.items()},
                "sentences": list(self.forecast.sentences),
            },
            "loads": None if self.loads is None else {str(one): self.loads.count(one) for one in LoadOutcome},
            "recompiled": None if self.recompiled is None else _recompiled(self.recompiled),
            "notes": self.notes,
        }

    def render(self, *, quiet: bool, verbose: bool) -> None:
        """Print a summary, what needs attention, and which executables will be hit."""
        output.prose(self._summary())
        if quiet:
            for sentence in () if self.complete else (*self._next_steps(), *self.notes):
                output.message(sentence)
            return
        self._list("kept", self.with_outcome(ImportOutcome.DIFFERENT), verbose=verbose)
        for one in self.refused if verbose else self.refused[:_ROWS]:
            what = one.entry.key if isinstance(one.entry, Item) else one.entry.path
            output.prose(f"  refused {what}: {one.evidence}")
        self._list("omitted", self.with_outcome(ImportOutcome.OMITTED), verbose=verbose)
        if self.passed_over:
            more = " …" if self.passed_over > len(self.names) else ""
            names = ", ".join(self.names if verbose else self.names[:3])
            output.prose(
                f"Skipped {output.count(self.passed_over, 'file', 'files')} that are no entries: {names}{more}"
            )
        forecast = (sentence for sentence in self.forecast.sentences if sentence not in self.told)
        for sentence in (*self._next_steps(), *forecast, *self.notes):
            output.prose(sentence)
        if self.loads is not None:
            texts = [f"{count:,} {one.replace('_', ' ')}" for one in LoadOutcome if (count := self.loads.count(one))]
            output.prose(f"Loaded with the jaxlib here: {', '.join(texts) or 'no executables'}")
        if self.recompiled is not None:
            self._print_recompiled(self.recompiled)

    def _print_recompiled(self, done: Recompiled) -> None:
        texts = [f"{count:,} {_RECOMPILING_TEXTS[one]}" for one in Recompiling if (count := done.count(one))]
        output.prose(f"Compiled for traces, for this machine: {', '.join(texts) or 'none'}")
        for (result, reason), number in done.reasons.most_common(_ROWS):
            output.prose(f"  {number:,} {_RECOMPILING_TEXTS[result]}: {reason}")

    def _next_steps(self) -> Iterator[str]:
        """Yield what to do about entries that were kept, refused or omitted, and where to find replaced ones."""
        kept, root = self.with_outcome(ImportOutcome.DIFFERENT), self.root.path
        damaged = self.damaged()
        if len(kept) > len(self.kept_damage):
            build = "An entry with the same key and other bytes is another build of the program"
            pull = command(f"pull {quoted(shown(self.source))} --replace", root)
            yield f"{build}: `{pull}` takes it" if self.is_pull else f"{build}: --replace imports it."
        if unread := len(self.kept_damage) - len(damaged):
            number = output.count(unread, "entry", "entries")
            why = command("verify", root)
            yield f"{number} kept here cannot be read, and may be equal: `{why}` says why"
        if damaged:
            number = output.count(len(damaged), "entry", "entries")
            yield (
                f"{number} kept here {'is' if len(damaged) == 1 else 'are'} damaged:"
                f" `{command('verify --repair', root)}` moves them to quarantine; repeat this command after it"
            )
        if left := len(self.with_outcome(ImportOutcome.CODE)):
            number = output.count(left, "entry was", "entries were")
            yield (
                f"{number} left out, since reading a pickle runs its code: --allow-pickle imports pickles that name"
                " only what such a cache needs, and the program that wrote them can make them again"
            )
        if self.refused:
            yield self._why_refused()
        if self.with_outcome(ImportOutcome.OMITTED) and not self.is_pull:
            yield "Omitted entries had changed, or were damaged, during the export: export again for the rest"
        if self.with_outcome(ImportOutcome.REPLACED) and not self.dry_run:
            yield f"Replaced entries are in quarantine: `{command('quarantine list', root)}`"

    def _why_refused(self) -> str:
        if not self.is_pull:
            return "Refused entries do not match their digests: export or copy the archive again"
        removes = f"`{command('verify --repair', shown(self.source))}` removes the damaged ones"
        way = "remove them there" if parse_address(self.source).is_web else removes
        return f"Refused entries are damaged in the store, or have no digest: {way}, and the next push stores all again"

    def _summary(self) -> str:
        written = len(self.with_outcome(*WRITTEN))
        counts = Counter(self.outcomes.values())
        texts = _OUTCOME_TEXTS | ({ImportOutcome.OMITTED: "gone from the store"} if self.is_pull else {})
        parts = [f"{counts[outcome]:,} {texts[outcome]}" for outcome in ImportOutcome if counts[outcome]]
        beside = sum(outcome in WRITTEN for outcome in self.neighbours.values())
        parts += [f"{output.count(beside, 'file', 'files')} of XLA's sub-caches"] if beside else []
        verb = _VERBS[self.is_pull][self.dry_run]
        entries = output.count(written, "entry", "entries")
        rest = f": {', '.join(parts)}" if parts else ""
        places = f"from {shown(self.source)} into {shown(str(self.root.path))}"
        return f"{verb} {entries}, {format_size(self.bytes)}, {places}{rest}"

    def _list(self, doing: str, names: Sequence[EntryId], *, verbose: bool) -> None:
        for _, key in names if verbose else names[:_ROWS]:
            output.prose(f"  {doing} {key if verbose else short_key(key)}")
        if not verbose and len(names) > _ROWS:
            output.prose(f"  … and {len(names) - _ROWS:,} more: -v shows all")


def _recompiled(done: Recompiled) -> dict[str, Any]:
    counts = {str(one): done.count(one) for one in Recompiling}
    return counts | {"reasons": {f"{result}: {reason}": n for (result, reason), n in done.reasons.most_common()}}


def _name(name: EntryId) -> dict[str, str]:
    return {"kind": name[0], "key": name[1]}


def _refused(one: RefusedMember) -> dict[str, str]:
    name = {"kind": one.entry.kind, "key": one.entry.key} if isinstance(one.entry, Item) else {"path": one.entry.path}
    return name | {"evidence": one.evidence}


def size_limit_notes(store: Store) -> Iterable[str]:
    """Yield a sentence if executables take more bytes than their limit; an import evicts nothing."""
    limit = for_program(store.root, os.environ)[0].values["max_size"]
    if limit.value is None:
        return
    for kind, counted in take_census(store, os.environ).kinds.items():
        if kind is Kind.EXECUTABLES and counted.cap is not None and counted.bytes > counted.cap:
            over, cap = format_size(counted.bytes), f"{format_size(counted.cap)} of {limit.place}"
            prune = command(f"prune --max-size {counted.cap}", store.root.path)
            yield f"The {kind} take {over} now, more than the {cap}: a bounded JAX, or `{prune}`, evicts some"
