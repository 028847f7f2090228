"""Rows that other programs wrote into a ledger: no command ends with a traceback."""

import json
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from jcache.entry import Columns, Snapshot
from jcache.layout import Kind, Root
from jcache.store import ledger_rows as rows
from jcache.store.ledger import Known, Ledger
from tests.helpers.command_line import call
from tests.helpers.entries import NOW, add, executable, files_of, key, tree

ODD = (
    None, -1, 0, 1, 2**63 - 1, -(2**63), 0.5, -0.5, float("inf"), 1e300, "", "x", "odd", "../../beyond/precious",
    "a\0b", "\x1b[31m", "9" * 30, b"", b"\xff\xfe", b"x" * 1000, "x" * 100_000, "executables", "[]", "{}", "null",
)  # fmt: skip
READERS = (
    ("info",), ("ls",), ("ls", "--sort", "seconds"), ("show", key(1)), ("du",), ("stats",), ("stats", "--run", "last"),
    ("stats", "--json"), ("stats", "--prometheus"), ("verify",), ("export", "-o", "/dev/null"),
    ("prune", "--max-entries", "9", "-n"), ("export", "--run", "last", "-o", "/dev/null"),
    ("ls", "--json"), ("info", "--json"), ("quarantine", "list"),
)  # fmt: skip
TABLES = ("entries", "runs", "contents", "makers", "economics", "home", "snapshots")
ROUNDS, ROUNDS_FULL = 12, 400


def test_values_that_fit() -> None:
    """Each column accepts exactly its type and range."""
    fitting = {
        rows.text: ("", "x"), rows.report: ("x" * 10_000,), rows.key: ("x", key(1)),
        rows.count: (0, 5), rows.number: (-1, 5), rows.seconds: (0, 1.5), rows.blob: (b"",),
    }  # fmt: skip
    for column, values in fitting.items():
        assert [column(value) for value in values] == list(values)
        assert column(None) is None and column([]) is None
    assert rows.kind("traces") is Kind.TRACES and rows.kind("other") is None
    odd = (rows.key, "a/b"), (rows.key, ""), (rows.key, "legacy/../x"), (rows.count, -1), (rows.count, "5")
    more = (
        (rows.seconds, -1),
        (rows.seconds, float("nan")),
        (rows.seconds, 1e300),
        (rows.text, "x" * 5000),
        (rows.blob, "x"),
    )
    assert all(column(value) is None for column, value in (*odd, *more))
    assert rows.hits(3) == 3 and rows.hits("odd") == 0


def test_rows_that_fit() -> None:
    """A row is read without its wrong values, if the necessary ones are right."""
    table = [("x", 1), ("y", "odd"), (b"z", 3)]
    assert rows.whole(table, (rows.text, rows.count), 1) == [["x", 1], ["y", None]]
    assert rows.whole(table, (rows.text, rows.count), 2) == [["x", 1]]
    assert rows.whole(None, (rows.text,), 1) == []


def fill(root: Root) -> None:
    """A root whose ledger has something in each table."""
    for number in range(3):
        add(root.path, key(number), executable(), used_ns=NOW)
    counts = dict.fromkeys(("hits", "stored", "not_stored", "bypassed"), 1)
    seconds = {f"{name}_seconds": 0.5 for name in ("trace", "lower", "compile", "retrieve", "saved")}
    report = {"id": "20260101T000000Z-aaaaaa", "command": ["x"], **counts, **seconds, "reasons": {"stored": {"new": 1}}}
    with closing(Ledger(root.ledger)) as ledger:
        ledger.record(Known(Kind.EXECUTABLES, key(n), "d" * 64, 9, 1.0, "run", "r", "0.10.2") for n in range(3))
        ledger.add_run(
            "20260101T000000Z-aaaaaa", NOW, json.dumps(report | {"programs": [{"key": key(1), "outcome": "hit"}]})
        )
        ledger.save_snapshot(str(root.path), Snapshot(1, 2, Columns.empty(), []))
    for command in (("verify",), ("export", "-o", "/dev/null")):
        jcache(root, *command)
    with closing(sqlite3.connect(root.ledger, isolation_level=None)) as database:
        database.execute(
            "CREATE TABLE economics (kind, name, builds, build_seconds, loads, load_seconds, spared_seconds)"
        )
        database.execute("INSERT INTO economics VALUES ('graphs', 'f', 1, 1.0, 1, 1.0, 1.0)")


def jcache(root: Root, *arguments: str) -> None:
    done = call([sys.executable, "-m", "jcache", *arguments, "--root", str(root.path)])
    assert done.code in (0, 1, 3) and "Traceback" not in done.err, (arguments, done.err[-2000:])


def make_odd(ledger: Path, chance: random.Random) -> list[tuple[str, str, object]]:
    """Put wrong values into some columns of a ledger, without constraints; return these columns."""
    done: list[tuple[str, str, object]] = []
    with closing(sqlite3.connect(ledger, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        for table in chance.sample(TABLES, 3):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]  # names of our own
            for column in chance.sample(columns, min(2, len(columns))):
                value = chance.choice(ODD)
                try:
                    database.execute(f"UPDATE {table} SET {column} = ?", (value,))
                    done.append((table, column, value))
                except sqlite3.Error:  # what the column does not take
                    continue
    return done


@pytest.mark.full
def test_odd_ledgers_are_read(plain: Root, tmp_path: Path, beyond: Path, chance: random.Random, full: bool) -> None:
    """Every reading command works with any values in the ledger, and entries stay."""
    fill(plain)
    whole, before = plain.ledger.read_bytes(), tree(beyond)
    for _ in range(ROUNDS_FULL if full else ROUNDS):
        plain.ledger.write_bytes(whole)
        odd = make_odd(plain.ledger, chance)
        for reader in READERS if full else chance.sample(READERS, 5):
            try:
                jcache(plain, *reader)
            except AssertionError as error:
                raise AssertionError(odd) from error
        assert len(files_of(plain.path)) == 3 and tree(beyond) == before


def test_a_snapshot_of_names_that_lead_elsewhere(plain: Root, beyond: Path) -> None:
    """The keys in it are checked as keys before anything is done with them."""
    add(plain.path, key(1), executable(), used_ns=NOW)
    for a_key in ("../beyond/precious", f"../{key(1)}", "", f"x/{key(1)}"):
        columns = Columns.empty()
        columns.keys.append(a_key)
        for column in columns[1:]:
            column.append(1)
        changed = plain.path.stat().st_mtime_ns
        ledger = Ledger(plain.ledger)
        ledger.save_snapshot(str(plain.path), Snapshot(changed, changed + 10**11, columns, []))
        assert ledger.load_snapshot(str(plain.path)) is None
        ledger.close()
    before = tree(beyond)
    jcache(plain, "prune", "--max-entries", "0")
    assert not files_of(plain.path) and tree(beyond) == before
