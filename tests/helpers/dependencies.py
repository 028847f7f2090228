"""What jcache depends on: a page with the licences, and a software bill of materials (CycloneDX).

``python -m tests.helpers.dependencies`` writes both, from the distributions that are installed.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.documents import ROOT

PAGE: Final = ROOT / "docs/reference/dependencies.md"
BILL: Final = ROOT / "docs/reference/sbom.cdx.json"
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: Final = ("jax", "remote")  # the extras that are for users
_LICENCES: Final = {
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
}  # SPDX expressions of classifiers, for distributions that give none
_TEXT: Final = """\
# Dependencies and their licences

`pip install jcache-jax` installs these distributions, with Python 3.11 on Linux. The
[bill of materials](sbom.cdx.json) lists them in CycloneDX's format, with the versions of
`tests/constraints.txt`.

{runtime}
The extras `jax` and `remote` add these:

{extras}
`python -m tests.helpers.dependencies` writes this page and the bill; a test compares the names with
what `pyproject.toml` asks for, and with what that asks for in turn.
"""


class Dependency(NamedTuple):
    """A distribution that jcache needs, with an SPDX expression and the distributions that ask for it."""

    name: str
    version: str
    licence: str
    needed_by: tuple[str, ...]


def dependencies(requirements: Iterable[str]) -> list[Dependency]:
    """Return the distributions that requirements of jcache ask for, and those that they ask for in turn, by name."""
    parents: dict[str, set[str]] = {}
    waiting = [("jcache", text) for text in requirements]
    while waiting:
        parent, text = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in parents:
            waiting += [(name, each) for each in distribution(name).requires or ()]
        parents.setdefault(name, set()).add(parent)
    return [_described(name, parents[name]) for name in sorted(parents)]


def runtime() -> list[Dependency]:
    """Return what `pip install jcache-jax` installs."""
    return dependencies(PROJECT["dependencies"])


def extras() -> list[Dependency]:
    """Return what the extras for users add."""
    optional = [each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra]]
    own = {each.name for each in runtime()}
    return [each for each in dependencies(optional) if each.name not in own]


def page() -> str:
    """Return the page with the licences."""
    return _TEXT.format(runtime="".join(_table(runtime())), extras="".join(_table(extras())))


def bill() -> str:
    """Return the bill of materials of the runtime, in CycloneDX's format."""
    found = runtime()
    references = {each.name: f"pkg:pypi/{each.name}@{each.version}" for each in found}
    own = f"pkg:pypi/{PROJECT['name']}@{PROJECT['version']}"
    about = {"name": PROJECT["name"], "version": PROJECT["version"], "licenses": [{"expression": PROJECT["license"]}]}
    asked = {name: [each for each in found if name in each.needed_by] for name in ("jcache", *references)}
    value = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": own, "purl": own} | about},
        "components": [
            {
                "type": "library",
                "bom-ref": references[each.name],
                "purl": references[each.name],
                "name": each.name,
                "version": each.version,
                "licenses": [{"expression": each.licence}],
            }
            for each in found
        ],
        "dependencies": [
            {"ref": references.get(name, own), "dependsOn": [references[each.name] for each in needed]}
            for name, needed in asked.items()
        ],
    }
    return json.dumps(value, indent=2) + "\n"


def _described(name: str, parents: set[str]) -> Dependency:
    metadata = distribution(name).metadata
    classifiers = metadata.get_all("Classifier") or []
    known = [_LICENCES[each] for each in classifiers if each in _LICENCES]
    licence = metadata["License-Expression"] or (known[0] if known else metadata["License"])
    return Dependency(name, metadata["Version"], licence, tuple(sorted(parents)))


def _table(rows: list[Dependency]) -> Iterator[str]:
    yield "| distribution | licence | needed by |\n|---|---|---|\n"
    for each in rows:
        yield f"| {each.name} | {each.licence} | {', '.join(each.needed_by)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    BILL.write_text(bill())
