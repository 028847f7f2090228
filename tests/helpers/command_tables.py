"""The tables of options in docs/reference/commands.md, made from Typer itself.

``python -m tests.helpers.command_tables`` writes the present ones into the page.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from jcache.cli.app import COMMANDS, app
from tests.helpers.documents import ROOT

PAGE: Final = ROOT / "docs/reference/commands.md"
HEAD: Final = "| argument or option | meaning |\n|---|---|\n"
# In a section: what a generated table, with the example below it, looks like.
_TABLE: Final = re.compile(re.escape(HEAD) + r"(?:\|.*\n)+(?:\nExample:\n\n```sh\n.*\n```\n)?")
_CODE: Final = re.compile(r"`[^`]*`|(?<![\w-])(--?[a-z][a-z-]*|\$[A-Z_]+|'[^' ]+'|-atime)(?![\w-])")
SHARED: Final = {"--root", "--json", "--quiet", "--verbose"}


def command(name: str) -> Any:  # Typer's command
    """Return a command as Typer has it."""
    return typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]


def with_tables(page: str) -> str:
    """Return the page with the tables of today; a section without one gets its table at its end."""
    head, *sections = re.split(r"(?m)^(?=## )", page)
    return head + "".join(_with_table(section) for section in sections)


def _with_table(section: str) -> str:
    name = section.split("\n")[0].removeprefix("## ")
    if name not in COMMANDS:
        return section
    made = table(name)
    if _TABLE.search(section):
        return _TABLE.sub(lambda _: made, section, count=1)
    return f"{section.rstrip()}\n\n{made}\n"


def table(name: str) -> str:
    """Return the table of a command: its arguments, its options but those that mean the same everywhere, an example."""
    rows = "".join(f"| {spelling} | {meaning} |\n" for spelling, meaning in _rows(name))
    example = str(command(name).help).partition("\nExample: ")[2]
    return f"{HEAD if rows else ''}{rows}" + (f"\nExample:\n\n```sh\n{example.strip()}\n```\n" if example else "")


def _rows(name: str) -> Iterator[tuple[str, str]]:
    for parameter in command(name).params:
        meaning = _marked(parameter.help)
        if isinstance(default := parameter.default, str | int) and default and not isinstance(default, bool):
            meaning = f"{meaning} Default: `{default}`."
        if parameter.param_type_name == "argument":
            yield f"`{_cell(parameter.metavar)}`", meaning
        elif not (SHARED.intersection(parameter.opts) and parameter.help in shared_help(parameter.opts[0])):
            takes = f" {_cell(parameter.metavar)}" if parameter.metavar else ""
            long = next(option for option in parameter.opts if option.startswith("--"))
            short = "".join(f"`{option}`, " for option in parameter.opts if option != long)
            yield f"{short}`{long}{takes}`", meaning


def shared_help(option: str) -> set[str]:
    """Return the help of an option that all commands share: with a store as the root, and without."""
    return {str(each.help) for name in ("info", "import") for each in command(name).params if option in each.opts}


def _marked(text: str) -> str:
    """Return a help text with options, variables and values marked as code."""
    marked = _CODE.sub(lambda found: f"`{found[1].strip(chr(39))}`" if found[1] else found[0], text)
    return _cell(" ".join(marked.split()))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
