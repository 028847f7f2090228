"""docs/terminal.svg, the README's picture: commands on a small real cache, drawn by Rich.

``python -m tests.helpers.terminal_picture`` draws it anew.
"""

import io
import re
import tempfile
from html import unescape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.helpers.documents import ROOT, Shell

PICTURE: Final = ROOT / "docs/terminal.svg"
COMMANDS: Final = ("jcache info --root ~/.jax_cache", "jcache ls --root ~/.jax_cache --sort size --limit 4")
_FILL: Final = (
    "JAX_COMPILATION_CACHE_DIR=$HOME/.jax_cache JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"
    " JAX_PLATFORMS=cpu python tests/programs/train.py"
)
_PROMPT: Final = "$ "
_WIDTH: Final = 76
_FONTS: Final = re.compile(r"\s*@font-face \{.*?\n\s*\}", re.DOTALL)  # they would be fetched from elsewhere
_CHARACTER: Final = 12.2  # the width of one in the picture
_LINE: Final = re.compile(r'<text [^>]*x="([\d.]+)"[^>]*clip-path="url\(#jcache-line-(\d+)\)">(.*?)</text>')


def run(home: Path) -> list[str]:
    """Fill a cache with a real JAX program, and return what each command prints on a terminal with colors."""
    shell = Shell(home)
    shell.run(_FILL)
    return [shell.run(f"export COLUMNS={_WIDTH} FORCE_COLOR=1; {command}") for command in COMMANDS]


def draw(outputs: list[str]) -> str:
    """Return the picture of the commands and what they print."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, output) in enumerate(zip(COMMANDS, outputs, strict=True)):
        console.print(Text("\n" * bool(number) + _PROMPT, "bold green") + Text(command, "bold"))
        console.print(Text.from_ansi(output.rstrip("\n")))
    return _FONTS.sub("", console.export_svg(title="jcache", unique_id="jcache"))


def shown(picture: str) -> list[str]:
    """Return what a picture shows below each command."""
    lines: dict[int, str] = {}
    for at, number, text in _LINE.findall(picture):
        before = lines.get(int(number), "").ljust(round(float(at) / _CHARACTER))
        lines[int(number)] = before + unescape(text).replace("\N{NO-BREAK SPACE}", " ")
    whole = "".join(f"{lines.get(number, '').rstrip()}\n" for number in range(max(lines) + 1))
    return [re.sub(r"^.*\n|\n(?=\n\Z)", "", part) for part in whole.split(_PROMPT)[1:]]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        PICTURE.write_text(draw(run(Path(home))))
