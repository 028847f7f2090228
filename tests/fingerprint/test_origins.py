"""Where code comes from: the standard library, an installed package, jcache, or the user."""

import functools
import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jcache
from jcache.errors import JcacheError
from jcache.fingerprint import origins
from jcache.fingerprint.call import Fingerprint
from tests.helpers.fingerprints import write


class Mine(Path): ...


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        (json.__file__, origins.STDLIB),
        (os.path.join(os.path.dirname(json.__file__), "..", "abc.py"), origins.STDLIB),
        ("<frozen importlib._bootstrap>", origins.STDLIB),
        ("<string>", None),
        ("<ipython-input-1>", None),
        (jcache.__file__, origins.OURS),
        (np.__file__, "numpy"),
        ("/opt/lib/python3/site-packages/grid/cells.py", "grid"),
        ("/opt/lib/python3/site-packages/grid.py", "grid"),
        ("/opt/lib/python3/site-packages/grid.cpython-311-x86_64-linux-gnu.so", "grid"),
        ("/usr/lib/python3/dist-packages/grid", "grid"),
        ("/home/ada/site-packages.py", origins.USER),
        ("/home/ada/model.py", origins.USER),
        (__file__, origins.USER),
    ],
)
def test_a_path_tells_where_code_comes_from(path: str, origin: str | None) -> None:
    """By its directory; what is no path tells nothing."""
    assert origins.of_path(path) == origin


def test_other_files_beside_packages_are_the_users_unless_they_are_recorded(tmp_path: Path) -> None:
    """Whatever a distribution's record names has been installed with it."""
    site = tmp_path / "site-packages"
    write(
        site, {"grid-1.dist-info/RECORD": 'grid/rates.yaml,sha256=x,1\r\n"grid/a,b.yaml",,\r\n', "grid/mine.yaml": ""}
    )
    names = ("grid/rates.yaml", "grid/a,b.yaml", "grid/mine.yaml", "rates.yaml")
    assert [origins.of_path(str(site / name)) for name in names] == ["grid", "grid", origins.USER, origins.USER]


def test_a_module_comes_from_where_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a file is of the interpreter, of the package that has made it, or else the user's."""
    monkeypatch.setattr(origins, "_modules", {})
    made, of_json = types.ModuleType("made"), types.ModuleType("json.made")
    space = types.ModuleType("space")
    space.__path__ = [str(tmp_path / "site-packages" / "space")]
    modules = [sys, json, np, jcache, sys.modules[__name__], made, of_json, space]
    expected = ["stdlib", "stdlib", "numpy", "jcache", "", "", "stdlib", "space"]
    assert [origins.of_module(each) for each in modules] == expected
    made.__file__ = np.__file__
    again = types.ModuleType("made")
    again.__file__ = json.__file__
    assert origins.of_module(again) == origins.STDLIB  # another module of the same name
    assert origins.of_module_named("no_such_module") == origins.USER


def test_a_package_without_a_file_may_outlive_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for its directories in the parent's: it counts as the user's where the parent is gone."""
    (tmp_path / "jcache_outer" / "inner").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    inner = importlib.import_module("jcache_outer.inner")
    del sys.modules["jcache_outer"], sys.modules["jcache_outer.inner"]
    assert origins.of_module(inner) == origins.USER


def test_a_module_that_is_not_imported_is_found_and_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package tells where it would come from."""
    write(tmp_path, {"site-packages/grid_a/__init__.py": "1 / 0", "grid_b.py": "1 / 0"})
    for path in (tmp_path, tmp_path / "site-packages"):
        monkeypatch.syspath_prepend(str(path))
    names = ("grid_a.cells", "grid_b", "json.tool", "no_such_module", "")
    assert [origins.of_unimported(name) for name in names] == ["grid_a", origins.USER, origins.STDLIB, None, None]
    assert {"grid_a", "grid_b"}.isdisjoint(sys.modules)


def test_what_a_library_has_under_its_name_is_found() -> None:
    """Functions, classes and methods, and nothing that was put in their place, nor what is the user's."""

    def mine() -> None: ...

    wrapped = functools.wraps(json.dumps)(mine)
    found: list[Any] = [
        json.dumps,
        json.JSONDecoder,
        json.JSONDecoder.decode,
        vars(Path)["home"].__func__,
        dict,
        np.ndarray,
    ]
    assert all(map(origins.is_findable, found))
    others: list[Any] = [mine, wrapped, type("JSONDecoder", (), {"__module__": "json"}), Mine]
    assert not any(map(origins.is_findable, others))


def test_the_users_code_is_the_users_whatever_module_it_names() -> None:
    """`functools.wraps` gives a function the name of a library's, and a library may wrap a function of the user's."""

    @functools.wraps(np.linalg.cond)
    def cond(x: object) -> object:
        return x

    class Counting:
        def __call__(self) -> None: ...

    for value in (cond, functools.lru_cache(cond), functools.update_wrapper(Counting(), np.linalg.cond)):
        assert value.__module__ == np.linalg.cond.__module__ and origins.has_code_of_the_user(value)
    for other in (np.linalg.cond, np.add, functools.wraps, functools.lru_cache(json.dumps), len, os.path):
        assert not origins.has_code_of_the_user(other)


def test_the_name_of_a_class_has_its_module_but_for_those_of_jcache() -> None:
    """Whose modules may move."""
    assert origins.path_of(json.JSONDecoder) == "json.decoder.JSONDecoder"
    assert origins.path_of(Mine) == f"{__name__}.Mine"
    assert (origins.path_of(Fingerprint), origins.path_of(JcacheError)) == ("jcache.Fingerprint", "jcache.JcacheError")
