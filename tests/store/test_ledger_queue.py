"""Records that wait for the ledger: written in batches, dropped with their entries, and never a reason to fail."""

import shutil

import pytest

from jcache.layout import Kind, Root
from jcache.store.ledger import Known, Ledger
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.ledger_removals import removals
from tests.helpers.entries import key

KIND = Kind.EXECUTABLES


@pytest.fixture
def queue(plain: Root) -> LedgerQueue:
    return LedgerQueue(plain, Ledger(plain.ledger))


def on_record(root: Root) -> set[str]:
    return set(Ledger(root.ledger).known(KIND))


def test_records_are_written_in_batches(plain: Root, queue: LedgerQueue) -> None:
    """Nothing is written until 64 records wait, or until somebody asks for it."""
    for number in range(63):
        queue.add(Known(KIND, key(number)))
    assert not plain.ledger.exists()
    queue.add(Known(KIND, key(63)))
    assert len(on_record(plain)) == 64
    queue.add(Known(KIND, key(64)))
    queue.flush()
    assert len(on_record(plain)) == 65


def test_what_is_known_of_a_removed_entry_is_forgotten(plain: Root, queue: LedgerQueue) -> None:
    """That holds for what waits and for what is on record; what is put under the key later is another entry."""
    queue.add(Known(KIND, key(1), "a" * 32))
    queue.flush()
    queue.add(Known(KIND, key(2), "b" * 32))
    for number in (1, 2):
        queue.forget(KIND, key(number))
    queue.add(Known(KIND, key(2), "c" * 32))
    queue.flush()
    assert {k: known.digest for k, known in Ledger(plain.ledger).known(KIND).items()} == {key(2): "c" * 32}


def test_a_dropped_record_is_not_written(plain: Root, queue: LedgerQueue) -> None:
    """What is on record of the key stays."""
    queue.add_many([Known(KIND, key(1)), Known(KIND, key(2))])
    queue.drop(KIND, key(1))
    queue.flush()
    assert on_record(plain) == {key(2)}


def test_a_root_that_is_gone_is_not_made_again(plain: Root, queue: LedgerQueue) -> None:
    """Who removes a root while a program uses it does not get a part of it back."""
    queue.add(Known(KIND, key(1)))
    shutil.rmtree(plain.path)
    queue.flush()
    assert not plain.path.exists() and not queue.notices


def test_a_ledger_that_fails_gives_one_notice(plain: Root, queue: LedgerQueue) -> None:
    """Each way of failing is told once, and whoever asked goes on without an answer."""
    plain.state.write_text("no directory")
    for _ in range(2):
        queue.add(Known(KIND, key(1)))
        queue.flush()
    assert len(queue.notices) == len(set(queue.notices)) >= 1


@pytest.mark.parametrize(
    ("arguments", "remover"),
    [
        (["/usr/bin/jcache", "prune", "--max-size", "1G"], "jcache prune"),
        (["/x/jcache/__main__.py", "rm", "jit_step"], "jcache rm"),
        (["train.py", "--token", "secret"], "train.py"),
        (["/x/torax/__main__.py"], "torax"),
        (["-c"], "python"),
        ([""], "python"),
        ([], "python"),
        (["/x/\udcff.py"], "\\xff.py"),
    ],
)
def test_what_removed_an_entry_is_the_program_without_its_arguments(
    plain: Root, queue: LedgerQueue, monkeypatch: pytest.MonkeyPatch, arguments: list[str], remover: str
) -> None:
    """The name of the program is kept; of jcache the command as well, and of none an argument."""
    monkeypatch.setattr("sys.argv", arguments)
    queue.add(Known(KIND, key(1)))
    queue.flush()
    queue.forget(KIND, key(1))
    queue.flush()
    assert removals(queue.ledger, KIND)[key(1)].remover == remover
