"""The dtypes of numpy as values, each of a class in ``numpy.dtypes`` (since numpy 1.25), stored as those of arrays."""

from __future__ import annotations

from typing import Any, Final

from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.dtypes import describe, restore

_SIZES: Final = "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float16 Float32 Float64 Complex64 Complex128"
_OTHERS: Final = "Bool Bytes DateTime64 Str TimeDelta64 Void"


def _dtype(_: Any, state: Any) -> object:  # noqa: ANN401 - its class follows from the state
    return restore(state)


ADAPTERS: Final = {
    f"numpy.dtypes:{name}DType": ClassAdapter(describe, _dtype, is_exact=True) for name in f"{_SIZES} {_OTHERS}".split()
}
