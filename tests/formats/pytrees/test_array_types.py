"""The dtypes of numpy come back as they were, or are not stored."""

from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable
from jcache.formats.pytrees.array_types import ADAPTERS
from tests.formats.pytrees.test_pytrees import again

pytestmark = pytest.mark.skipif(not hasattr(np, "dtypes"), reason="before numpy 1.25, dtypes have no classes of a name")
KINDS = ["?", "i1", ">i2", "<u8", "f2", "f4", ">f8", "c8", "c16", "S3", "U0", ">U2", "V5", "M8[3s]", "m8[ns]"]
DTYPES: list[Any] = [*map(np.dtype, KINDS), np.dtype([("a", "<i4"), ("b", "f8", (2,))], align=True)]


def test_a_dtype_comes_back_as_it_was() -> None:
    """With its order of bytes, its unit and its fields, by itself and within others."""
    for dtype, back in zip(DTYPES, again({"all": DTYPES})["all"], strict=True):
        assert back == dtype and back.str == dtype.str and type(back) is type(dtype)
        assert (back.names, back.isalignedstruct) == (dtype.names, dtype.isalignedstruct)


def test_each_class_of_dtypes_that_is_the_same_everywhere_has_an_adapter() -> None:
    """A dtype of objects, or one with the program's own metadata, is not stored."""
    assert {f"numpy.dtypes:{type(dtype).__name__}" for dtype in DTYPES} <= ADAPTERS.keys()
    assert all(hasattr(np.dtypes, name.partition(":")[2]) for name in ADAPTERS)
    for dtype in (np.dtype("O"), np.dtype("f8", metadata={"a": 1})):
        with pytest.raises(NotStorable, match=r"numpy\.dtypes"):
            again(dtype)
