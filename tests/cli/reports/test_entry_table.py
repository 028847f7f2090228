"""Entries as rows of a table and as JSON."""

import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from jcache.admin.fields import FIELDS, FieldSource
from jcache.layout import short_key
from tests.helpers.command_line import H200, Jcache
from tests.helpers.entries import DAY, add, executable, key
from tests.helpers.terminals import WIDTHS, Terminal

LONG = "jit_a_function_with_a_name_that_is_longer_than_most_names_of_functions_are"


def test_columns_and_fields_of_content_on_request(jcache: Jcache) -> None:
    """What must be read from inside executables is in JSON if a column, a filter or the order asks for it."""
    content = {field.json_name for field in FIELDS.values() if field.source is FieldSource.CONTENT}
    assert content == {"platform", "device"}
    for words, more in (
        ([], set()), (["--columns", "device"], {"device"}), (["--filter", "platform=cuda"], {"platform"}),
        (["--sort", "device", "platform!=cpu"], content),
    ):  # fmt: skip
        listed = jcache("ls", *words, "--json", "--root", H200).json
        assert listed["schema_version"] == 2 and len(listed["entries"]) == 3
        assert all(entry.keys() & content == more for entry in listed["entries"])
    assert {e["device"] for e in jcache("ls", "--columns", "device", "--json", "--root", H200).json["entries"]} == {
        "cuda 9.0"
    }


@pytest.mark.full
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("verbose", [False, True])
def test_ls_at_every_width(jcache: Jcache, tmp_path: Path, columns: int, verbose: bool) -> None:
    """Keys are cut in the middle and keep their hash, what is printed can be given back, and -v cuts nothing."""
    keys = [key(0, LONG), key(1, LONG), key(2, "jit_f"), key(3, "jit_größe_数字_" * 4)]
    for number, a_key in enumerate(keys):
        add(tmp_path / "cache", a_key, executable(number), written_ns=time.time_ns() - DAY)
    code, lines = Terminal(
        "ls", *["-v"] * verbose, "--sort", "seconds:asc", "--root", tmp_path / "cache", columns=columns
    ).finish()
    rows = [line.split() for line in lines if "KiB" in line or " B " in line]
    assert code == 0 and len(rows) >= 4
    for row, a_key in zip(rows, keys, strict=False):
        if verbose:
            assert row[0] == a_key
            continue
        assert row[0].endswith(short_key(a_key)[-9:])
        assert ("…" in row[0]) == (row[0] != short_key(a_key))
        assert jcache("show", "-q", row[0], "--root", tmp_path / "cache").out.split() == [a_key]
        assert jcache("rm", "-n", "--json", row[0], "--root", tmp_path / "cache").json["removed"][0]["key"] == a_key
    if not verbose:
        assert all(cell_len(line) <= columns for line in lines[: len(rows) + 2])


def test_ls_into_a_pipe_cuts_nothing(jcache: Jcache, tmp_path: Path) -> None:
    """There is no width there, and each row is a line."""
    add(tmp_path / "cache", key(0, LONG), executable())
    lines = jcache("ls", "--root", tmp_path / "cache", env={"COLUMNS": "60"}).out.splitlines()
    assert lines[2].split()[0] == short_key(key(0, LONG)) and len(lines) == 3
