"""`jcache import`: entries from a stream into a root."""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from jcache import files
from jcache.archive import Head, PlainReader, Reader, open_archive
from jcache.archive.manifest import Manifest
from jcache.checks import Claim
from jcache.cli import output
from jcache.cli.import_report import Report, over_the_cap
from jcache.cli.import_steps import Options, Outlook, ReplaceOption, SkipOption, exit_code, told
from jcache.cli.options import DryRunOption, JsonOption, QuietOption, RootOption, VerboseOption, store_of
from jcache.errors import InvalidValue, Untrusted
from jcache.layout import Kind, Root
from jcache.loads import load_sound
from jcache.roots import choose_path, create_root, wants_plain
from jcache.shipping.fates import WRITTEN, Imported
from jcache.shipping.importing import (
    UNSIGNED,
    ImportPlan,
    Trust,
    check_trust,
    future_root,
    plan_import,
    receive,
    total_bytes,
)
from jcache.shipping.plain_import import PlainImport, Wishes, receive_plain
from jcache.store import Store

_STDIN: Final = "-"
_SET_PIPE_SIZE: Final = 1031  # F_SETPIPE_SZ of Linux
_PIPE_BYTES: Final = 1 << 20

LinkOption = Annotated[
    bool, typer.Option("--link", help="Make the path that executables are keyed for a link to where they go.")
]
LoadOption = Annotated[
    bool, typer.Option("--check-load", help="Open what came with the jaxlib here, in a process that may crash.")
]


def import_(
    archive: Annotated[str, typer.Argument(metavar="FILE", help="The archive; '-' reads the standard input.")],
    root: RootOption = None,
    dry_run: DryRunOption = False,
    replace: ReplaceOption = False,
    skip_incompatible: SkipOption = False,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="Take nothing that no allowed signer has signed.")
    ] = False,
    allowed_signers: Annotated[
        str | None,
        typer.Option("--allowed-signers", metavar="FILE", help="Who may sign, as of ssh-keygen(1) ALLOWED SIGNERS."),
    ] = None,
    link: LinkOption = False,
    transcode: Annotated[
        bool, typer.Option("--transcode", help="Give executables the codec that JAX reads here, where it reads one.")
    ] = False,
    check_load: LoadOption = False,
    xla: Annotated[
        bool, typer.Option("--xla", help="Of a plain tar: XLA's own sub-caches (autotune, kernels) as well.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Take an archive of `jcache export`, or a tar of a JAX cache directory, into a root, and tell what will hit here.

    Example: jcache export | ssh host jcache import -
    """
    options = Options(
        dry_run=dry_run,
        replace=replace,
        skip_incompatible=skip_incompatible,
        link=link,
        transcode=transcode,
        check_load=check_load,
        xla=xla,
        require_signature=require_signature,
        allowed_signers=None if allowed_signers is None else Path(os.path.expanduser(allowed_signers)),
    )
    if require_signature and allowed_signers is None:
        raise InvalidValue("--require-signature needs to know whose: name a file by --allowed-signers.")
    target = future_root(choose_path(root, os.environ), plain=wants_plain(root, os.environ))
    name = "the standard input" if archive == _STDIN else archive
    with _opened(archive) as stream:
        reader = open_archive(stream, name=name)
        if isinstance(reader, PlainReader):
            report, code = _take_plain(reader, target, options)
        else:
            report, code = _take(reader, target, options)
    if json:
        output.as_json(report.as_json())
    else:
        report.render(quiet=quiet, verbose=verbose)
    return code


@contextmanager
def _opened(archive: str) -> Iterator[BinaryIO]:
    if archive == _STDIN:
        if sys.stdin.isatty():
            raise InvalidValue(
                "An archive does not come from a terminal: pipe it in, as in `jcache export | jcache import -`, or "
                "name a file."
            )
        with suppress(OSError):  # a larger pipe, fewer switches between the two ends
            fcntl.fcntl(sys.stdin, _SET_PIPE_SIZE, _PIPE_BYTES)
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:  # what is there, at once
            yield raw
        return
    if not archive or os.path.isdir(archive):
        raise InvalidValue(f"'{archive}' is no archive: name a file, or `jcache merge` a directory.")
    with files.refusal(f"read {archive}"):
        file = open(os.path.expanduser(archive), "rb", buffering=0)  # noqa: SIM115  closed below
    with file:
        yield file


def _take(reader: Reader, root: Root, options: Options) -> tuple[Report, int]:
    head, trust = _head(reader, options)
    outlook = Outlook(root, options)
    forecast = outlook.plain(head.manifest)
    plan = plan_import(
        head.manifest,
        root,
        forecast,
        trust=trust,
        replace=options.replace,
        skip_incompatible=options.skip_incompatible,
        transcode=outlook.here.compression(outlook.here.jax or outlook.here.jaxlib or "0").codec
        if options.transcode
        else None,
    )
    report = Report(
        root=root,
        source=head.manifest.root or reader.name,
        dry_run=options.dry_run,
        fates=plan.fates,
        neighbours=plan.neighbours,
        bytes=plan.bytes,
        forecast=outlook.after(head.manifest, forecast),
        notes=_notes(plan, options),
        more={"archive": _described(head.manifest, trust)},
        is_told=trust.signer is None,  # nobody has signed what is omitted
    )
    if options.dry_run:
        return report, 0
    imported = Imported()
    with store_of(create_root(root.path, plain=root.plain)) as store:
        report.notes += outlook.link(forecast)
        with output.Bar("importing") as bar, told(imported):
            receive(plan, reader.members(), store, imported, omitted=lambda: reader.omitted, progress=bar.show)
        return _finished(report, imported, store, options, trust)


def _head(reader: Reader, options: Options) -> tuple[Head, Trust]:
    """What stands first, after the signature has been checked."""
    found: list[Trust] = []

    def check(manifest: bytes, signature: bytes | None) -> None:
        required, allowed = options.require_signature, options.allowed_signers
        trust = check_trust(manifest, signature, required=required, allowed_signers=allowed, now_ns=time.time_ns())
        found.append(trust)

    return reader.head(check), found[0]


def _take_plain(reader: PlainReader, root: Root, options: Options) -> tuple[Report, int]:
    if options.require_signature:
        raise Untrusted(f"{reader.name} is a tar without a manifest, which nobody can sign: nothing of it was taken.")
    outlook, result = Outlook(root, options), PlainImport()
    wishes = Wishes(
        replace=options.replace,
        skip_incompatible=options.skip_incompatible,
        xla=options.xla,
        dry_run=options.dry_run,
    )
    members = reader.members()
    first = list(islice(members, 1))  # before there is a root: it may be no tar at all
    if not options.dry_run:
        root = create_root(root.path, plain=root.plain)
    with store_of(root) as store:
        with output.Bar("importing"), told(result.imported):
            receive_plain(chain(first, members), store, outlook.plain, wishes, result)
        manifest = result.manifest()
        forecast = outlook.plain(manifest)
        report = Report(
            root=root,
            source=reader.name,
            dry_run=options.dry_run,
            fates=result.imported.fates,
            neighbours=result.imported.neighbours,
            bytes=sum(item.bytes for item in result.items if result.imported.fates[item.kind, item.key] in WRITTEN),
            refused=result.imported.refused,
            forecast=outlook.after(manifest, forecast),
            passed_over=result.passed_over,
            names=result.names,
        )
        if options.transcode and forecast.transcodable:
            report.notes.append("A plain tar is not transcoded: make an archive of it by an import and an export.")
        if options.dry_run:
            return report, 0
        report.notes += outlook.link(forecast)
        return _finished(report, result.imported, store, options, UNSIGNED)


def _finished(report: Report, imported: Imported, store: Store, options: Options, trust: Trust) -> tuple[Report, int]:
    report.fates, report.neighbours = imported.fates, imported.neighbours
    report.bytes, report.refused = imported.bytes, imported.refused
    if options.check_load:
        report.loads = loads_of(store, imported)
    report.notes += over_the_cap(store)
    if imported.refused and trust.signer is not None:
        return report, Untrusted.exit_code
    if report.loads is not None and report.loads.findings:
        return report, 1
    return report, exit_code(report)


def loads_of(store: Store, imported: Imported) -> Any:  # noqa: ANN401
    """Opens the executables that were imported, in a process that may crash."""
    claims = [Claim(kind, key) for kind, key in imported.of(*WRITTEN) if kind is Kind.EXECUTABLES]
    return load_sound(store, claims, lambda some: output.progress(some, "loading"))


def _notes(plan: ImportPlan, options: Options) -> list[str]:
    notes = []
    if plan.trust.signer is not None:
        notes.append(f"Signed by {plan.trust.signer}")
    elif plan.trust.signed:
        notes.append("Signed, by whom was not checked: name who may sign by --allowed-signers")
    elif options.allowed_signers is not None:
        notes.append("Not signed: --require-signature refuses such archives")
    hopeless = sum(verdict.incompatible for verdict in plan.forecast.verdicts.values())
    if hopeless and not options.skip_incompatible:
        which = output.count(hopeless, "executable", "executables")
        notes.append(f"{which} can never be hit here: --skip-incompatible leaves them out")
    return notes


def _described(manifest: Manifest, trust: Trust) -> dict[str, Any]:
    return {
        "jcache": manifest.jcache,
        "root": manifest.root,
        "directory": manifest.directory,
        "entries": len(manifest.items),
        "bytes": total_bytes(manifest),
        "signed": trust.signed,
        "signer": trust.signer,
    }
