"""The only place that prints. stdout is data; messages, progress and prompts go to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from jcache.text import escaped, is_shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
_WIDE: Final = 10_000  # what is not a terminal has no width: nothing is cut there
_NARROWEST: Final = 8


def data(text: str) -> None:
    """A line of data, exactly as it is."""
    sys.stdout.write(_printable(text) + "\n")


def as_json(value: dict[str, Any]) -> None:
    """One JSON document, with its ``schema_version`` first; every text in it is ASCII."""
    json.dump({"schema_version": SCHEMA_VERSION} | value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def rich(*parts: RenderableType) -> None:
    """Tables and styled text, as wide as the terminal, or as they need elsewhere."""
    stdout = console(stderr=False)
    for part in parts:
        stdout.print(part)


def message(text: str) -> None:
    """Something worth saying that is not data; where it cannot be said, the work goes on."""
    try:
        sys.stderr.write(_printable(text, sys.stderr) + "\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """What is still in a stream's buffer goes nowhere; Python would try once more, and fail, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def warning(text: str) -> None:
    message(f"jcache: warning: {text}")


def takes(text: str) -> bool:
    """Whether stdout can encode a text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def error(text: str) -> None:
    message(f"jcache: {text}")


def confirm(question: str) -> bool:
    """Asks on the terminal; anything but yes is no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def is_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ndjson(value: dict[str, Any]) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.write(json.dumps(value) + "\n")


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]], *, lines: bool = True) -> Any:  # noqa: ANN401
    """A plain table; a column is its heading and ``left``, ``right``, ``fold`` (may be shortened) or ``wrap``
    (may take several lines).
    """
    from rich.box import Box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rule = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
    gap = (0, 1) if lines else (0, 2)  # the rule brings a blank of its own
    result = Table(box=rule if lines else None, padding=gap, collapse_padding=True, pad_edge=False, show_edge=False)
    result.show_header = lines
    texts = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, (h, *(row[i].plain for row in texts)))) for i, (h, _) in enumerate(columns)]
    gaps = 3 * (len(columns) - 1)  # two, and three before Rich 14
    spare = console(stderr=False).width - sum(widths) - gaps
    for i, (heading, how) in enumerate(columns):
        result.add_column(
            heading,
            justify="right" if how == "right" else "left",
            no_wrap=how != "wrap",
            overflow="fold" if how == "wrap" else "ellipsis",
            width=max(_NARROWEST, min(widths[i], widths[i] + spare)) if how in ("fold", "wrap") else widths[i],
        )
    for row in texts:
        result.add_row(*row)
    return result


def count(number: int, one: str, many: str) -> str:
    """``1 entry``, ``1,000 entries``."""
    return f"{number:,} {one if number == 1 else many}"


def plain(text: str) -> Any:  # noqa: ANN401
    """Text for a table, in which nothing is taken for markup."""
    from rich.text import Text

    return Text(_printable(text))


def console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else _WIDE)


def _printable(text: str, stream: Any = None) -> str:  # noqa: ANN401
    """The text with what the stream cannot encode, and control characters, written as escapes."""
    encoding = (stream or sys.stdout).encoding or "utf-8"
    if not text.isprintable():  # few texts have to be looked at character by character
        text = "".join(c if c in "\n\t" or is_shown(c) else escaped(c) for c in text)
    return text.encode(encoding, "backslashreplace").decode(encoding)
