"""The dependencies: each has its row with a licence, and its component in the bill of materials."""

import json
import re

import pytest

from tests.helpers.dependencies import BILL, PAGE, PROJECT, dependencies, extras, page, runtime

ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
WRITE = "write them again: python -m tests.helpers.dependencies"


def names(text: str) -> list[str]:
    """The distributions in the tables of a page, table by table."""
    return [name for name in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if name != "distribution"]


def test_every_dependency_has_its_row() -> None:
    """The page has what the runtime and the extras need, directly or not, and nothing else; versions do not count."""
    needed = [each.name for each in runtime() + extras()]
    assert names(PAGE.read_text()) == names(page()) == needed, WRITE


def test_every_row_has_a_licence() -> None:
    """Each licence is an SPDX expression of known licences, none of which asks jcache's users for their source."""
    known = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "PSF-2.0", "Zlib"}
    licences = [licence for _, licence in ROWS if licence not in ("licence", "---")]
    assert len(licences) == len(names(PAGE.read_text()))
    assert {word for licence in licences for word in re.split(r" AND | OR ", licence)} <= known


def test_the_bill_has_every_dependency() -> None:
    """The bill of materials has a component for each dependency of the runtime, each reached from jcache."""
    bill = json.loads(BILL.read_text())
    assert [each["name"] for each in bill["components"]] == [each.name for each in runtime()], WRITE
    assert bill["metadata"]["component"]["version"] == PROJECT["version"], WRITE
    depends = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    reached, waiting = set(), [bill["metadata"]["component"]["bom-ref"]]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += depends[reference]
    assert reached == {each["bom-ref"] for each in [bill["metadata"]["component"], *bill["components"]]}


@pytest.mark.parametrize(
    ("requirement", "found"), [("rich>=13", ["markdown-it-py", "mdurl", "pygments", "rich"]), ("x; extra == 'y'", [])]
)
def test_dependencies_of_dependencies(requirement: str, found: list[str]) -> None:
    """What a dependency asks for counts as well, and what an extra or another platform asks for does not."""
    assert [each.name for each in dependencies([requirement])] == found
