"""Search trees and triangulations are stored by their points and options, where these give the same ones."""

from typing import Any

import pytest

from jcache.errors import NotStorable
from jcache.formats.pytrees import dump
from tests.formats.pytrees.test_pytrees import again
from tests.helpers.package_values import same, tree

pytest.importorskip("scipy")


@pytest.mark.parametrize("kind", ["KDTree", "cKDTree"])
@pytest.mark.parametrize(
    "options", [{}, {"leafsize": 2}, {"balanced_tree": False}, {"compact_nodes": False}, {"boxsize": 3.0}], ids=str
)
def test_trees_come_back(kind: str, options: dict[str, Any]) -> None:
    """The tree of a hit was built with the same options, which scipy does not tell."""
    made = tree(kind, 80, 3, 5, options)
    found = again(made)
    assert same(made, found) and found.leafsize == made.leafsize


def test_an_empty_tree_comes_back() -> None:
    """A tree without points is stored as well."""
    assert again(tree("cKDTree", 0, 2, 1, {})).n == 0


def test_triangulations_come_back() -> None:
    """A triangulation has the same simplices, also where what scipy derives from them was asked for."""
    made = tree("Delaunay", 40, 2, 5, {})
    made.transform, made.vertex_to_simplex  # noqa: B018  which scipy keeps
    assert same(made, again(made))


@pytest.mark.parametrize("options", [{"incremental": True}, {"qhull_options": "QJ Pp"}], ids=str)
def test_what_other_options_have_made_is_refused(options: dict[str, Any]) -> None:
    """A triangulation that its points alone do not give, or that may get more of them, is not stored."""
    with pytest.raises(NotStorable, match=r"come back changed|more points"):
        dump(tree("Delaunay", 20, 2, 5, options))


def test_changed_points_are_refused() -> None:
    """A tree whose points were changed after it was built is none that can be built of them."""
    made = tree("cKDTree", 60, 2, 5, {})
    made.data[3] = 9
    with pytest.raises(NotStorable, match="its points and options"):
        dump(made)
