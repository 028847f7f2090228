"""Directories that keys depend on, and what lies in another one, as the ledger or a sample tells."""

import os
from pathlib import Path

import pytest

from jcache.jax_internals.path_keys import in_keys
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.ledger_contents import Content, record_contents
from jcache.store.store import Store
from jcache.verify.misplaced import NONE_MISPLACED, MisplacedExecutables, find_misplaced
from jcache.verify.path_keys import describe_portable_keys, directory_in_key, maker_text, parse_maker, version_numbers
from jcache.verify.path_spellings import find_spellings, named_directories
from tests.helpers.entries import add, digits, executable, key

OLD = "/no such place/old"
MAKER = {"cache_path": OLD, "xla_options": f"{1 << 512:x}", "platform": None}


def test_versions() -> None:
    """Versions are compared by their numbers, whatever follows them."""
    assert version_numbers("0.4.31+cuda12.cudnn89") == (0, 4, 31)
    assert version_numbers("0.11.0.dev20260101") == version_numbers("0.11.0") > version_numbers("0.10.2")
    assert version_numbers("0.12.0.1") == (0, 12, 0, 1)
    assert version_numbers("unknown") == ()


@pytest.mark.parametrize(
    ("version", "has"),
    [("0.4.35", False), ("0.4.36", True), ("0.6.2", True), ("0.10.2", True), ("0.11.0", False), ("0.12.0.1", False)],
)
def test_versions_with_the_path_in_keys(version: str, has: bool) -> None:
    """JAX hashes its directory from 0.4.36 to 0.10.2, and so do keys by the record of what made them."""
    assert in_keys(version) is has
    assert directory_in_key(OLD, version, 1 << 300, portable=False) == (OLD if has else None)
    assert directory_in_key(OLD, version, 1 << 300, portable=True) is None


@pytest.mark.parametrize(("newest", "keyed"), [(392, True), (512, True), (514, False), (557, False), (None, True)])
def test_what_has_no_record(newest: int | None, keyed: bool) -> None:
    """Whether the path is in the key is told by the newest of XLA's options, those of jaxlib 0.10.2 ending at 512."""
    options = None if newest is None else 1 << newest
    assert directory_in_key(OLD, None, options, portable=False) == (OLD if keyed else None)
    assert directory_in_key(None, None, options, portable=False) is None


def test_what_is_remembered() -> None:
    """What is told comes back, and nothing comes of another version's text."""
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


def test_keys_that_jax_alone_does_not_look_for(plain: Root) -> None:
    """It is told where jcache has stored entries for a jax that has the path in its keys, without reading any."""
    ways = [("seen", "0.10.2"), ("run", "0.11.0"), ("program", None), ("copy", "0.4.35"), ("import", "0.10.2")]
    with Store(plain) as store:
        for number, (origin, jaxlib) in enumerate([*ways, ("program", "0.10.2")]):
            assert describe_portable_keys(store) is None
            known = Known(Kind.EXECUTABLES, key(number), digits(number), 10, origin=origin, jaxlib=jaxlib)
            store.ledger.record([known])
        sentence = describe_portable_keys(store)
        assert sentence is not None and f"jcache run --root {plain.path}" in sentence


@pytest.mark.parametrize("number", [0, 1, 300, 5000])
def test_spellings_that_are_known_need_no_entry(plain: Root, tmp_path: Path, number: int) -> None:
    """The directory, and each path that leads to it, are tried however many entries there are and whatever they say."""
    for each in range(number):
        (plain.path / f"{key(each)}-cache").write_bytes(b"nonsense")
    link = tmp_path / "link"
    link.symlink_to(plain.path)
    with Store(plain) as store:
        texts, seen = find_spellings(store, [str(link), f"{link}/", str(tmp_path / "elsewhere"), "gs://bucket/x"])
    assert texts == (str(plain.path), str(link)) and not seen


def test_what_was_given() -> None:
    """Arguments come first, then both variables, then what was given to the `jcache run` above."""
    environment = {"JCACHE_DIR": "a", "JAX_COMPILATION_CACHE_DIR": "b", "JCACHE_RUN_DIRECTORIES": "c\nd"}
    assert named_directories(environment, "first", None, "") == ["first", "a", "b", "c", "d"]
    assert named_directories({}) == []


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
