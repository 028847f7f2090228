"""The usual forms of `jcache run`, read without Typer: its import takes longer than all else that `jcache run` does."""

from collections.abc import Sequence
from typing import NamedTuple


class PlainRun(NamedTuple):
    """What a command line of a usual form asks for.

    Attributes:
        command: the program and its arguments.
        root: value of ``--root``.
        quiet: whether ``--quiet`` is given.
    """

    command: list[str]
    root: str | None
    quiet: bool


def plain_run(words: Sequence[str]) -> PlainRun | None:
    """Return what ``run [--root DIR] [--quiet] [--] CMD...`` asks for; None for any other command line.

    Args:
        words: the words after the program's name.
    """
    if words[:1] != ["run"]:
        return None
    root, quiet, at = None, False, 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] == "--root" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            root, at = words[at + 1], at + 2
        elif words[at] in {"-q", "--quiet"}:
            quiet, at = True, at + 1
        else:
            return None
    command = list(words[at + 1 if words[at : at + 1] == ["--"] else at :])
    return PlainRun(command, root, quiet) if command else None


def run_plainly(words: Sequence[str]) -> int | None:
    """Run a command line of a usual form and return its exit code; None for any other command line."""
    if (asked := plain_run(words)) is None:
        return None
    from jcache.cli.exit_codes import exit_code
    from jcache.cli.recorded_run import run
    from jcache.cli.run_remote import asked_store

    def work() -> int:
        store = asked_store()
        return run(
            asked.command, root=asked.root, asked=store, report=None, json=False, quiet=asked.quiet, verbose=False
        )

    return exit_code(work)
