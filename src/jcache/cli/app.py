"""The table of commands, and how a failure becomes one sentence and an exit code.

    0 done · 1 failed, or findings · 2 usage · 3 partly done · 10 no cache there · 11 locked · 12 untrusted ·
    130 interrupted; `jcache run` and `warm` pass on their program's exit code, 126 and 127 if that cannot be started

A command's module is imported when the command is called: start-up is most of what `jcache info` takes.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, Final, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup

from jcache import __version__
from jcache.cli import INTERRUPTED
from jcache.errors import JcacheError
from jcache.text import shown

P = ParamSpec("P")

COMMANDS: Final = {
    "info": "jcache.cli.commands.info",
    "stats": "jcache.cli.commands.stats",
    "ls": "jcache.cli.commands.ls",
    "show": "jcache.cli.commands.show",
    "du": "jcache.cli.commands.du",
    "prune": "jcache.cli.commands.prune",
    "clear": "jcache.cli.commands.clear",
    "pin": "jcache.cli.commands.pin",
    "unpin": "jcache.cli.commands.pin",
    "verify": "jcache.cli.commands.verify",
    "quarantine": "jcache.cli.commands.quarantine",
    "export": "jcache.cli.commands.export",
    "import": "jcache.cli.commands.import_",
    "run": "jcache.cli.commands.run",
    "warm": "jcache.cli.commands.warm",
    "env": "jcache.cli.commands.env",
    "dir": "jcache.cli.commands.env",
    "completion": "jcache.cli.commands.completion",
}
_FUNCTIONS: Final = {"dir": "dir_", "import": "import_"}  # names that would hide a builtin, or are none
_CONTEXTS: Final[dict[str, dict[str, Any]]] = {
    # what follows the program's name is the program's, even if it looks like an option of ours
    "run": {"allow_interspersed_args": False},
    "warm": {"allow_interspersed_args": False},
}


_HELP: Final = {"help_option_names": ["-h", "--help"]}


class _AsGiven:
    """Takes a parameter's text as it is. Every parameter of ours is text or a flag and is read by `jcache.units` & co.

    Typer 0.29 converts with pydantic, whose import takes longer than the whole of `jcache info`; Typer before it has
    no such attribute and does not look at ours.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  Typer's signature
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _without_conversion(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        parameter._runtime_param = _AsGiven()
    return parameters


class Command(TyperCommand):
    """A command whose parameters are taken as given."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  Typer's context, or Click's before 0.26
        return _without_conversion(super().get_params(ctx))


class Commands(TyperGroup):
    """The commands, each imported when it is asked for."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401
        return _without_conversion(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        if cmd_name not in COMMANDS:
            return None
        function = getattr(importlib.import_module(COMMANDS[cmd_name]), _FUNCTIONS.get(cmd_name, cmd_name))
        one = typer.Typer(add_completion=False)
        one.command(cmd_name, cls=Command, context_settings=_HELP | _CONTEXTS.get(cmd_name, {}))(_guarded(function))
        return typer.main.get_command(one)


_USAGE_ERROR: Final[Any] = typer.BadParameter.__base__  # Click's UsageError, which Typer vendors and does not export

app = typer.Typer(cls=Commands, add_completion=False, context_settings=_HELP, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jcache {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Example: jcache info")
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """See, bound, check and ship the on-disk caches of JAX programs."""
    if ctx.invoked_subcommand is None:
        ctx.get_help()  # with Rich, that prints it
        raise typer.Exit(2)


def _guarded(function: Callable[P, int | None]) -> Callable[P, None]:
    """The command, with its errors printed as sentences and its result as exit code."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        from jcache.cli import output

        try:
            code = function(*args, **kwargs)
            sys.stdout.flush()
        except JcacheError as error:
            output.error(shown(str(error)))
            code = error.exit_code
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BrokenPipeError:  # the reader, `head` perhaps, has enough
            output.abandon(sys.stdout)
            code = 0
        except OSError as error:
            output.error(f"Cannot use {error.filename or 'the standard output'}: {error.strerror or error}.")
            output.abandon(sys.stdout)
            code = 1
        raise typer.Exit(code or 0)

    return guarded


def run(arguments: Sequence[str]) -> int:
    """Runs a command line.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code.
    """
    from jcache.cli import output

    try:
        code = app(list(arguments), prog_name="jcache", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        output.error(f"{error.format_message()} `{_path(error)} --help` tells what there is.")
        return 2
    except OSError as error:
        output.abandon(sys.stdout)
        return 0 if isinstance(error, BrokenPipeError) else 1
    return code if isinstance(code, int) else 0


def _path(error: Any) -> str:  # noqa: ANN401
    return error.ctx.command_path if error.ctx else "jcache"
