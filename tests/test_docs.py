"""The documents say what is: commands, exit codes, variables, and the tour's real output."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.cli.app import COMMANDS
from jcache.errors import JcacheError
from jcache.runs.launch import CannotStart, CommandNotFound
from tests.helpers.command_line import clean_environment

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_command_is_documented() -> None:
    """The README's table has every command."""
    missing = [name for name in COMMANDS if not re.search(rf"`{name}\b|/ `{name}\b|, `{name}`", README)]
    assert not missing


def test_every_exit_code_is_documented() -> None:
    """The exit code of every error is in the README's section on them."""
    section = README.split("## Exit codes")[1].split("## ")[0]
    errors: list[type[JcacheError]] = [JcacheError, *JcacheError.__subclasses__(), CannotStart, CommandNotFound]
    assert all(re.search(rf"\b{error.exit_code}\b", section) for error in errors)


def test_every_variable_is_documented() -> None:
    """Every environment variable that the sources read is in the README."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r'"(JCACHE_[A-Z_]+|JAX_[A-Z_]+)"', sources))
    internal = {name for name in names if name.startswith("JCACHE_RUN_")}
    assert not [name for name in names - internal if name not in README]


def test_the_changelog_is_kept() -> None:
    """The changelog follows Keep a Changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "keepachangelog.com" in text and "## [Unreleased]" in text


def volatile(text: str) -> list[str]:
    """The lines, with what differs from run to run and machine to machine taken out."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("cpu ", "path ", "created ", "last used ", "origin ", "jaxlib ", "digest ", "cache path ")):
            line = line.split()[0]
        line = re.sub(r"\S*tests/programs/train\.py", "train.py", line)
        line = re.sub(r"(jit_\w+)-[0-9a-f]{8,64}", r"\1-HASH", line)
        line = re.sub(r"[\d.,]+ (B|KiB|bytes|s)\b|\([\d,.]+\)|\b\d+s\b|zstd|zlib", "N", line)
        line = re.sub(r"─+", "─", line)
        line = re.sub(r"^loss \S+", "loss", line)  # the last digits are the CPU's; old JAX has other random numbers
        lines.append(re.sub(r"\s+", " ", line).strip())
    return lines


@pytest.mark.smoke
@pytest.mark.jax
def test_the_tour_prints_what_it_says(tmp_path: Path) -> None:
    """Each command of the README's tour, run in order, prints what stands below it, numbers of seconds aside."""
    block = README.split("<!-- tour -->\n```console\n")[1].split("```")[0]
    bin_ = Path(sys.executable).parent
    env = clean_environment({"JCACHE_DIR": str(tmp_path / "root"), "PATH": f"{bin_}:{os.environ['PATH']}"})
    assert shutil.which("jcache", path=env["PATH"])
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout)
        shown = done.stdout
        if not re.search(rf"^jaxlib +{re.escape(version('jaxlib'))}$", block, re.MULTILINE):
            expected, shown = (re.sub(r"^(cpu|cache path) .*\n", "", text, flags=re.M) for text in (expected, shown))
        if command.startswith("jcache ls"):  # entries of nearly the same size may change places
            assert len(done.stdout.splitlines()) == len(expected.splitlines())
        elif command.startswith(("jcache prune", "jcache clear")):
            assert [line.split(":")[0].split(",")[0] for line in volatile(done.stdout)] == [
                line.split(":")[0].split(",")[0] for line in volatile(expected)
            ]
        else:
            assert volatile(shown) == volatile(expected), command
