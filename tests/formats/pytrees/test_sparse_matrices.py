"""Sparse matrices are stored by their attributes; the flags that scipy has found out are among them."""

from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable, Unresolved
from jcache.formats.pytrees import dump
from jcache.formats.pytrees.sparse_matrices import ADAPTERS
from tests.formats.pytrees.test_pytrees import again
from tests.helpers.package_values import same, sparse

pytest.importorskip("scipy")


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_format_comes_back(name: str) -> None:
    """Each format of matrices and arrays has the same attributes in the same dtypes, and computes the same."""
    form, _, kind = name.partition(":")[2].partition("_")
    for touched in ("", "summed", "asked", "wide"):
        matrix = sparse(form, kind, 4, 5, "float32", 7, touched)
        found = again(matrix)
        assert same(matrix, found) and (found @ np.ones(5)).tolist() == (matrix @ np.ones(5)).tolist()


def test_unknown_attributes_are_refused() -> None:
    """An attribute that the program has given to a matrix cannot come back, and is a reason not to store it."""
    matrix: Any = sparse("csr", "array", 2, 2, "float64", 1, "")
    matrix.title = "mine"
    with pytest.raises(NotStorable, match="an attribute `title`"):
        dump(matrix)


def test_another_version_is_told() -> None:
    """A matrix whose attributes are those of another version of scipy cannot be made."""
    adapter = ADAPTERS["scipy.sparse:csr_array"]
    matrix = sparse("csr", "array", 2, 2, "float64", 1, "")
    state: Any = adapter.to_plain(matrix)
    del state["attributes"]["indptr"]
    with pytest.raises(Unresolved, match="other attributes"):
        adapter.from_plain(type(matrix), state)
