"""Printing: only this module writes to stdout (data) and stderr (messages, progress and prompts)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from jcache.text import ELLIPSES, escaped, is_shown, wrapped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
_FILE_COLUMNS: Final = 10_000  # width of a stream that is not a terminal: nothing is shortened there
_GAP: Final = 2  # blanks between the columns of a table
_MIN_COLUMN_WIDTH: Final = 8
_MIN_KEY_WIDTH: Final = (
    14  # an ellipsis, the digits of a short key with their dash, and what tells a little of the name
)


def data(text: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(_printable(text) + "\n")


def prose(text: str) -> None:
    """Print a sentence on stdout; on a terminal, break its lines at words."""
    data(_fitted(text, sys.stdout))


def as_json(value: dict[str, Any], *, version: int = SCHEMA_VERSION) -> None:
    """Print one JSON document on stdout, in ASCII, with ``schema_version`` as its first field.

    Args:
        value: the other fields.
        version: version of the fields in this command's document.
    """
    json.dump({"schema_version": version} | value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def as_json_list(value: dict[str, Any], name: str, items: Iterable[dict[str, Any]], *, version: int) -> None:
    """Print one JSON document on stdout as `as_json` does, whose last field is a list with a line for each item.

    Args:
        value: the fields before the list.
        name: name of the list.
        items: the items, of which only one is held in memory.
        version: of the fields of this command's document.
    """
    encode = json.JSONEncoder().encode
    head = "".join(f"  {encode(key)}: {encode(part)},\n" for key, part in ({"schema_version": version} | value).items())
    sys.stdout.write(f"{{\n{head}  {encode(name)}: [")
    between = "\n    "
    for item in items:
        sys.stdout.write(between + encode(item))
        between = ",\n    "
    sys.stdout.write("]\n}\n" if between[0] == "\n" else "\n  ]\n}\n")


def rich(*parts: RenderableType, whole: bool = False) -> None:
    """Print tables and styled text on stdout, at most as wide as the terminal, if stdout is one.

    Args:
        parts: what to print.
        whole: whether to leave it to the terminal to break lines that are too long.
    """
    stdout = console(stderr=False)
    if whole:
        stdout.width = _FILE_COLUMNS
    for part in parts:
        stdout.print(part)


def message(text: str, *, whole: bool = False) -> None:
    """Print a sentence on stderr; if stderr cannot be written, the command continues without it.

    Args:
        text: the sentence, or several lines.
        whole: whether lines stay as they are also on a terminal; otherwise, long ones are broken at words.
    """
    try:
        sys.stderr.write(_printable(text if whole else _fitted(text, sys.stderr), sys.stderr) + "\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """Send the rest of a stream's buffer to the null device, since Python would write it at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def warning(text: str) -> None:
    """Print a warning on stderr."""
    message(f"jcache: warning: {text}")


def takes(text: str) -> bool:
    """Return whether stdout can encode a text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def error(text: str) -> None:
    """Print an error on stderr."""
    message(f"jcache: {text}")


def confirm(question: str) -> bool:
    """Ask on the terminal and return whether the answer is y or yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def is_terminal() -> bool:
    """Return whether stdin and stderr are terminals, so that `confirm` can ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ndjson(value: dict[str, Any]) -> None:
    """Print one JSON object on a line of stdout."""
    sys.stdout.write(json.dumps(value) + "\n")


def table(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]], *, lines: bool = True, whole: bool = False
) -> Any:  # noqa: ANN401
    """Return a table for `rich`.

    Args:
        columns: heading of each column and its layout: ``left``, ``right``, ``key`` (may be shortened in the middle),
            ``fold`` (may be shortened) or ``wrap`` (may take several lines).
        rows: cells, as text or styled text.
        lines: whether to draw the headings and a rule below them.
        whole: whether nothing is shortened, however narrow the terminal is.
    """
    from rich.box import Box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rule = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
    gap = (0, _GAP - 1 if lines else _GAP, 0, 0)  # with the rule, Rich adds one blank itself
    result = Table(box=rule if lines else None, padding=gap, pad_edge=False, show_edge=False)
    result.show_header = lines
    texts = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, (h, *(row[i].plain for row in texts)))) for i, (h, _) in enumerate(columns)]
    for (heading, how), width in zip(columns, widths, strict=True):
        result.add_column(
            heading,
            justify="right" if how == "right" else "left",
            no_wrap=how != "wrap",
            overflow="fold" if how == "wrap" else "ellipsis",
            width=width,
        )
    spare = console(stderr=False).width - _width(result)
    for i, (_, how) in enumerate(columns):
        least = {"key": _MIN_KEY_WIDTH, "fold": _MIN_COLUMN_WIDTH, "wrap": _MIN_COLUMN_WIDTH}.get(how)
        if least is not None and not whole:
            result.columns[i].width = widths[i] = min(widths[i], max(least, widths[i] + spare))
    for row in texts:
        result.add_row(*(_middle(cell, widths[i]) if columns[i][1] == "key" else cell for i, cell in enumerate(row)))
    return result


def fits(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> bool:
    """Return whether a table fits the width of stdout with all its cells whole; the arguments are those of `table`."""
    return _width(table(columns, rows, whole=True)) <= console(stderr=False).width


def _width(table: Any) -> int:  # noqa: ANN401
    """Return the width that Rich needs for a table whose columns have a width; Rich 13 counts padding at the edge."""
    wide = console(stderr=False).options.update(max_width=10 * _FILE_COLUMNS)
    width: int = table.__rich_measure__(console(stderr=False), wide).maximum
    return width


def _middle(text: Any, width: int) -> Any:  # noqa: ANN401
    """Return a text, which ends in digits of a hash after a dash, shortened in the middle to a width in cells."""
    from rich.cells import cell_len
    from rich.text import Text

    if cell_len(text.plain) <= width:
        return text
    ellipsis = ELLIPSES[0] if takes(ELLIPSES[0]) else ELLIPSES[1]
    tail = f"-{text.plain.rpartition('-')[2]}"
    tail = tail if len(tail) + len(ellipsis) < width else tail[: width // 2]
    head = text.plain[:width]
    while head and cell_len(head) + len(ellipsis) + len(tail) > width:
        head = head[:-1]
    return Text(f"{head}{ellipsis}{tail}")


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun: ``1 entry``, ``1,000 entries``."""
    return f"{number:,} {one if number == 1 else many}"


def plain(text: str) -> Any:  # noqa: ANN401
    """Return text for a table in which Rich interprets no markup."""
    from rich.text import Text

    return Text(_printable(text))


def console(*, stderr: bool) -> Console:
    """Return a Rich console on stdout or stderr that styles only what has a style."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _FILE_COLUMNS
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def _fitted(text: str, stream: TextIO) -> str:
    """Return a text with lines that break at words where the stream is a terminal."""
    if not stream.isatty():
        return text
    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return text
    return wrapped(text, columns) if columns > 0 else text


def _printable(text: str, stream: Any = None) -> str:  # noqa: ANN401
    """Return the text with control characters, and characters that the stream cannot encode, written as escapes."""
    encoding = (stream or sys.stdout).encoding or "utf-8"
    if not text.isprintable():  # only these texts are examined character by character
        text = "".join(c if c in "\n\t" or is_shown(c) else escaped(c) for c in text)
    return text.encode(encoding, "backslashreplace").decode(encoding)
