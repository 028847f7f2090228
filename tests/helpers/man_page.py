"""The man page: help texts and options from Typer, exit codes and variables from the tables of the reference.

``python -m tests.helpers.man_page`` writes docs/man/jcache.1.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import typer

from jcache.cli.app import COMMANDS, app
from tests.helpers.documents import ROOT

PAGE: Final = ROOT / "docs/man/jcache.1"
_WIDTH: Final = 80
_HEAD: Final = '.\\" Written by: python -m tests.helpers.man_page\n.TH JCACHE 1 "" jcache "User Commands"\n'
_MARKED: Final = re.compile(r"``(.+?)``|`(.+?)`|\*\*(.+?)\*\*")  # code and strong text of Markdown
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")


def man_page() -> str:
    """Return the man page of jcache, in the language of man(7), as ASCII."""
    return "\n".join([_HEAD + ".SH NAME", *_about(), *_commands(), *_tables()]) + "\n"


def _about() -> Iterator[str]:
    group, ctx = _group()
    summary = group.help.rstrip(".")
    yield f"jcache \\- {escaped(summary[0].lower() + summary[1:])}"
    yield from (".SH SYNOPSIS", ".B jcache", escaped("COMMAND [OPTIONS] [ARGUMENTS]"), ".SH OPTIONS")
    yield from _parameters(group, ctx, "option")


def _commands() -> Iterator[str]:
    group, ctx = _group()
    yield ".SH COMMANDS"
    for name in COMMANDS:
        command = group.get_command(ctx, name)
        inner = type(ctx)(command, parent=ctx, info_name=name)
        arguments = " ".join(command.collect_usage_pieces(inner))
        yield from (f".SS jcache {name}", f".B jcache {name}", escaped(arguments), ".PP")
        yield from _paragraphs(command.help)
        yield from _parameters(command, inner, "argument")
        yield from _parameters(command, inner, "option")


def _tables() -> Iterator[str]:
    commands, environment = ((ROOT / f"docs/reference/{name}.md").read_text() for name in ("commands", "environment"))
    yield ".SH EXIT STATUS"
    codes = commands.split("\n## Exit codes\n")[1].split("\n## ")[0]
    yield from _rows(codes)
    yield from (".PP", inline(codes.strip().split("\n\n")[1]))
    yield ".SH ENVIRONMENT"
    yield from _rows(environment)


def _group() -> tuple[Any, Any]:
    group: Any = typer.main.get_command(app)
    return group, group.make_context("jcache", ["info"], resilient_parsing=True)


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; examples in the fonts of what is typed."""
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("Example: "):
            yield from ("Example:", ".PP", ".nf", ".RS 4", escaped(paragraph.removeprefix("Example: ")), ".RE", ".fi")
        else:
            yield inline(" ".join(paragraph.split()))


def _parameters(command: Any, ctx: Any, sort: str) -> Iterator[str]:
    """The options of a command, or its arguments, with their help."""
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record and parameter.param_type_name == sort:
            yield from (".TP", f"\\fB{escaped(record[0])}\\fR", inline(re.sub(r" {2,}", " ", record[1])))


def _rows(text: str) -> Iterator[str]:
    """The rows of a table with two columns."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(("| code |", "| variable |")):
            name, meaning = line.strip("| ").split(" | ")
            yield from (".TP", f"\\fB{escaped(name.replace('`', ''))}\\fR", inline(meaning))


def inline(text: str) -> str:
    """Return a paragraph, with what Markdown marks in bold."""
    text = " ".join(_LINK.sub(r"\1", text).split())
    parts: list[str] = []
    end = 0
    for match in _MARKED.finditer(text):
        parts += [escaped(text[end : match.start()]), f"\\fB{escaped(match[match.lastindex or 0])}\\fR"]
        end = match.end()
    whole = "".join([*parts, escaped(text[end:])])
    lines = textwrap.wrap(whole, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(guarded(line) for line in lines)


def escaped(text: str) -> str:
    """Return text so that man(7) prints it as it is; characters beyond ASCII are written by their number."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)


def guarded(line: str) -> str:
    """Return a line that man(7) takes for text, also where it begins with a dot."""
    return f"\\&{line}" if line.startswith(".") else line


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(man_page())
