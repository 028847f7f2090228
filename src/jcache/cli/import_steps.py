"""What `jcache import` and `jcache merge` share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from jcache.archive.manifest import Manifest
from jcache.cli import INTERRUPTED, output
from jcache.cli.import_report import Report
from jcache.cli.removal_report import PARTLY
from jcache.errors import JcacheError
from jcache.layout import Kind, Root
from jcache.shipping.fates import WRITTEN, Fate, Imported
from jcache.shipping.guards import Forecast, judge
from jcache.shipping.here import Here, here
from jcache.shipping.linking import link as make_link

ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Take the place of entries that are there under the same key and differ.")
]
SkipOption = Annotated[
    bool, typer.Option("--skip-incompatible", help="Leave out executables that nothing here can hit.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for, beside the archive and the root."""

    dry_run: bool = False
    replace: bool = False
    skip_incompatible: bool = False
    link: bool = False
    transcode: bool = False
    check_load: bool = False
    xla: bool = False
    require_signature: bool = False
    allowed_signers: Path | None = None


@dataclass(slots=True)
class Outlook:
    """What is to be expected of an archive's executables, for what was asked."""

    root: Root
    options: Options
    here: Here = field(default_factory=lambda: here(os.environ))

    def judge(self, manifest: Manifest, linked: tuple[str, ...] = (), *, transcoded: bool = False) -> Forecast:
        directory = self.root.directory(Kind.EXECUTABLES)
        return judge(manifest, self.here, directory, os.environ, linked=linked, transcoded=transcoded)

    def plain(self, manifest: Manifest) -> Forecast:
        """As things are."""
        return self.judge(manifest)

    def after(self, manifest: Manifest, forecast: Forecast) -> Forecast:
        """As things will be once it is done."""
        linked = tuple(forecast.linkable) if self.options.link else ()
        return self.judge(manifest, linked, transcoded=self.options.transcode)

    def link(self, forecast: Forecast) -> list[str]:
        """Makes the links that were asked for, and says which."""
        directory = self.root.directory(Kind.EXECUTABLES)
        paths = list(forecast.linkable) if self.options.link else []
        return [f"Linked {path} to {directory}" for path in paths if make_link(path, directory)]


@contextmanager
def told(imported: Imported, doing: str = "import") -> Iterator[None]:
    """Says of an import that ends early how far it has come."""
    try:
        yield
    except (JcacheError, KeyboardInterrupt) as error:
        number = imported.count(*WRITTEN)
        if number or isinstance(error, KeyboardInterrupt):
            stored = output.count(number, "entry is", "entries are")
            output.message(f"{stored} stored by now, and whole; the same {doing} once more brings the rest.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise


def exit_code(report: Report) -> int:
    """0 if all that was wanted is there, 3 if some of it, 1 if nothing."""
    if report.complete:
        return 0
    return PARTLY if report.of(*WRITTEN, Fate.PRESENT) or not report.refused else 1
