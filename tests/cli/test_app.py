"""The command line as a whole: help, imports, the table of commands."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jcache import __version__
from jcache.cli.app import _PANELS, COMMANDS
from tests.helpers.command_line import Jcache, clean_environment
from tests.helpers.terminals import WIDTHS, Terminal, open_terminal

STORE = Path(__file__).parent.as_uri()  # a directory without a store in it
RUNS = {
    "info": [], "stats": [], "ls": [], "show": ["jit_train"], "du": ["--by", "device"], "explain": ["jit_train"],
    "prune": ["--max-size", "15k"], "config": [],
    "clear": ["--yes"], "rm": ["jit_train", "--yes"], "pin": ["jit_train"], "unpin": ["jit_train"],
    "run": ["--", sys.executable, "-c", "pass"],
    "warm": ["--", sys.executable, "-c", "pass"],
    "env": [], "dir": [], "completion": ["bash"], "verify": [], "quarantine": [],
    "export": ["-o", os.devnull], "import": ["--help"],
    "push": [STORE, "--dry-run"], "pull": [STORE, "--dry-run"], "sync": [STORE, "--dry-run"],
}  # fmt: skip


def test_every_command_is_run_by_a_test() -> None:
    """The table below names every command."""
    assert set(RUNS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_imports_jax_or_numpy(cache: Path, command: str) -> None:
    """No command imports JAX or numpy in its own process."""
    arguments = [command, *RUNS[command]]
    if command != "completion":
        arguments[1:1] = ["--root", str(cache)]
    code = (
        "import sys; from jcache.cli.app import run; code = run(sys.argv[1:]);"
        "heavy = {'jax', 'jaxlib', 'numpy', 'scipy', 'pydantic'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr); sys.exit(bool(heavy) or code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_import_jcache_imports_next_to_nothing() -> None:
    """`import jcache` alone leaves JAX, numpy, typer and rich out."""
    code = "import sys, jcache; print([m for m in ('jax', 'jaxlib', 'numpy', 'typer', 'rich') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(jcache: Jcache, command: str) -> None:
    """Help says what a command does and shows an example of it."""
    result = jcache(command, "--help")
    assert result.code == 0 and "Example:" in result.out and f"jcache {command}" in result.out
    assert "Show this message" in result.out


def test_the_help_lists_all_commands(jcache: Jcache) -> None:
    """`jcache --help` names every command with a line on it."""
    out = jcache("--help").out
    assert all(f" {command} " in out for command in COMMANDS)


def test_version_and_module(jcache: Jcache) -> None:
    """`python -m jcache --version` prints the package's version."""
    assert jcache("--version").out == f"jcache {__version__}\n"


def test_no_colour_where_none_is_wanted(jax_cache: Path) -> None:
    """On a terminal NO_COLOR is obeyed; without it there is colour."""

    shown = {}
    for name, more in {"plain": {"NO_COLOR": "1"}, "coloured": {}}.items():
        primary, secondary = open_terminal()
        env = clean_environment({"TERM": "xterm-256color", **more})
        process = subprocess.Popen(
            [sys.executable, "-m", "jcache", "info", "--root", str(jax_cache)], stdout=secondary, env=env
        )
        os.close(secondary)
        shown[name] = b""
        try:
            while chunk := os.read(primary, 4096):
                shown[name] += chunk
        except OSError:
            pass  # Linux ends a pty with EIO
        process.wait()
        os.close(primary)
    assert b"\x1b[3" not in shown["plain"] and b"\x1b[3" in shown["coloured"]


def test_help_is_in_groups(jcache: Jcache) -> None:
    """Every command is in one group, in the order of the table of commands."""
    assert [name for names in _PANELS.values() for name in names] == list(COMMANDS)
    out = jcache("--help").out
    places = [out.index(f"─ {panel} ─") for panel in _PANELS]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_lines(jcache: Jcache, command: str) -> None:
    """Brackets and dots stand once; the help shows no type of Python's; a cache directory is explained where needed."""
    out = jcache(command, "--help").out
    usage = re.sub(r"\s+", " ", out[out.index("Usage:") :]).partition("] ")[2][:60]
    assert not re.search(r"\[\[|\.\.\.\]+\.\.\.|\{", usage), usage
    assert "<bool>" not in out and "list[str]" not in out and "<str>" not in out
    assert "--root" not in out or "Cache directory" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_fill_their_lines(command: str) -> None:
    """In 80 columns, a line of a help text ends where the next word does not fit, and an example is one line."""
    lines = [line[1:].rstrip() for line in Terminal(command, "--help").finish()[1]]
    start = lines.index("", 1)
    text = lines[start : next(number for number, line in enumerate(lines) if line.startswith("─"))]
    for line, following in itertools.pairwise(text):
        assert not line or not following or len(f"{line} {following.split()[0]}") > 78, (line, following)
    assert sum(line.startswith("Example: ") for line in text) == 1


@pytest.mark.full
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", [[], ["ls"], ["rm"]])
def test_help_fits_the_terminal(columns: int, command: list[str]) -> None:
    """At every width no line is longer than the terminal, and every option and command is there."""
    code, lines = Terminal(*command, "--help", columns=columns).finish()
    assert code == 0 and all(len(line) <= columns for line in lines)
    text = "\n".join(lines)
    assert all(word in text for word in (["--filter", "--root", "--json"] if command else [*COMMANDS, *_PANELS]))
