"""`jcache completion`: the script that completes jcache's command lines in a shell."""

from typing import Annotated, Final

import typer

from jcache.cli import output
from jcache.errors import InvalidValue

SHELLS: Final = ("bash", "zsh", "fish", "powershell")


def complete_shells(incomplete: str) -> list[str]:
    """Shells that begin like this."""
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=", ".join(SHELLS), autocompletion=complete_shells)],
) -> None:
    """Print the completion script for a shell.

    Example: jcache completion bash > ~/.local/share/bash-completion/completions/jcache
    """
    output.data(script(shell))


def script(shell: str) -> str:
    """The completion script for a shell.

    Raises:
        InvalidValue: a shell for which there is none.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise InvalidValue(f"'{shell}' is not a shell jcache completes in: choose from {', '.join(SHELLS)}.")
    return get_completion_script(prog_name="jcache", complete_var="_JCACHE_COMPLETE", shell=shell)
