"""Pins are files that outlive the ledger; while pins are unknown, nothing is removed."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jcache.admin.api import clear, prune
from jcache.errors import CannotWrite, LedgerUnavailable
from jcache.layout import Kind, Root
from jcache.store.eviction import everything
from jcache.store.ledger import Known, Ledger
from jcache.store.pins import Pins
from jcache.store.put_result import Outcome
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, digits, files_of, key, tree

EXECUTABLES = Kind.EXECUTABLES
NAMES = {(EXECUTABLES, key(1)), (EXECUTABLES, digits(2)), (Kind.TRACES, key(1)), (Kind.GRAPHS, key(3))}
DAMAGES, DAMAGES_FULL = 60, 1000


@pytest.fixture
def pins(plain: Root) -> Pins:
    return Pins(plain, Ledger(plain.ledger))


def pin_as_of_old(root: Root, *names: tuple[Kind, str]) -> None:
    """Pins entries as jcache 0.1 did, in the ledger alone."""
    ledger = Ledger(root.ledger)
    ledger.record(Known(kind, a_key, seconds=1.0, pinned_ns=NOW) for kind, a_key in names)
    ledger.record([Known(EXECUTABLES, key(number), digest="d" * 64) for number in range(200)])
    ledger.close()
    shutil.rmtree(root.pins)


def test_what_is_pinned_is_known(plain: Root, pins: Pins) -> None:
    """Entries of each kind, and of those that only old versions of JAX read; each is an empty file."""
    assert pins.known() == set()
    pins.add(NAMES)
    assert pins.known() == pins.known(sure=True) == NAMES
    files = {path.relative_to(plain.pins) for path in plain.pins.rglob("*") if path.is_file()}
    assert files == {Path(kind, a_key) for kind, a_key in NAMES}
    pins.remove([(EXECUTABLES, key(1)), (Kind.GRAPHS, key(9))])
    assert pins.known() == NAMES - {(EXECUTABLES, key(1))}
    assert pins.clear() == NAMES - {(EXECUTABLES, key(1))} and pins.known() == set()


def test_pins_of_a_ledger_are_copied(plain: Root, pins: Pins) -> None:
    """The first writer copies all pins of an old ledger; reading them changes nothing."""
    pin_as_of_old(plain, *NAMES)
    before = tree(plain.path)
    assert pins.known() == pins.known(sure=True) == NAMES
    assert tree(plain.path) == before
    pins.copy()
    plain.ledger.unlink()
    assert Pins(plain, Ledger(plain.ledger)).known() == NAMES


@pytest.mark.parametrize("act", ["add", "remove", "flush"])
def test_whoever_writes_copies_them(plain: Root, act: str) -> None:
    """Pinning, unpinning, and a program that stores an entry."""
    pin_as_of_old(plain, *NAMES)
    with Store(plain) as store:
        if act == "add":
            store.pins.add([(Kind.TRACES, key(7))])
        elif act == "remove":
            store.pins.remove([(Kind.TRACES, key(7))])
        else:
            store.put(EXECUTABLES, key(7), b"x")
    plain.ledger.write_bytes(b"damaged" * 1000)
    assert Pins(plain, Ledger(plain.ledger)).known() >= NAMES


def test_unpinning_what_the_ledger_still_holds(plain: Root, pins: Pins) -> None:
    """Unpinning also removes pins that an older jcache wrote into the ledger."""
    pins.add(NAMES)
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(5), pinned_ns=NOW)])
    assert pins.known() == NAMES | {(EXECUTABLES, key(5))}
    pins.remove([(EXECUTABLES, key(5))])
    assert pins.known() == NAMES


def test_a_ledger_that_never_held_pins_loses_none(plain: Root, pins: Pins) -> None:
    """A new ledger comes with a directory of pins, so its later damage makes no pin unknown."""
    add(plain.path, key(1))
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(1), seconds=1.0)])
    plain.ledger.write_bytes(b"damaged" * 1000)
    assert pins.known(sure=True) == set()
    assert len(clear(root=plain.path).removed) == 1


def remove_by_prune(root: Root) -> None:
    prune(root=root.path, keep_last=0)


def remove_by_clear(root: Root) -> None:
    clear(root=root.path)


def remove_by_plan(root: Root) -> None:
    with Store(root) as store:
        store.maintenance.execute(everything(store.entries()))


def remove_by_put(root: Root) -> None:
    with Store(root, max_bytes=1000) as store:
        store.put(EXECUTABLES, key(99), b"x" * 900)


@pytest.mark.parametrize("aside", [False, True], ids=["damaged", "set aside"])
@pytest.mark.parametrize("remove", [remove_by_prune, remove_by_clear, remove_by_plan, remove_by_put])
def test_nothing_is_removed_while_pins_are_not_known(
    plain: Root, pins: Pins, remove: Callable[[Root], None], aside: bool
) -> None:
    """Nothing is removed, however often it is tried, until the pins are named or given up."""
    for number in range(3):
        add(plain.path, key(number), 300, used_ns=NOW)
    pin_as_of_old(plain, (EXECUTABLES, key(1)))
    plain.ledger.write_bytes(b"damaged" * 1000)
    if aside:
        Ledger(plain.ledger).record([Known(EXECUTABLES, key(0), seconds=1.0)])
        assert list(plain.state.glob("ledger.sqlite3.damaged-*"))
    for _ in range(3):
        with pytest.raises(LedgerUnavailable, match=r"`jcache pin KEY --root .*`jcache unpin --all --root "):
            remove(plain)
    assert files_of(plain.path).keys() == {key(number) for number in range(3)}
    pins.add([(EXECUTABLES, key(1))])
    remove(plain)
    assert key(1) in files_of(plain.path)
    if remove is not remove_by_put:  # which needs room for one alone
        assert files_of(plain.path).keys() == {key(1)}
        pins.clear()
        remove(plain)
        assert not files_of(plain.path)


def test_a_put_that_needs_no_room_is_stored(plain: Root) -> None:
    """A put that evicts nothing works even if pins are unknown."""
    pin_as_of_old(plain, (EXECUTABLES, key(1)))
    plain.ledger.write_bytes(b"damaged" * 1000)
    with Store(plain, max_bytes=1000) as store:
        assert store.put(EXECUTABLES, key(9), b"x" * 900) is Outcome.STORED


def test_pins_that_cannot_be_read_or_written(plain: Root, pins: Pins, beyond: Path) -> None:
    """A file or a link in the place of the pins is reported in one sentence, and nothing is removed."""
    plain.pins.mkdir(parents=True)
    for what in ("file", "link"):
        shutil.rmtree(plain.pins) if plain.pins.is_dir() else plain.pins.unlink()
        plain.pins.write_text("") if what == "file" else plain.pins.symlink_to(beyond)
        with pytest.raises(LedgerUnavailable, match="The pins are not known"):
            pins.known()
        with pytest.raises(CannotWrite, match="pins"):
            pins.add(NAMES)


def damaged(ledger: Path, chance: random.Random) -> str:
    """Damage a file in one of many ways; return which."""
    data = bytearray(ledger.read_bytes())
    what = chance.choice(["flip", "flips", "page", "cut", "empty", "zeros", "text", "random"])
    start = chance.randrange(len(data))
    if what == "flip":
        data[start] ^= 1 << chance.randrange(8)
    elif what == "flips":
        for _ in range(100):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif what == "page":
        start -= start % 4096
        data[start : start + 4096] = chance.randbytes(4096)
    elif what in ("cut", "empty"):
        del data[start if what == "cut" else 0 :]
    else:
        length = chance.randrange(1, len(data) - start + 1)
        with_what = {"zeros": bytes(length), "text": b"text" * length, "random": chance.randbytes(length)}
        data[start : start + length] = with_what[what][:length]
    ledger.write_bytes(data)
    return what


@pytest.mark.full
@pytest.mark.parametrize("of_old", [False, True], ids=["pins as files", "pins in the ledger"])
def test_no_damage_to_the_ledger_loses_a_pin(tmp_path: Path, chance: random.Random, of_old: bool, full: bool) -> None:
    """After any damage to the ledger, a pinned entry survives prune, clear, a program and another prune."""
    refused = tried = 0
    for number in range(DAMAGES_FULL if full else DAMAGES):
        root = Root(tmp_path / str(number), plain=True)
        for i in range(3):
            add(root.path, key(i), 100, used_ns=NOW)
        pinned = (EXECUTABLES, key(1))
        if of_old:
            pin_as_of_old(root, pinned)
        else:
            Ledger(root.ledger).record([Known(EXECUTABLES, key(i), digest="d" * 64) for i in range(200)])
            Pins(root, Ledger(root.ledger)).add([pinned])
        what = damaged(root.ledger, chance)
        for remove in chance.sample([remove_by_prune, remove_by_clear, remove_by_put, remove_by_prune], 4):
            try:
                remove(open_root(root.path))
            except LedgerUnavailable as error:
                refused += of_old or "newer jcache" in str(error)
                tried += 1
            with Store(root) as store:
                store.put(EXECUTABLES, key(number + 1000), b"x")
            assert key(1) in files_of(root.path), what
        shutil.rmtree(root.path)
    assert refused == tried  # files say what is pinned, unless the ledger is of a jcache that may do otherwise


def test_a_killed_copy_leaves_the_pins_in_the_ledger(plain: Root, pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill, the directory of pins holds all of them or does not exist."""
    pin_as_of_old(plain, *NAMES)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        pins.copy()
    assert not plain.pins.exists() and not list(plain.state.glob(".jcache-tmp-*"))
    assert pins.known() == NAMES
    with closing(sqlite3.connect(plain.ledger)) as ledger:
        assert ledger.execute("SELECT count(*) FROM entries WHERE pinned_ns IS NOT NULL").fetchone() == (4,)
