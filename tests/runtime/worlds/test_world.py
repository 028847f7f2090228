"""The world of a call."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from jcache.runtime.worlds import world
from jcache.runtime.worlds.digests import Digests
from jcache.runtime.worlds.world import World, digest_of

NAME = "imported_by_test_world"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that can be imported, and is not."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / f"{NAME}.py"
    path.write_text("RATE = 1\n")
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    return path


def test_a_world_has_distributions_sources_and_surroundings() -> None:
    """Each by a label that says what it is."""
    components = world.take(Digests(None)).components
    assert {"interpreter", "flags", "arguments", "directory", "distribution pytest"} <= components.keys()
    assert not [label for label in components if "jcache" in label.partition(" ")[2].split("/")[0]]


def test_two_worlds_are_one_if_their_components_are() -> None:
    """Whatever their order is."""
    one, other = World({"a": "1", "b": "2"}), World({"b": "2", "a": "1"})
    assert one.of_call({"c": "3"}, d="4") == World({"a": "1", "b": "2", "loose c": "3", "d": "4"})
    assert one.digest == other.digest == digest_of({"b": "2", "a": "1"}) and len(one.digest) == 32
    assert one.of_call({"c": "3"}).digest != one.digest != World({"a": "1"}).digest


def test_modules_that_are_imported_meanwhile_are_compared_by_file(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later process finds the file and does not import it."""
    digests, before = Digests(None), world.loaded()
    importlib.import_module(NAME)
    found = world.imported(before, (), (), digests)
    assert list(found) == [f"imported {NAME}"]
    monkeypatch.delitem(sys.modules, NAME)
    assert world.imported_now(found, digests) == found and NAME not in sys.modules
    module.write_text("RATE = 2\n")
    assert world.imported_now(found, digests) != found
    module.unlink()
    assert world.imported_now([f"imported {NAME}_2"], digests) == {f"imported {NAME}_2": "absent"}


def test_a_module_that_is_looked_for_in_vain_is_told(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may find it; one that is loaded is a part of the world."""
    digests, before = Digests(None), world.loaded()
    found = world.imported(before, (NAME, f"{NAME}_2", "os"), (), digests)
    assert [*found] == [f"imported {NAME}", f"imported {NAME}_2"] and found[f"imported {NAME}_2"] == "absent"
    assert found[f"imported {NAME}"] != "absent" and world.imported_now(found, digests) == found


def test_a_package_without_a_file_is_told(module: Path) -> None:
    """It may appear, and get a file."""
    digests, package = Digests(None), module.with_suffix("")
    texts: list[str] = []
    for change in (module.unlink, package.mkdir, (package / "__init__.py").touch):
        change()
        importlib.invalidate_caches()
        texts += world.imported_now([f"imported {NAME}"], digests).values()
    assert texts[:2] == ["absent", "a directory"] and texts[2] not in texts[:2]


def test_a_file_that_is_executed_is_told_by_its_path(module: Path) -> None:
    """Unless it is a module that was imported meanwhile, or Python's."""
    digests, before = Digests(None), world.loaded()
    assert [*world.imported(before, (), (str(module), os.__file__), digests)] == [f"file {module}"]
    importlib.import_module(NAME)
    assert [*world.imported(before, (), (str(module),), digests)] == [f"imported {NAME}"]


def test_a_module_in_a_directory_without_code_is_found_without_its_parents(module: Path) -> None:
    """At any depth: neither the package nor the directory within it is loaded, as `jaxlib.mlir` before JAX is."""
    package, digests, before = module.with_suffix(""), Digests(None), world.loaded()
    names = [package.name, f"{package.name}.inner", f"{package.name}.inner.deep", f"{package.name}.inner.deep.leaf"]
    (package / "inner" / "deep").mkdir(parents=True)
    module.unlink()
    (package / "__init__.py").touch()
    (package / "inner" / "deep" / "leaf.py").write_text("RATE = 1\n")
    importlib.import_module(names[-1])
    found = world.imported(before, (), (), digests)
    for name in names:
        del sys.modules[name]
    assert f"imported {names[-1]}" in found
    assert world.imported_now(found, digests) == found and names[0] not in sys.modules
