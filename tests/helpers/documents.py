"""The Markdown pages, whose console blocks are run and compared with the output on the page.

A block of the language ``console`` holds commands, each after ``$ ``, with its output below. A comment
``<!-- setup: COMMAND -->`` is a command that the reader does not see. The commands of a page run in order in a separate
home directory, in which ``tests`` is the repository's. A line ``…`` stands for lines that are left out.

``python -m tests.helpers.documents PAGE...`` runs the commands of pages and writes their present output into them; a
line ``…`` below a command keeps the old output.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.helpers.command_line import clean_environment

ROOT: Final = Path(__file__).parents[2]
HOME: Final = "/home/ada"  # what pages show for the home directory
OMITTED: Final = "…"
_STEPS: Final = re.compile(r"^<!-- setup: (?P<setup>[^\n]*) -->$|^```console\n(?P<block>.*?)^```$", re.M | re.S)
_COMMAND: Final = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
_OF_THE_MACHINE: Final = (
    "cpu ", "path ", "created ", "last used ", "origin ", "jaxlib ", "digest ", "cache path ", "disk "
)  # fmt: skip


class Step(NamedTuple):
    """A command of a page: its text, the output on the page, and the position; None for a set-up."""

    command: str
    expected: str | None = None
    at: tuple[int, int] = (0, 0)


def pages() -> list[Path]:
    """README.md, and every page below docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """Return the contents of the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def steps(text: str) -> Iterator[Step]:
    """The commands of a page in order."""
    for match in _STEPS.finditer(text):
        if match["setup"]:
            yield Step(match["setup"])
            continue
        for command in _COMMAND.finditer(match["block"]):
            start = match.start("block")
            yield Step(command[1], command[2], (start + command.start(2), start + command.end(2)))


class Shell:
    """Runs the commands of one page.

    Args:
        home: an empty directory, which becomes the home directory and the working directory of the commands.
    """

    def __init__(self, home: Path) -> None:
        (home / "tests").symlink_to(ROOT / "tests")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._home = home
        self._environment = clean_environment({"HOME": str(home), "PATH": path})

    def run(self, command: str) -> str:
        """Return what a command prints to stdout and stderr; it must end with exit code 0."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout)
        return re.sub(r" +$", "", done.stdout.replace(str(self._home), HOME), flags=re.M)


def agree(command: str, expected: str, shown: str) -> bool:
    """Return whether the output of a command agrees with a page, apart from values of the machine and the time."""
    if (wanted := _value(expected)) is not None:
        return bool(_shape(wanted) == _shape(_value(shown)))
    wanted_lines, lines = stable(command, expected), stable(command, shown)
    if command.startswith("jcache ls"):  # entries of nearly the same size may change places
        return len(lines) == len(wanted_lines)
    if "|" in command or command.startswith("jcache du"):  # which process, or which of two sizes, is first is chance
        return sorted(lines) == sorted(wanted_lines)
    place = 0
    parts = [part.splitlines() for part in re.split(rf"^{OMITTED}$\n?", "\n".join(wanted_lines), flags=re.M)]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        places = range(place, len(lines) - len(part) + 1) if number else [0]
        if last and number:
            places = [len(lines) - len(part)]
        found = [at for at in places if at >= place and lines[at : at + len(part)] == part]
        if not found or (last and found[0] + len(part) != len(lines)):
            return False
        place = found[0] + len(part)
    return True


def stable(command: str, text: str) -> list[str]:
    """Return the lines without values that differ between runs and machines."""
    lines = []
    for line in text.splitlines():
        if line.startswith(_OF_THE_MACHINE):
            line = line.split()[0]
        line = re.sub(r"\S*tests/programs/", "", line)
        line = re.sub(r"\d{4}-?\d\d-?\d\dT[\d:.]+Z(-[0-9a-f]{6})?", "TIME", line)
        line = re.sub(r"\b\d\d-\d\d \d\d:\d\d +[0-9a-f]{6}\b", "TIME RUN", line)  # as `jcache stats` has them
        line = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{8}\b", "ID", line)  # as `jcache quarantine` has them
        line = re.sub(r"([\w.]+)-[0-9a-f]{8,64}", r"\1-HASH", line)
        line = re.sub(r"[\d.,]+ ([KMGT]iB|B|bytes|s)\b|\([\d,.]+\)|\b\d+(s|min)\b|\d+ ?%|zstd|zlib", "N", line)
        line = re.sub(r"blake3:[0-9a-f]+", "DIGEST", line)
        line = re.sub(r"─+", "─", line)
        line = re.sub(r"^(loss|mean) \S+", r"\1", line)  # the last digits are the CPU's; old JAX has other numbers
        if command.startswith(("jcache prune", "jcache clear")):
            line = line.split(":")[0].split(",")[0]
        lines.append(re.sub(r"\s+", " ", line).strip())
    return lines


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _shape(value: Any) -> Any:
    """The names and types in a value of JSON; of a list, those of its first element."""
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def rewrite(page: Path) -> None:
    """Write the present output of a page's commands into it."""
    text = page.read_text()
    changes = []
    with tempfile.TemporaryDirectory() as home:
        shell = Shell(Path(home))
        for step in steps(text):
            shown = shell.run(step.command)
            if step.expected is not None and OMITTED not in step.expected.splitlines():
                changes.append((step.at, shown))
    for (start, end), shown in reversed(changes):
        text = text[:start] + shown + text[end:]
    page.write_text(text)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        rewrite(Path(argument).resolve())
