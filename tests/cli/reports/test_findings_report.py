"""The report of `jcache verify`."""

import os
from pathlib import Path

import pytest

from jcache.findings import Damage, Remedy
from jcache.formats.digest import is_digest
from tests.helpers.command_line import LEGACY, Jcache
from tests.helpers.damaged import OLD, SOUND, damage, small_root, unchanged
from tests.helpers.entries import add, key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_root(tmp_path / "root")


def test_findings_are_a_table_and_the_next_command(jcache: Jcache, root: Path) -> None:
    """Exit 1; kind of damage, entry, evidence and remedy; the summary counts them and names the next command."""
    bad = damage(root)
    before = unchanged(root)
    result = jcache("verify", "--root", root)
    assert result.code == 1 and unchanged(root) == before
    head, _, row, *_ = result.out.splitlines()
    assert head.split() == ["damage", "where", "evidence", "remedy"]
    assert row.startswith("torn") and bad[:-56] in row and row.rstrip().endswith("quarantine")
    assert "1 finding" in result.out and f"`jcache verify --repair --root {root}`" in result.out


def test_how_much_is_printed(jcache: Jcache, root: Path) -> None:
    """-q prints only the summary; -v prints whole keys and every row, of which the table otherwise has forty."""
    for i in range(45):
        damage(root, 100 + i)
    (quiet,) = jcache("verify", "-q", "--root", root).out.splitlines()
    assert "45 findings" in quiet
    shown, verbose = jcache("verify", "--root", root).out, jcache("verify", "-v", "--root", root).out
    assert sum(line.startswith("torn") for line in shown.splitlines()) == 40 and "5 more: -v" in shown
    assert all(key(100 + i) in verbose for i in range(45))


def test_json(jcache: Jcache, root: Path) -> None:
    """--json prints one document, with counts and bytes as integers, and every fact of each finding."""
    bad = damage(root)
    (root / key(99)).write_bytes(LEGACY)
    result = jcache("verify", "--json", "--root", root)
    value = result.json
    assert result.code == 1 and value["schema_version"] == 1 and value["clean"] is False
    counts = ("entries", "bytes", "checked_entries", "checked_bytes", "unchanged_entries", "rewritten_entries")
    assert all(type(value[name]) is int for name in (*counts, "being_written")) and value["entries"] == 12
    (finding,) = value["findings"]
    assert finding["damage"] in set(Damage) and finding["remedy"] in {r.replace(" ", "_") for r in Remedy}
    assert (finding["kind"], finding["key"]) == ("executables", bad)
    assert finding["path"] == str(root / f"{bad}-cache") and is_digest(finding["digest"])
    assert finding["expected_digest"] is None and finding["evidence"]
    assert [note["damage"] for note in value["notes"]] == ["legacy"]
    assert value["loads"] is None and value["repaired"] is None
    repaired = jcache("verify", "--repair", "--json", "--root", root).json
    assert repaired["repaired"] == {"quarantined": 1}
    assert repaired["findings"][0]["outcome"] == "quarantined" and repaired["findings"][0]["quarantine_id"]
    clean = jcache("verify", "--json", "--root", root)
    assert clean.code == 0 and clean.json["clean"] is True and clean.json["unchanged_entries"] == 11


def test_repair_tells_what_it_did(jcache: Jcache, root: Path) -> None:
    """The table shows what was done; a young file is left alone, with the reason and exit 1, until it is old enough."""
    damage(root)
    result = jcache("verify", "--repair", "--root", root)
    assert result.code == 0 and "quarantined" in result.out and "jcache quarantine list" in result.out
    add(root, key(2), SOUND[:-5])
    left = jcache("verify", "--repair", "--root", root)
    assert left.code == 1 and "left" in left.out and (root / f"{key(2)}-cache").exists()
    assert jcache("verify", "--repair", "--grace", "0s", "--root", root).code == 0
    assert jcache("verify", "--root", root).code == 0


@pytest.mark.full
def test_names_of_any_bytes(jcache: Jcache, root: Path) -> None:
    """Names of other alphabets, with markup, or no text at all, do not disturb a report."""
    for name in ("jit_größe", "jit_[bold]x", "jit_ x"):
        add(root, key(7, name), b"junk", written_ns=OLD)
    (root / os.fsdecode(b"odd\xff-cache")).touch()
    for option in ("-v", "--json", "--ndjson"):
        env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        result = jcache("verify", option, "--root", root, env=env)
        assert result.code == 1 and "[bold]x" in result.out
