"""The table of supported versions: what it calls proven is what .ci/run runs."""

import re
import tomllib
from typing import Final

from tests.helpers.documents import ROOT
from tests.test_quality import pins

PAGE: Final = (ROOT / "docs/reference/versions.md").read_text()
RUN: Final = (ROOT / ".ci/run").read_text()
TITLES, *ROWS = (line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| [^-]", line))
JAXES: Final = [title.split()[1].rstrip(",") for title in TITLES]


def table() -> dict[tuple[str, str], str]:
    """What the page says of each version of Python and of jax."""
    return {(row[0].split()[1], jax): cell for row in ROWS for jax, cell in zip(JAXES, row[1:], strict=True)}


def runs() -> set[tuple[str, str]]:
    """Return the versions of Python and jax that .ci/run runs tests with."""
    (oldest_python,) = re.findall(r"command -v python(3\.\d+) ", RUN)
    pythons = {"python": oldest_python, "newest": re.findall(r"versions/(3\.\d+)\*", RUN)[-1]}
    names = re.findall(r'^    environment (\S+) "\$(\w+)"', RUN, re.MULTILINE)
    jaxes = {"oldest": pins("constraints-oldest.txt")["jax"], "newest": pins("constraints-newest.txt")["jax"]}
    others = {(pythons[python], jaxes.get(name) or name.removeprefix("jax-")) for name, python in names}
    assert {name for name, _ in names} == set(re.findall(r"^(?:if ! )?others ([\w.-]+)", RUN, re.MULTILINE))
    return {(oldest_python, pins("constraints.txt")["jax"])} | others


def test_the_table_says_what_ci_runs() -> None:
    """Proven is what .ci/run runs, with the versions of the constraints, and everything else is untested."""
    assert set(table().values()) == {"proven", "untested"}
    assert {versions for versions, word in table().items() if word == "proven"} == runs()


def test_the_table_has_the_supported_versions() -> None:
    """The first row and column are the oldest versions that pyproject.toml admits, and the last column the newest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [row[0] for row in ROWS] == [f"Python 3.{minor}" for minor in range(11, 15)]
    assert project["requires-python"] == ">=3.11"
    assert project["optional-dependencies"]["jax"] == [f"jax>={JAXES[0]}", f"jaxlib>={JAXES[0]}"]
    assert JAXES[-1] == pins("constraints-newest.txt")["jax"]
