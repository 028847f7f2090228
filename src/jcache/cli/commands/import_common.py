"""Steps of `jcache import` that archives and plain tars share."""

import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jcache.cli import INTERRUPTED, output
from jcache.cli.progress import progress
from jcache.cli.reports.import_report import ImportReport, size_limit_notes
from jcache.cli.reports.removal_report import PARTLY
from jcache.cli.stores import store_of
from jcache.configuration.files import change_root
from jcache.configuration.settings import to_write
from jcache.errors import BadArchive, CannotWrite, JcacheError, Truncated, Untrusted
from jcache.findings import Damage
from jcache.jax_internals.child import NoJax
from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest import Manifest
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine, this_machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import jax_spelling
from jcache.shipping.importer.archive_import import Trust
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportOutcome, ImportResult
from jcache.shipping.importer.path_link import make_link, needs_link
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.text import shown
from jcache.traces.recompile import Recompiling, recompile
from jcache.verify.checks import Claim, check
from jcache.verify.load_check import check_loading

_MAX_KEYS_LOOKED_UP: Final = 100

ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Replace existing entries that have the same key and differ.")
]
SkipOption = Annotated[
    bool, typer.Option("--skip-incompatible", help="Leave out executables that no program here can hit.")
]


PickleOption = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Also import pickles of another program's cache if they name only what such a cache needs; reading a "
        "pickle runs its code.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of `jcache import`, without the archive and the root."""

    dry_run: bool = False
    replace: bool = False
    skip_incompatible: bool = False
    link: bool = False
    check_load: bool = False
    allow_code: bool = False
    recompile: bool = False
    xla: bool = False
    config: bool = False
    require_signature: bool = False
    allowed_signers: Path | None = None


@dataclass(slots=True)
class ImportTarget:
    """Root and options of an import, and the machine on which the executables will be hit or not."""

    root: Root
    options: ImportOptions
    machine: Machine = field(default_factory=lambda: this_machine(os.environ))

    @property
    def directory(self) -> Path:
        """Directory of the root's executables."""
        return self.root.directory(Kind.EXECUTABLES)

    def judge(self, manifest: Manifest) -> Forecast:
        """Return the forecast for the root after the import, including links that ``--link`` will make."""
        forecast = self._judge(manifest)
        if not self.options.link:
            return forecast
        linked = [path for path in forecast.other_directories if _refusal(path, self.directory) is None]
        return self._judge(manifest, linked) if linked else forecast

    def _judge(self, manifest: Manifest, linked: Collection[str] = ()) -> Forecast:
        return judge(manifest, self.machine, self.directory, os.environ, linked=linked)

    def add_forecast(self, report: ImportReport, manifest: Manifest) -> Manifest:
        """Make the links of ``--link``, and put the forecast for the imported entries in the report.

        Args:
            report: report of the import; it gets the forecast and its notes.
            manifest: manifest of the whole archive.

        Returns:
            The manifest of the entries that are in the root, or, on a dry run, would be.
        """
        there = _manifest_of(manifest, report.with_outcome(*WRITTEN, ImportOutcome.PRESENT))
        if self.options.link:
            self._link(report, self._judge(there))
        report.forecast = self.judge(there) if report.dry_run else self._judge(there)
        left_out = self.judge(_manifest_of(manifest, report.with_outcome(ImportOutcome.INCOMPATIBLE)))
        report.notes += [f"Left out: {sentence}" for sentence in left_out.reason_sentences]
        return there

    def _link(self, report: ImportReport, forecast: Forecast) -> None:
        """Make the links; for each that cannot be made, add a note that gives the reason."""
        here = shown(str(self.directory))
        for path in forecast.other_directories:
            refused = _refusal(path, self.directory, make=not report.dry_run)
            if refused is None:
                report.notes.append(f"{'Would link' if report.dry_run else 'Linked'} {shown(path)} to {here}")
            else:
                report.notes.append(refused)
                report.step_failed = True
        if not forecast.other_directories:
            there = {way.directory for way in forecast.conditions} - {None, jax_spelling(self.directory)}
            report.notes += [f"{shown(path)} already leads to {here}" for path in sorted(map(str, there))]
            if not there:
                report.notes.append("No link was made: no executable here misses only because of its path")


def _manifest_of(manifest: Manifest, names: Iterable[EntryId]) -> Manifest:
    wanted = set(names)
    items = tuple(item for item in manifest.items if (item.kind, item.key) in wanted)
    return dataclasses.replace(manifest, items=items)


def _refusal(path: str, directory: Path, *, make: bool = False) -> str | None:
    """Return why a link at a path to the directory cannot be made; None if it can be, or was made on request."""
    try:
        (make_link if make else needs_link)(path, directory)
    except CannotWrite as error:
        return str(error)
    return None


@contextmanager
def reporting_interruption(imported: ImportResult, *, dry_run: bool = False) -> Iterator[None]:
    """Print, when an import ends early, how many entries it has stored; a dry run stores none and prints nothing."""
    try:
        yield
    except (JcacheError, KeyboardInterrupt) as error:
        number = imported.count(*WRITTEN)
        if not dry_run and (number or isinstance(error, KeyboardInterrupt)):
            stored = output.count(number, "entry is", "entries are")
            output.message(f"{stored} stored so far, completely{_resume_advice(error)}.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise


def _resume_advice(error: BaseException) -> str:
    """Return how to import the rest, or an empty text if the archive itself is bad."""
    if isinstance(error, Truncated):
        return "; the same import of the complete archive adds the rest"
    if isinstance(error, CannotWrite):
        return "; the same import adds the rest once the following is fixed"
    return "" if isinstance(error, BadArchive) else "; the same import again adds the rest"


def damage_of_kept(store: Store, outcomes: Mapping[EntryId, ImportOutcome]) -> dict[EntryId, Damage]:
    """Return the damage that `jcache verify` would find in existing entries that differ from the archive's.

    Args:
        store: store of the root.
        outcomes: outcome of each entry of the import; only `ImportOutcome.DIFFERENT` is examined.
    """
    copied_ns = store.queue.attempt(store.ledger.copied_ns)
    damaged = {}
    for kind in Kind:
        keys = [key for of, key in outcomes if of is kind and outcomes[of, key] is ImportOutcome.DIFFERENT]
        known = (
            store.queue.attempt(partial(store.ledger.known, kind, keys if len(keys) < _MAX_KEYS_LOOKED_UP else None))
            or {}
        )
        for key in keys:
            mine = known.get(key) or Known(kind, key)
            claim = Claim(
                kind, key, digest=mine.digest, digest_ns=mine.digest_ns or 0, copied_ns=copied_ns,
                adapter=store.root.adapter,
            )  # fmt: skip
            if (finding := check(store.root.directory(kind), claim).finding) is not None:
                damaged[kind, key] = finding.damage
    return damaged


def damage_of_kept_in(root: Root, outcomes: Mapping[EntryId, ImportOutcome]) -> dict[EntryId, Damage]:
    """Return the same as `damage_of_kept` for a root that may not exist."""
    if ImportOutcome.DIFFERENT not in outcomes.values():
        return {}
    with store_of(root) as store:
        return damage_of_kept(store, outcomes)


def _take_settings(store: Store, manifest: Manifest, options: ImportOptions) -> list[str]:
    """Store the settings of an archive in the root if that is asked for; return a sentence on them if it has any."""
    told = ", ".join(f"{name} {text}" for name, text in manifest.settings)
    if not told:
        return ["The archive has no limits: it was exported without --config"] if options.config else []
    if not options.config:
        return [f"The archive has limits, which --config takes: {told}"]
    path = change_root(store.root, {name: to_write(name, [text]) for name, text in manifest.settings})
    return [f"Stored in {path}: {told}"]


def complete_import(
    report: ImportReport, imported: ImportResult, store: Store, target: ImportTarget, manifest: Manifest, trust: Trust
) -> tuple[ImportReport, int]:
    """Finish an import with links, loading and recompiling; return the complete report and the exit code.

    Args:
        report: report of the import, without its result.
        imported: result of the import.
        store: store of the root.
        target: root and options.
        manifest: manifest of the archive.
        trust: result of the signature's check.
    """
    report.outcomes, report.neighbours = imported.outcomes, imported.neighbours
    report.bytes, report.refused = imported.bytes, imported.refused
    report.kept_damage = damage_of_kept(store, report.outcomes)
    provenance.save_imported(store, target.add_forecast(report, manifest))
    if target.options.check_load:
        try:
            report.loads = _check_loading(store, imported)
        except NoJax as error:
            report.notes.append(f"Nothing was loaded: {error}")
            report.step_failed = True
    if target.options.recompile:
        try:
            keys = [key for kind, key in imported.with_outcome(*WRITTEN, ImportOutcome.PRESENT) if kind is Kind.TRACES]
            report.recompiled = recompile(store, keys, lambda some: progress(some, "compiling"))
            report.step_failed |= bool(report.recompiled.count(Recompiling.FAILED))
        except NoJax as error:
            report.notes.append(f"Nothing was compiled: {error}")
            report.step_failed = True
    report.notes += _take_settings(store, manifest, target.options)
    report.notes += size_limit_notes(store)
    if lost := count_lost_pins(store, manifest, imported):
        pins = output.count(lost, "pin", "pins")
        report.notes.append(f"{pins} could not be written: the same import again adds them")
        report.step_failed = True
    if imported.refused and trust.signed:
        number = output.count(len(imported.refused), "entry differs", "entries differ")
        whose = "the manifest's signer" if trust.signer is None else trust.signer
        output.error(
            f"{number} from the archive that {whose} signed, and nothing of them was stored: get the archive again."
        )
        return report, Untrusted.exit_code
    if report.loads is not None and report.loads.findings:
        return report, 1
    return report, exit_code(report)


def count_lost_pins(store: Store, manifest: Manifest, imported: ImportResult) -> int:
    """Return how many imported entries were pinned in their root of origin and could not be pinned here."""
    there = set(imported.with_outcome(*WRITTEN, ImportOutcome.PRESENT))
    wanted = {(item.kind, item.key) for item in manifest.items if item.pinned} & there
    if not wanted:
        return 0
    store.queue.flush()
    return len(wanted - (store.queue.attempt(store.pins.known) or set()))


def _check_loading(store: Store, imported: ImportResult) -> Any:  # noqa: ANN401
    """Load the executables that were imported, or were present and equal, in a process that may crash."""
    there = imported.with_outcome(*WRITTEN, ImportOutcome.PRESENT)
    claims = [Claim(kind, key) for kind, key in there if kind is Kind.EXECUTABLES]
    return check_loading(store, claims, lambda some: progress(some, "loading"))


def exit_code(report: ImportReport) -> int:
    """Return 0 if all entries are in the root, 3 if some are, 1 if none is."""
    if report.complete:
        return 0
    return PARTLY if report.with_outcome(*WRITTEN, ImportOutcome.PRESENT) or not report.refused else 1
