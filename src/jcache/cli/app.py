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
from jcache.cli.exit_codes import exit_code

P = ParamSpec("P")

_PANELS: Final = {
    "Look": ("info", "stats", "ls", "show", "du", "explain"),
    "Keep": ("prune", "clear", "rm", "config", "pin", "unpin", "verify", "quarantine"),
    "Ship": ("export", "import", "push", "pull", "sync"),
    "Run": ("run", "warm", "env", "dir", "completion"),
}
_PANEL_OF: Final = {name: panel for panel, names in _PANELS.items() for name in names}
_MODULES: Final = {"unpin": "pin", "import": "import_", "dir": "env"}  # of the others, a module has the command's name
COMMANDS: Final = {name: f"jcache.cli.commands.{_MODULES.get(name, name)}" for name in _PANEL_OF}
_OF_COMMANDS: Final = frozenset({"--root", "--json", "--kind", "--filter", "--quiet", "-q", "--verbose", "-v"})
_FUNCTIONS: Final = {"dir": "dir_", "import": "import_"}  # `dir` is a builtin and `import` a keyword
_CONTEXTS: Final[dict[str, dict[str, Any]]] = {
    # every word after the program's name belongs to the program, even if jcache has an option of that name
    "run": {"allow_interspersed_args": False},
    "warm": {"allow_interspersed_args": False},
}
_HELP: Final = {"help_option_names": ["-h", "--help"]}


_USAGE_ERROR: Final[Any] = typer.BadParameter.__base__  # Click's UsageError: Typer vendors Click and does not export it


class _NoConversion:
    """Converter of a parameter that returns its text unchanged. jcache parses all values itself, as in `jcache.units`.

    Typer 0.29 converts with pydantic, and importing pydantic takes longer than all of `jcache info`. Earlier versions
    of Typer do not read the attribute that holds this converter.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  Typer's signature
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _prepared(parameters: list[Any]) -> list[Any]:
    """Return parameters whose texts are not converted, and whose Python types the help does not show."""
    for parameter in parameters:
        parameter._runtime_param = _NoConversion()
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
    return parameters


def _explain_option(error: Any, ctx: Any, parameters: list[Any]) -> None:  # noqa: ANN401  Click's UsageError
    """Add to a usage error its command, and to one about an unknown option which option may have been meant."""
    error.ctx = error.ctx or ctx
    if getattr(error, "possibilities", ...) is not ...:
        from jcache.cli.synonyms import suggested_option

        known = [name for parameter in parameters for name in parameter.opts if name.startswith("--")]
        name = error.option_name
        near = suggested_option(name, known)
        of_commands = ctx.parent is None and name in _OF_COMMANDS
        behind = " before the command; write it after the command."
        error.message = f"No such option '{name}'{behind if of_commands else near or '.'}"
        error.possibilities = None


class _OwnParameters:
    """Parameters and errors about options, as both `Command` and `LazyCommands` treat them."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  Typer's context, or Click's before 0.26
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        return _prepared(parameters)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        try:
            left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except _USAGE_ERROR as error:
            _explain_option(error, ctx, self.get_params(ctx))
            raise
        return left


class Command(_OwnParameters, TyperCommand):
    """Command whose parameters keep their text, without conversion."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return the parts of the usage line; declarations of arguments have their brackets and dots already."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(each.metavar for each in arguments)]


class LazyCommands(_OwnParameters, TyperGroup):
    """Group of all commands; a command's module is imported when the command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from jcache.cli.synonyms import suggested_command

            ctx.fail(f"No such command '{args[0]}'{suggested_command(args[0], COMMANDS) or '.'}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        if cmd_name not in COMMANDS:
            return None
        function = getattr(importlib.import_module(COMMANDS[cmd_name]), _FUNCTIONS.get(cmd_name, cmd_name))
        single = typer.Typer(add_completion=False)
        settings = _HELP | _CONTEXTS.get(cmd_name, {})
        panel = _PANEL_OF[cmd_name]
        text = _help_text(function)
        add = single.command(cmd_name, cls=Command, context_settings=settings, rich_help_panel=panel, help=text)
        add(_guarded(function))
        return typer.main.get_command(single)


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


def _help_text(function: Callable[..., Any]) -> str:
    """Return the docstring of a command with each paragraph in one line, which Typer wraps to the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n")).strip()


def _guarded(function: Callable[P, int | None]) -> Callable[P, None]:
    """Wrap a command so that it prints errors as sentences and exits with its result as exit code."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(exit_code(lambda: function(*args, **kwargs)))

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
        path = _command_path(error)
        output.error(
            f"{error.format_message()} `{path} --help` lists {'the options' if ' ' in path else 'all commands'}."
        )
        return 2
    except OSError as error:
        output.abandon(sys.stdout)
        return 0 if isinstance(error, BrokenPipeError) else 1
    return code if isinstance(code, int) else 0


def _command_path(error: Any) -> str:  # noqa: ANN401
    return error.ctx.command_path if error.ctx else "jcache"
