"""Directories that keys depend on, and executables in another directory, by the ledger or a sample."""

import os
from pathlib import Path

import pytest

from jcache.jax_internals.path_keys import in_keys
from jcache.layout import Kind, Root
from jcache.store import ledger_contents
from jcache.store.ledger import Known
from jcache.store.ledger_contents import Content
from jcache.store.store import Store
from jcache.verify.path_keys import (
    NONE_MISPLACED,
    MisplacedExecutables,
    directory_in_key,
    find_misplaced,
    find_spellings,
    maker_text,
    named_directories,
    parse_maker,
)
from tests.helpers.entries import add, digits, executable, key

OLD = "/no such place/old"
MAKER = {"cache_path": OLD, "xla_options": f"{1 << 512:x}", "platform": None}


@pytest.mark.parametrize(
    ("version", "has"),
    [("0.4.35", False), ("0.4.36", True), ("0.6.2", True), ("0.10.2", True), ("0.11.0", False), ("0.12.0.1", False)],
)
def test_versions_with_the_path_in_keys(version: str, has: bool) -> None:
    """JAX 0.4.36 to 0.10.2 hashes its directory; a recorded version of jaxlib decides for an executable."""
    assert in_keys(version) is has
    assert directory_in_key(OLD, version, 1 << 300, portable=False) == (OLD if has else None)
    assert directory_in_key(OLD, version, 1 << 300, portable=True) is None


@pytest.mark.parametrize(("newest", "keyed"), [(392, True), (512, True), (514, False), (557, False), (None, True)])
def test_what_has_no_record(newest: int | None, keyed: bool) -> None:
    """Without a record, the newest of XLA's options decides: 512 is the last one of jaxlib 0.10.2."""
    options = None if newest is None else 1 << newest
    assert directory_in_key(OLD, None, options, portable=False) == (OLD if keyed else None)
    assert directory_in_key(None, None, options, portable=False) is None


def test_what_is_remembered() -> None:
    """A recorded maker is read back; a text of another version gives None."""
    assert parse_maker(maker_text(MAKER)) == {name: value for name, value in MAKER.items() if value is not None}
    for text in ("", "[1]", "1", "{}", '{"version": 1}'):
        assert parse_maker(text) is None


def filled(root: Root, origin: str | None = None) -> Store:
    """A root whose ledger knows two executables that are keyed for another path; a third it does not know."""
    store = Store(root)
    for number in range(3):
        add(root.path, key(number), executable())
    known = [Known(Kind.EXECUTABLES, key(n), digits(n), 10, origin=origin, jaxlib="0.10.2") for n in range(2)]
    store.ledger.record(known)
    ledger_contents.record_contents(store.ledger, [Content(digits(n), "zstd", 1, maker_text(MAKER)) for n in range(2)])
    return store


def test_what_the_ledger_knows(plain: Root, tmp_path: Path) -> None:
    """Executables whose keys contain another path are counted if they exist and the ledger knows their content."""
    with filled(plain) as store:
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == MisplacedExecutables({OLD: 2}, 2)
        (plain.path / f"{key(0)}-cache").unlink()
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == MisplacedExecutables({OLD: 1}, 1)
        ledger_contents.record_contents(
            store.ledger, [Content(digits(1), "zstd", 1, maker_text(MAKER | {"cache_path": str(tmp_path)}))]
        )
        leading = tmp_path / "leads there"
        leading.symlink_to(plain.path)
        ledger_contents.record_contents(
            store.ledger, [Content(digits(1), "zstd", 1, maker_text(MAKER | {"cache_path": str(leading)}))]
        )
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories


@pytest.mark.parametrize("number", [0, 1, 300, 5000])
def test_spellings_that_are_known_need_no_entry(plain: Root, tmp_path: Path, number: int) -> None:
    """The directory, and each named path that leads to it, are tried whatever the entries contain."""
    for each in range(number):
        (plain.path / f"{key(each)}-cache").write_bytes(b"nonsense")
    link = tmp_path / "link"
    link.symlink_to(plain.path)
    with Store(plain) as store:
        texts, seen = find_spellings(store, [str(link), f"{link}/", str(tmp_path / "elsewhere"), "gs://bucket/x"])
    assert texts == (str(plain.path), str(link)) and not seen


def test_what_was_given() -> None:
    """Arguments come first, then both variables, then the paths that the outer `jcache run` was given."""
    environment = {"JCACHE_DIR": "a", "JAX_COMPILATION_CACHE_DIR": "b", "JCACHE_RUN_DIRECTORIES": "c\nd"}
    assert named_directories(environment, "first", None, "") == ["first", "a", "b", "c", "d"]
    assert named_directories({}) == []


def test_a_relative_path(plain: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path that leads to the directory from here is not another directory."""
    name = os.path.relpath(plain.path, tmp_path)
    with filled(plain) as store:
        told = maker_text(MAKER | {"cache_path": name})
        ledger_contents.record_contents(store.ledger, [Content(digits(number), "zstd", 1, told) for number in (0, 1)])
        monkeypatch.chdir(tmp_path)
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories
        monkeypatch.chdir("/")
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories == {name: 2}


def test_portable_keys(plain: Root) -> None:
    """Entries that `jcache.enable()` has stored hit anywhere, whatever their options name."""
    with filled(plain, origin="program") as store:
        assert not find_misplaced(store, store.listing(Kind.EXECUTABLES)).directories


def test_a_sample(plain: Root) -> None:
    """Without records, a few entries are read; damaged entries and an empty root yield nothing."""
    with Store(plain) as store:
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES)) == NONE_MISPLACED
        add(plain.path, key(1), b"nonsense")
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES), sample=9) == NONE_MISPLACED
        add(plain.path, key(2), executable())
        assert find_misplaced(store, store.listing(Kind.EXECUTABLES), sample=9) == MisplacedExecutables({}, 1)
