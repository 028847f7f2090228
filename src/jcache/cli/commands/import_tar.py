"""Import of a tar that does not begin with a manifest."""

from jcache.cli import output
from jcache.cli.commands.import_common import (
    ImportOptions,
    ImportTarget,
    complete_import,
    damage_of_kept,
    exit_code,
    reporting_interruption,
)
from jcache.cli.progress import Bar
from jcache.cli.reports.import_report import ImportReport
from jcache.cli.reports.removal_report import PARTLY
from jcache.cli.stores import store_of
from jcache.errors import BadArchive, Untrusted
from jcache.layout import Root
from jcache.shipping.archive import PlainTarReader
from jcache.shipping.archive.plain_tar import quote_name
from jcache.shipping.importer.archive_import import UNSIGNED
from jcache.shipping.importer.outcome import WRITTEN
from jcache.shipping.importer.tar_import import TarImportOptions, TarImportResult, import_tar
from jcache.shipping.importer.target_root import layout_by_first_entry
from jcache.store.foreign import adapters, entry_at
from jcache.store.roots import make_root


def take_tar(reader: PlainTarReader, target: ImportTarget) -> tuple[ImportReport, int]:
    """Import a tar, or on a dry run only plan it; return the report and the exit code.

    Raises:
        Untrusted: a signature is required, which a tar without a manifest does not have.
        BadArchive: the tar has no entry of a cache.
    """
    options = target.options
    if options.require_signature or options.allowed_signers is not None:
        raise Untrusted(
            f"{reader.name} has no manifest, so it has no signature: nothing was imported; ask for an archive that was "
            "exported with --sign."
        )
    result = TarImportResult()
    target.root, members = layout_by_first_entry(reader.members(), target.root)
    root = target.root

    def begin() -> None:
        make_root(root)

    with store_of(root) as store:
        with Bar("importing"), reporting_interruption(result.imported, dry_run=target.options.dry_run):
            import_tar(members, store, target.judge, _tar_options(options), result, begin=begin)
        _check_found(reader.name, result, root)
        manifest, outcomes = result.manifest(), result.imported.outcomes
        report = ImportReport(
            root=root,
            source=reader.name,
            dry_run=options.dry_run,
            outcomes=outcomes,
            neighbours=result.imported.neighbours,
            bytes=sum(item.bytes for item in result.items if outcomes.get((item.kind, item.key)) in WRITTEN),
            refused=result.imported.refused,
            forecast=target.judge(manifest),
            passed_over=result.passed_over,
            names=result.names,
        )
        if result.repacked:
            report.notes.append(_repacked_sentence(result))
        if options.dry_run:
            report.kept_damage = damage_of_kept(store, report.outcomes)
            target.add_forecast(report, manifest)
            code = exit_code(report)
        else:
            report, code = complete_import(report, result.imported, store, target, manifest, UNSIGNED)
        return report, code or (PARTLY if result.repacked else 0)


def _tar_options(options: ImportOptions) -> TarImportOptions:
    return TarImportOptions(
        replace=options.replace,
        skip_incompatible=options.skip_incompatible,
        xla=options.xla,
        dry_run=options.dry_run,
        allow_code=options.allow_code,
    )


def _check_found(name: str, result: TarImportResult, root: Root) -> None:
    """Raise BadArchive if a tar has no entry of a cache."""
    if result.imported.outcomes or result.imported.neighbours:
        return
    if result.repacked:
        raise BadArchive(f"Refused {name}: none of its entries can be imported. {_repacked_sentence(result)}")
    held = output.count(result.passed_over, "file", "files")
    names = ", ".join(map(quote_name, result.names[:3])) + (" …" if result.passed_over > 3 else "")
    whose = root.adapter.title if root.adapter else "a JAX cache"
    what = f"it holds {held}, but no entry of {whose}: {names}" if names else "it holds no file"
    raise BadArchive(f"Refused {name}: {what}{_clause_on_program(result)}.")


def _clause_on_program(result: TarImportResult) -> str:
    """Return a clause that names the program whose cache the tar holds, or an empty text if that is unknown."""
    for adapter in adapters():
        if any(entry_at(adapter, path) for path in result.names):
            return f"; they are of {adapter.title}: name its directory with --root"
    return ""


def _repacked_sentence(result: TarImportResult) -> str:
    trust = "its signature was not checked, and " if result.signed else ""
    return (
        f"It is an archive of jcache that was packed again: {trust}pins, times of use and build seconds were not "
        "imported. Import the original archive."
    )
