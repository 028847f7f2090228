"""`jcache import`: store the entries of an archive or a tar in a root."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from jcache.cli import output
from jcache.cli.commands.import_common import (
    ImportOptions,
    ImportTarget,
    PickleOption,
    ReplaceOption,
    SkipOption,
    complete_import,
    damage_of_kept_in,
    exit_code,
    reporting_interruption,
)
from jcache.cli.commands.import_tar import take_tar
from jcache.cli.options import DryRunOption, JsonOption, QuietOption, RootOption, VerboseOption
from jcache.cli.progress import Bar
from jcache.cli.reports.import_report import ImportReport
from jcache.cli.stores import store_of
from jcache.errors import InvalidValue
from jcache.shipping.archive import ArchiveReader, Head, PlainTarReader, open_archive
from jcache.shipping.archive.manifest import Manifest, adapter_of
from jcache.shipping.forecast.verdict import Hit
from jcache.shipping.importer.archive_import import (
    ImportPlan,
    Trust,
    check_signers,
    check_trust,
    execute_plan,
    plan_import,
    total_bytes,
)
from jcache.shipping.importer.outcome import ImportResult
from jcache.shipping.importer.target_root import future_root, layout_by_keys, with_layout
from jcache.store import files
from jcache.store.foreign import Adapter
from jcache.store.roots import choose_path, make_root, wants_plain
from jcache.text import command

_STDIN: Final = "-"

LinkOption = Annotated[
    bool,
    typer.Option("--link", help="Make a symbolic link from the path in the executables' keys to their directory here."),
]
LoadOption = Annotated[
    bool,
    typer.Option(
        "--check-load", help="Load the imported executables with the installed jaxlib, in a separate process."
    ),
]
RecompileOption = Annotated[
    bool,
    typer.Option("--recompile", help="Compile the programs of traces that have no executable for this machine."),
]


ArchiveArgument = Annotated[str, typer.Argument(metavar="FILE", help="The archive; '-' reads the standard input.")]
RequireSignatureOption = Annotated[
    bool, typer.Option("--require-signature", help="Refuse an unsigned archive; needs --allowed-signers.")
]
AllowedSignersOption = Annotated[
    str | None,
    typer.Option(
        "--allowed-signers",
        metavar="FILE",
        help="Refuse an archive unless one of the signers in this file has signed it; ssh-keygen(1) describes the file "
        "under ALLOWED SIGNERS.",
    ),
]
XlaOption = Annotated[
    bool, typer.Option("--xla", help="Also import XLA's own sub-caches (autotune, kernels) of a plain tar.")
]

ConfigOption = Annotated[
    bool, typer.Option("--config", help="Also take the limits that export --config has put into the archive.")
]


def signers_file(text: str | None, *, required: bool) -> Path | None:
    """Return the file that ``--allowed-signers`` names; None if the option is not given.

    Raises:
        InvalidValue: it names none, and the option or ``--require-signature`` is given.
    """
    file = Path(os.path.expanduser(text)) if text else None
    check_signers(required=required or text is not None, allowed_signers=file)
    return file


def import_(
    archive: ArchiveArgument,
    root: RootOption = None,
    dry_run: DryRunOption = False,
    replace: ReplaceOption = False,
    skip_incompatible: SkipOption = False,
    require_signature: RequireSignatureOption = False,
    allowed_signers: AllowedSignersOption = None,
    link: LinkOption = False,
    check_load: LoadOption = False,
    recompile: RecompileOption = False,
    xla: XlaOption = False,
    config: ConfigOption = False,
    allow_pickle: PickleOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Import an archive of `jcache export`, or a tar of a JAX cache directory, and tell which entries will hit here.

    Traces of `jcache.jit` hit only under the jax version that made them. If no
    imported executable fits a trace, --recompile compiles one for this jaxlib,
    CPU or GPU, and the current XLA_FLAGS, so that the first call finds it.

    Example: jcache export | ssh host jcache import -
    """
    options = ImportOptions(
        dry_run=dry_run,
        replace=replace,
        skip_incompatible=skip_incompatible,
        link=link,
        check_load=check_load,
        allow_code=allow_pickle,
        recompile=recompile,
        xla=xla,
        config=config,
        require_signature=require_signature,
        allowed_signers=signers_file(allowed_signers, required=require_signature),
    )
    report, code = _import(archive, root, options)
    if json:
        output.as_json(report.as_json())
    else:
        report.render(quiet=quiet, verbose=verbose)
    return code


def _import(archive: str, root: str | None, options: ImportOptions) -> tuple[ImportReport, int]:
    """Import an archive or a tar; return the report and the exit code."""
    path = future_root(choose_path(root, os.environ), plain=wants_plain(root, os.environ))
    name = "the standard input" if archive == _STDIN else archive
    with _opened(archive, root) as stream:
        target = ImportTarget(path, options)
        reader = open_archive(stream, name=name)
        if isinstance(reader, PlainTarReader):
            return take_tar(reader, target)
        return take_archive(reader, target, is_named=root is not None)


@contextmanager
def _opened(archive: str, root: str | None) -> Iterator[BinaryIO]:
    if archive == _STDIN:
        if sys.__stdin__ is None:
            raise InvalidValue("The standard input is closed: pipe an archive in, or name a file.")
        if sys.stdin.isatty():
            raise InvalidValue("jcache reads no archive from a terminal: pipe it in, or name a file.")
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:  # unbuffered
            yield raw
        return
    if not archive or os.path.isdir(archive):
        pipe = f"{command('export', archive)} | {command('import -', root)}"
        way = f", or import the entries of a directory with `{pipe}`" if archive else ""
        raise InvalidValue(f"'{archive}' is no archive: name a file{way}.")
    with files.refusal(f"read {archive}"):
        file = open(os.path.expanduser(archive), "rb", buffering=0)  # noqa: SIM115  closed below
    with file:
        yield file


def take_archive(reader: ArchiveReader, target: ImportTarget, *, is_named: bool) -> tuple[ImportReport, int]:
    """Import an archive into the root of a target; return the report and the exit code.

    Args:
        reader: reads the archive.
        target: root and options.
        is_named: whether the user has named the root.
    """
    root, options = target.root, target.options
    head, trust = _head(reader, options)
    adapter = adapter_of(head.manifest)
    if adapter is not None and not is_named:
        root = future_root(_directory_of(adapter), plain=False)
    target.root = root = layout_by_keys(with_layout(root, adapter), head.manifest)
    plan = plan_import(
        head.manifest,
        root,
        target.judge(head.manifest),
        trust=trust,
        replace=options.replace,
        skip_incompatible=options.skip_incompatible,
        allow_code=options.allow_code,
    )
    report = ImportReport(
        root=root,
        source=head.manifest.root or reader.name,
        dry_run=options.dry_run,
        outcomes=plan.outcomes,
        neighbours=plan.neighbours,
        bytes=plan.bytes,
        forecast=plan.forecast,
        archive_fields={"archive": _archive_json(head.manifest, trust)},
        omissions_reported=trust.signer is None,  # no signature covers the list of omitted entries
    )
    if options.dry_run:
        report.notes += _notes(plan, options)
        report.kept_damage = damage_of_kept_in(root, plan.outcomes)
        target.add_forecast(report, head.manifest)
        return report, exit_code(report)
    imported, members = ImportResult(), reader.members()
    first = list(islice(members, 1))  # the first entry may be refused, and then no root is created
    with store_of(make_root(root)) as store:
        with Bar("importing") as bar, reporting_interruption(imported):
            rest = chain(first, members)
            execute_plan(plan, rest, store, imported, omitted=lambda: reader.omitted, progress=bar.show)
        report.notes += _notes(plan, options)
        return complete_import(report, imported, store, target, head.manifest, trust)


def _directory_of(adapter: Adapter) -> Path:
    """Return the directory in which another program looks for its cache; the user must choose one of several."""
    places = list(dict.fromkeys(choose_path(place, {}) for place in adapter.places(os.environ)))
    if len(places) > 1:
        raise InvalidValue(f"{adapter.title} may be in {' or '.join(map(str, places))}: name one of them with --root.")
    return places[0]


def _head(reader: ArchiveReader, options: ImportOptions) -> tuple[Head, Trust]:
    """Return an archive's head after its signature has been checked, and the result of that check."""
    found: list[Trust] = []

    def check(manifest: bytes, signature: bytes | None) -> None:
        required, allowed = options.require_signature, options.allowed_signers
        found.append(check_trust(manifest, signature, required=required, allowed_signers=allowed))

    return reader.head(check), found[0]


def _notes(plan: ImportPlan, options: ImportOptions) -> list[str]:
    notes = []
    if plan.trust.signer is not None:
        notes.append(f"Signed by {plan.trust.signer}")
    elif plan.trust.signed:
        notes.append("Signed, but the signer was not checked: name a list of signers with --allowed-signers")
    hopeless = plan.forecast.count(Hit.CANNOT)
    if hopeless and not options.skip_incompatible:
        notes.append(f"--skip-incompatible leaves out the {hopeless:,} executables that cannot be hit here")
    if options.check_load and options.dry_run:
        notes.append("Nothing was loaded: a dry run imports nothing that --check-load could load")
    if options.recompile and options.dry_run:
        notes.append("Nothing was compiled: a dry run imports nothing that --recompile could compile")
    return notes


def _archive_json(manifest: Manifest, trust: Trust) -> dict[str, Any]:
    return {
        "jcache": manifest.jcache,
        "root": manifest.root,
        "directory": manifest.directory,
        "entries": len(manifest.items),
        "bytes": total_bytes(manifest),
        "signed": trust.signed,
        "signer": trust.signer,
    }
