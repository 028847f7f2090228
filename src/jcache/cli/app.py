"""Table of commands, and the conversion of an error into one sentence and an exit code.

    0 done · 1 failed, or findings · 2 usage · 3 partly done · 10 no cache there · 11 locked · 12 untrusted ·
    130 interrupted; `jcache run` and `warm` return their program's exit code, or 126 or 127 if it cannot be started

A command's module is imported when the command is called, because start-up takes most of the time of `jcache info`.
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
    "config": "jcache.cli.commands.config",
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
_FUNCTIONS: Final = {"dir": "dir_", "import": "import_"}  # `dir` is a builtin and `import` a keyword
_CONTEXTS: Final[dict[str, dict[str, Any]]] = {
    # every word after the program's name belongs to the program, even if jcache has an option of that name
    "run": {"allow_interspersed_args": False},
    "warm": {"allow_interspersed_args": False},
}
_HELP: Final = {"help_option_names": ["-h", "--help"]}


class _NoConversion:
    """Converter of a parameter that returns its text unchanged. jcache parses all values itself, as in `jcache.units`.

    Typer 0.29 converts with pydantic, and importing pydantic takes longer than all of `jcache info`. Earlier versions
    of Typer do not read the attribute that holds this converter.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  Typer's signature
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _without_conversion(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        parameter._runtime_param = _NoConversion()
    return parameters


class Command(TyperCommand):
    """Command whose parameters keep their text, without conversion."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  Typer's context, or Click's before 0.26
        return _without_conversion(super().get_params(ctx))


class LazyCommands(TyperGroup):
    """Group of all commands; a command's module is imported when the command is called."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401
        return _without_conversion(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        if cmd_name not in COMMANDS:
            return None
        function = getattr(importlib.import_module(COMMANDS[cmd_name]), _FUNCTIONS.get(cmd_name, cmd_name))
        single = typer.Typer(add_completion=False)
        single.command(cmd_name, cls=Command, context_settings=_HELP | _CONTEXTS.get(cmd_name, {}))(_guarded(function))
        return typer.main.get_command(single)


_USAGE_ERROR: Final[Any] = typer.BadParameter.__base__  # Click's UsageError: Typer vendors Click and does not export it

app = typer.Typer(cls=LazyCommands, add_completion=False, context_settings=_HELP, pretty_exceptions_enable=False)


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
        ctx.get_help()  # prints the help if Rich is installed
        raise typer.Exit(2)


def _guarded(function: Callable[P, int | None]) -> Callable[P, None]:
    """Wrap a command so that it prints errors as sentences and exits with its result as exit code."""

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
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
            output.abandon(sys.stdout)
            code = 0
        except OSError as error:
            output.error(f"Cannot use {error.filename or 'the standard output'}: {error.strerror or error}.")
            output.abandon(sys.stdout)
            code = 1
        raise typer.Exit(code or 0)

    return guarded


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    Args:
        arguments: words after the program's name.
    """
    from jcache.cli import output

    try:
        code = app(list(arguments), prog_name="jcache", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        output.error(f"{error.format_message()} `{_command_path(error)} --help` lists the options.")
        return 2
    except OSError as error:
        output.abandon(sys.stdout)
        return 0 if isinstance(error, BrokenPipeError) else 1
    return code if isinstance(code, int) else 0


def _command_path(error: Any) -> str:  # noqa: ANN401
    return error.ctx.command_path if error.ctx else "jcache"
