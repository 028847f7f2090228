"""The two sides of the contract: JAX's own cache, whatever its version, and jcache's store over the same directory."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Final, Self

import pytest

from jcache.layout import Kind, Root
from jcache.store.put_result import Outcome
from jcache.store.store import Store
from tests.helpers.entries import files_of, recency_of
from tests.helpers.waiting import LIMIT_S

ALWAYS_SIDECARS: Final = (0, 5, 0)  # the last JAX that writes them without a bound, too
NEEDS_SIDECARS: Final = (0, 11, 1)  # the last JAX whose bounded put fails on an entry without one (jax#39880)
EXECUTABLES: Final = Kind.EXECUTABLES


def jax_version() -> tuple[int, ...]:
    import jax

    return tuple(jax.__version_info__[:3])


class Jax:
    """JAX's own cache of a directory; it may warn of nothing but an entry larger than the bound."""

    def __init__(self, directory: Path, bound: int | None = None, timeout: float = LIMIT_S) -> None:
        from jax._src.lru_cache import LRUCache

        self._cache = LRUCache(str(directory), max_size=-1 if bound is None else bound, lock_timeout_secs=timeout)
        self._directory = directory

    def put(self, a_key: str, data: bytes) -> Outcome:
        present = os.path.lexists(self._directory / f"{a_key}-cache")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self._cache.put(a_key, data)  # the second parameter has had two names
        if said:
            (warning,) = said
            assert "exceeds the maximum cache size" in str(warning.message)
            return Outcome.TOO_LARGE
        return Outcome.PRESENT if present else Outcome.STORED

    def get(self, a_key: str) -> bytes | None:
        data: bytes | None = self._cache.get(a_key)
        return data


class Jcache:
    """jcache's store over a plain JAX directory."""

    def __init__(self, directory: Path, bound: int | None = None, timeout: float = LIMIT_S) -> None:
        self.store = Store(Root(directory, plain=True), max_bytes=bound, lock_timeout=timeout)

    def put(self, a_key: str, data: bytes) -> Outcome:
        return self.store.put(EXECUTABLES, a_key, data)

    def get(self, a_key: str) -> bytes | None:
        return self.store.get(EXECUTABLES, a_key)

    def close(self) -> None:
        self.store.close()


class Both:
    """Both sides on one directory."""

    def __init__(self, directory: Path, bound: int | None = None) -> None:
        self._directory = directory
        self._bound = bound
        self.jax = Jax(directory, bound)
        self.jcache = Jcache(directory, bound)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.jcache.close()

    def __getitem__(self, name: str) -> Jax | Jcache:
        return self.jax if name == "JAX" else self.jcache

    def renew(self, name: str) -> None:
        """Replace a side by one of another process, which knows nothing yet."""
        if name == "JAX":
            self.jax = Jax(self._directory, self._bound)
        else:
            self.jcache.close()
            self.jcache = Jcache(self._directory, self._bound)


both_ways = pytest.mark.parametrize(("one", "other"), [("JAX", "jcache"), ("jcache", "JAX")])
with_and_without = pytest.mark.parametrize("bound", [None, 10**9], ids=["unbounded", "bounded"])


def fresh(tmp_path: Path) -> Path:
    """A directory for one example of many."""
    return Path(tempfile.mkdtemp(dir=tmp_path))


def contents(directory: Path) -> dict[str, bytes]:
    return {a_key: (directory / f"{a_key}-cache").read_bytes() for a_key in files_of(directory)}


def in_order(directory: Path) -> list[str]:
    """The keys from least to most recently used; each entry has its sidecar, and no sidecar is alone."""
    present = files_of(directory).keys()
    assert {p.name.removesuffix("-atime") for p in directory.glob("*-atime")} == present
    return sorted(present, key=lambda a_key: (recency_of(directory, a_key), a_key))
