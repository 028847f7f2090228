"""`jcache run`: run a program with the cache on, and report how JAX used it."""

from typing import Annotated

import typer

from jcache.cli import recorded_run
from jcache.cli.options import QuietOption, RootOption
from jcache.cli.run_remote import asked_store


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD...", help="The program and its arguments.")
    ] = None,
    root: RootOption = None,
    remote: Annotated[
        str | None,
        typer.Option(
            "--remote",
            metavar="URL",
            help="Ask this store for executables that the root lacks; by default $JCACHE_REMOTE, '' for none.",
        ),
    ] = None,
    require_signature: Annotated[
        bool,
        typer.Option(
            "--require-signature", help="Use only entries of that store that an allowed signer has pushed with --sign."
        ),
    ] = False,
    allowed_signers: Annotated[
        str | None,
        typer.Option(
            "--allowed-signers",
            metavar="FILE",
            help="The file of allowed signers, as for pull; by default $JCACHE_REMOTE_SIGNERS.",
        ),
    ] = None,
    report: Annotated[str | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report on stderr as JSON.")] = False,
    quiet: QuietOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Report every executable, trace and graph.")] = False,
) -> int:
    """Run a program with the cache on, and report on stderr how JAX used it. The exit code is the program's.

    Example: jcache run -- python train.py --steps 10
    """
    asked = asked_store(remote, require_signature=require_signature, allowed_signers=allowed_signers)
    return recorded_run.run(
        command or [], root=root, asked=asked, report=report, json=json, quiet=quiet, verbose=verbose
    )
