"""`jcache export`: write entries as an archive that `jcache import` reads."""

import json as jsonlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, cast

import typer

from jcache.admin.fields import FIELDS
from jcache.admin.filters import Filter, parse_filter
from jcache.admin.selection import Selection
from jcache.cli import output
from jcache.cli.commands.ls import FilterOption
from jcache.cli.options import (
    KEYS_HELP,
    JsonOption,
    KindsOption,
    QuietOption,
    RootOption,
    VerboseOption,
    complete_keys,
    kinds_of,
    open_store,
)
from jcache.cli.progress import Bar
from jcache.cli.reports.export_report import render, summarize, tell_left_out, tell_notes
from jcache.errors import InvalidValue
from jcache.layout import FileKind, Kind, Root, is_key, member
from jcache.shipping.exporter.export import prepare_export, write_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.exporter.sink import DescriptorSink, FileSink, Sink
from jcache.store import files, foreign, pending_file
from jcache.units import parse_age
from jcache.verify import signatures

_PARTLY: Final = 3
_LONGEST_LINE: Final = 1024
_STDOUT: Final = "-"


KeysArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY]...",
        help=f"Only these entries. {KEYS_HELP}",
        autocompletion=complete_keys,
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file, which appears once it is complete; '-' is stdout.",
    ),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="ID", help="Only entries that this recorded run stored or hit; 'last' is the last one."
    ),
]
UsedSinceOption = Annotated[
    str | None, typer.Option("--used-since", metavar="AGE", help="Only entries used within this time, such as 7d.")
]
ExcludeFromOption = Annotated[
    str | None,
    typer.Option("--exclude-from", metavar="FILE", help="Leave out the keys in this file, one per line; '-' is stdin."),
]
XlaOption = Annotated[bool, typer.Option("--xla", help="Also export XLA's own sub-caches (autotune, kernels).")]
SolidOption = Annotated[
    bool,
    typer.Option("--solid", help="Compress all entries together: the archive is smaller, and export is slower."),
]
ConfigOption = Annotated[
    bool, typer.Option("--config", help="Also export the limits that the cache directory stores: see jcache config.")
]
SignOption = Annotated[
    str | None,
    typer.Option("--sign", metavar="KEY", help="Sign with this OpenSSH key; needs ssh-keygen."),
]


def export(
    keys: KeysArgument = None,
    to: OutputOption = _STDOUT,
    root: RootOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    run: RunOption = None,
    used_since: UsedSinceOption = None,
    exclude_from: ExcludeFromOption = None,
    xla: XlaOption = False,
    solid: SolidOption = False,
    config: ConfigOption = False,
    sign: SignOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Write entries as an archive, a zstd-compressed tar, for `jcache import`. Damaged entries are left out.

    Example: jcache export | ssh host jcache import -
    """
    to = _destination(to)
    request = ExportRequest(
        selection=Selection(kinds=kinds_of(kind), filters=tuple(_filters(filter, used_since))),
        keys=tuple(keys or ()),
        run=run,
        exclude=frozenset() if exclude_from is None else frozenset(_read_keys(exclude_from)),
        xla=xla,
        solid=solid,
        config=config,
    )
    signer = None if sign is None else signer_of(Path(os.path.expanduser(sign)))
    with open_store(root) as store:
        target = None if to == _STDOUT else _checked_target(to, store.root)
        with Bar("checking") as bar:
            prepared = prepare_export(store, request, bar.show)
        if not quiet:
            tell_notes(store, prepared)
        with _sink(target) as sink, Bar("exporting") as bar:
            exported = write_archive(prepared, cast(BinaryIO, sink), sign=signer, progress=bar.show)
        summary = summarize(store.root, target, prepared, exported, sink.written, signed=sign is not None)
        tell_left_out(store, prepared, exported, verbose=verbose)
        _print_summary(summary, json=json, quiet=quiet, verbose=verbose)
    return _PARTLY if prepared.findings or prepared.being_written or exported.omitted else 0


def _destination(to: str) -> str:
    """Return a destination, with ``-`` for every name of standard output, to which an archive must be writable."""
    if to != _STDOUT and not _is_stdout(to):
        return to
    _check_stdout()
    return _STDOUT


def _print_summary(summary: dict[str, Any], *, json: bool, quiet: bool, verbose: bool) -> None:
    """Print the result: JSON on stdout, or on stderr if stdout is the archive, or text."""
    if json and summary["output"] is not None:
        output.as_json(summary)
    elif json:
        output.message(jsonlib.dumps({"schema_version": output.SCHEMA_VERSION} | summary), whole=True)
    elif not quiet:
        render(summary, verbose=verbose)


# -- options


def _filters(texts: list[str] | None, used_since: str | None) -> Iterator[Filter]:
    for text in texts or ():
        yield parse_filter(text)
    if used_since is not None:
        yield Filter(FIELDS["used"], "<=", parse_age(used_since))


def _read_keys(source: str) -> Iterator[str]:
    """Yield the keys of a list in the form of `jcache ls -q` or `ls`; skip blank lines and sidecars.

    Raises:
        InvalidValue: the list cannot be read, or a line is not a key.
    """
    try:
        file = sys.stdin.buffer if source == _STDOUT else open(os.path.expanduser(source), "rb")  # noqa: SIM115
        with file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                text = line.decode("utf-8-sig", "surrogateescape").strip().rpartition("/")[2]
                what, key = member(text)
                if is_key(text) or what is FileKind.ENTRY or foreign.is_key(text):
                    yield key or text
                elif text and what not in (FileKind.SIDECAR, FileKind.LEGACY, FileKind.OURS):
                    raise InvalidValue(
                        f"Line {number} of {_named(source)} is no key: '{text[:80]}'; give keys one a line, as "
                        "ls -q prints them."
                    )
    except OSError as error:
        raise InvalidValue(f"Cannot read keys from {_named(source)}: {error.strerror or error}.") from None


def _named(source: str) -> str:
    return "the standard input" if source == _STDOUT else source


def signer_of(path: Path) -> Callable[[bytes], bytes]:
    """Return a function that signs manifests. The key is tried now, not after an hour of reading."""
    signatures.check_key(path)
    return lambda data: signatures.sign(data, path)


def _is_stdout(to: str) -> bool:
    """Return whether a path, such as /dev/stdout, is the file that the standard output goes to."""
    with suppress(OSError, ValueError):
        return sys.__stdout__ is not None and os.path.samestat(os.stat(to), os.fstat(1))
    return False


def _check_stdout() -> None:
    """Raise InvalidValue if stdout is closed or a terminal."""
    if sys.__stdout__ is None:
        raise InvalidValue("The standard output is closed: pipe the archive somewhere, or write it with `-o FILE`.")
    _check_terminal(sys.stdout.fileno())


def _check_terminal(descriptor: int) -> None:
    if os.isatty(descriptor):
        raise InvalidValue(
            "jcache writes no archive to a terminal: write it to a file with `-o FILE`, or pipe it into "
            "`ssh host jcache import -`."
        )


def _checked_target(to: str, root: Root) -> Path:
    """Return the path of the archive: links are followed, except to a pipe or device, which is not replaced.

    Raises:
        InvalidValue: the path is a directory, its directory does not exist, or it lies among the root's own files.
    """
    if not to:
        raise InvalidValue("-o is empty: name a file, or '-' for the standard output.")
    named = Path(os.path.expanduser(to))
    path = Path(os.path.realpath(named))
    if path.is_dir():
        raise InvalidValue(f"{to} is a directory: name a file in it.")
    if not path.parent.is_dir():
        raise InvalidValue(f"{path.parent} is not a directory: make it first, or write {path.name} elsewhere.")
    for directory in (root.state, *map(root.directory, Kind)):
        if path.is_relative_to(os.path.realpath(directory)):
            raise InvalidValue(f"{to} is among the cache's own files in {directory}: write the archive elsewhere.")
    return named if named.exists() and not named.is_file() else path


# -- the stream


@contextmanager
def _sink(target: Path | None) -> Iterator[Sink]:
    """Open the sink of an archive: a file that appears once it is complete, or stdout, a pipe or a device."""
    if target is None:
        yield DescriptorSink(sys.stdout.fileno(), "the standard output")
    elif target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with files.refusal(f"write to {target}"):
            descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            _check_terminal(descriptor)
            yield DescriptorSink(descriptor, str(target))
        finally:
            os.close(descriptor)
    else:
        with files.refusal(f"write to {target.parent}"):
            directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with files.refusal(f"write to {target.parent}"):
                file = pending_file.PendingFile(directory)
            try:
                yield FileSink(file, str(target))
                with files.refusal(f"write {target}"):
                    file.take_mode_of(target.name)
                    file.publish(target.name, replace=True)
            finally:
                file.discard()
        finally:
            os.close(directory)
