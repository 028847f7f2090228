"""The whole repository: lint, format, types and layers. Skipped where the tools are not installed."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def pins(name: str) -> dict[str, str]:
    """The versions that a file of constraints gives, by name."""
    lines = (ROOT / "tests" / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_oldest_versions_are_those_that_the_ranges_begin_with() -> None:
    """`constraints-oldest.txt` and `pyproject.toml` have the same oldest versions of jcache's dependencies
    and of JAX.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [each.split(">=") for each in project["dependencies"] + project["optional-dependencies"]["jax"]]
    oldest = pins("constraints-oldest.txt")
    assert len(needed) == 10
    for name, first in needed:
        assert re.fullmatch(rf"{re.escape(first)}(\.0)*", oldest[name]), name


def test_every_tool_and_library_of_the_tests_has_one_version() -> None:
    """`constraints.txt` has whatever the extras name."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {each.split(">=")[0] for group in extras.values() for each in group if not each.startswith("jcache-jax[")}
    assert named <= pins("constraints.txt").keys()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            [*words], id=" ".join(words), marks=[pytest.mark.full, pytest.mark.whole] if words == ("mypy",) else []
        )  # 15 s
        for words in (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("lint-imports",))
    ],
)
def test_the_checks_pass(command: list[str]) -> None:
    """ruff, mypy --strict and the import contract find nothing."""
    tool = shutil.which(command[0], path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip(f"{command[0]} is not installed: pip install -e '.[dev]'")
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jaxs_private_modules_are_named_in_two_rooms_alone() -> None:
    """JAX's private modules are named only in `jax_internals` and the recorder."""
    source = ROOT / "src" / "jcache"
    naming = {path.relative_to(source).parent for path in source.rglob("*.py") if "jax._src" in path.read_text()}
    assert naming == {Path("jax_internals"), Path("runs/recorder")}
