"""Executables whose keys depend on another directory, as the ledger or a sample tells."""

import os
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.ledger_contents import Content, record_contents
from jcache.store.store import Store
from jcache.verify.misplaced import NONE_MISPLACED, MisplacedExecutables, find_misplaced
from jcache.verify.path_keys import maker_text
from tests.helpers.entries import add, digits, executable, key

OLD = "/no such place/old"
MAKER = {"cache_path": OLD, "xla_options": f"{1 << 512:x}", "platform": None}


def filled(root: Root, origin: str | None = None) -> Store:
    """A root whose ledger knows two executables that are keyed for another path; a third it does not know."""
    store = Store(root)
    for number in range(3):
        add(root.path, key(number), executable())
    known = [Known(Kind.EXECUTABLES, key(n), digits(n), 10, origin=origin, jaxlib="0.10.2") for n in range(2)]
    store.ledger.record(known)
    record_contents(store.ledger, [Content(digits(n), "zstd", 1, maker_text(MAKER)) for n in range(2)])
    return store


def test_what_the_ledger_knows(plain: Root, tmp_path: Path) -> None:
    """It counts those that are there and keyed for another path, of those whose insides it knows."""
    with filled(plain) as store:
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == MisplacedExecutables({OLD: 2}, 2)
        (plain.path / f"{key(0)}-cache").unlink()
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == MisplacedExecutables({OLD: 1}, 1)
        made = maker_text(MAKER | {"cache_path": str(tmp_path)})
        record_contents(store.ledger, [Content(digits(1), "zstd", 1, made)])
        leading = tmp_path / "leads there"
        leading.symlink_to(plain.path)
        made = maker_text(MAKER | {"cache_path": str(leading)})
        record_contents(store.ledger, [Content(digits(1), "zstd", 1, made)])
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories


def test_a_relative_path(plain: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no other directory where it leads to the one at hand, from where we are."""
    name = os.path.relpath(plain.path, tmp_path)
    with filled(plain) as store:
        told = maker_text(MAKER | {"cache_path": name})
        record_contents(store.ledger, [Content(digits(number), "zstd", 1, told) for number in (0, 1)])
        monkeypatch.chdir(tmp_path)
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories
        monkeypatch.chdir("/")
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories == {name: 2}


def test_portable_keys(plain: Root) -> None:
    """What `jcache.enable()` stored hits anywhere, whatever its options name."""
    with filled(plain, origin="program") as store:
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories


def test_a_sample(plain: Root) -> None:
    """Where the ledger knows nothing a few entries are read; damaged ones tell nothing, nor does an empty root."""
    with Store(plain) as store:
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == NONE_MISPLACED
        add(plain.path, key(1), b"nonsense")
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES), sample=9) == NONE_MISPLACED
        add(plain.path, key(2), executable())
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES), sample=9) == MisplacedExecutables({}, 1)
