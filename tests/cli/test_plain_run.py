"""The usual forms of `jcache run`, read without Typer."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.cli.app import app
from jcache.cli.plain_run import plain_run
from tests.helpers.jax_programs import environment

WORDS = st.lists(
    st.sampled_from(
        [
            "--root",
            "--root=d",
            "d",
            "-q",
            "--quiet",
            "--",
            "-",
            "",
            "python",
            "-c",
            "--json",
            "-v",
            "-qv",
            "--help",
            "run",
        ]
    ),
    max_size=7,
)


def as_typer_reads(words: list[str]) -> dict[str, Any] | None:
    """Return the parameters of `run` in a command line as Typer reads it; None if it refuses it or prints the help."""
    import typer

    group: Any = typer.main.get_command(app)
    try:
        context = group.get_command(None, "run").make_context("run", list(words), resilient_parsing=False)
    except BaseException:  # noqa: BLE001 - an error of usage, or the end after the help
        return None
    parameters: dict[str, Any] = context.params
    return parameters


@given(WORDS)
def test_it_reads_what_typer_reads(words: list[str]) -> None:
    """Each command line that it reads means the same to Typer; all others are left to Typer."""
    found = plain_run(["run", *words])
    if found is None:
        return
    read = as_typer_reads(words)
    assert read is not None
    assert (list(read["command"]), read["root"], read["quiet"]) == found
    assert (read["report"], read["json"], read["verbose"]) == (None, False, False)


@pytest.mark.parametrize(
    ("words", "command"),
    [("run -- a -q", ["a", "-q"]), ("run a b", ["a", "b"]), ("run --root d -q -- a --root e", ["a", "--root", "e"])],
)
def test_it_reads_the_usual_forms(words: str, command: list[str]) -> None:
    """With and without two dashes; the options behind the program's name are the program's."""
    found = plain_run(words.split())
    assert found is not None and found.command == command


@pytest.mark.parametrize(
    "words", ["", "run", "run --", "run --json -- a", "run --help", "warm -- a", "run --root -- a"]
)
def test_all_else_is_left_to_typer(words: str) -> None:
    """Other commands, other options, and what is wrong."""
    assert plain_run(words.split()) is None


def test_typer_is_not_imported(tmp_path: Path) -> None:
    """Nor is Rich; an error has its sentence and its exit code all the same."""
    program = (
        "import sys\nfrom jcache.cli import main\n"
        "try: main()\nfinally: print('typer' in sys.modules, 'rich' in sys.modules)"
    )
    for root, code in ((tmp_path / "root", 3), (Path(__file__), 10)):
        command = [sys.executable, "-c", program, "run", "--root", str(root), "--", "sh", "-c", "exit 3"]
        done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout == "False False\n" and done.stderr.startswith("jcache: ")
        assert done.returncode == code, done.stderr
