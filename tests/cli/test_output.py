"""What is printed: streams that are closed or full, encodings that lack characters, tables of 80 columns."""

import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from jcache.cli import output
from tests.helpers.command_line import Jcache, Result, call
from tests.helpers.terminals import Terminal

JCACHE = f"'{sys.executable}' -m jcache"


def shell(command: str, **env: str) -> Result:
    result = call(["bash", "-c", command], env=env)
    assert "Traceback" not in result.err + result.out, result
    return result


@pytest.mark.full
@pytest.mark.parametrize("command", ["info", "ls", "ls -q", "du", "env", "stats", "completion bash", "--version"])
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(jax_cache: Path, command: str, streams: str) -> None:
    """A closed stream discards all output, and is no failure."""
    assert shell(f"{JCACHE} {command} {streams}", JCACHE_DIR=str(jax_cache)).code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["info", "ls --json", "ls -q", "--version"])
def test_output_that_cannot_be_written(jax_cache: Path, command: str) -> None:
    """Data that is lost is exit 1."""
    assert shell(f"{JCACHE} {command} > /dev/full", JCACHE_DIR=str(jax_cache)).code == 1


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_narrow_encodings(jax_cache: Path, encoding: str) -> None:
    """Characters that an encoding lacks are escaped."""
    for command in ("info", "ls", "du", "prune --keep-last 1 -n"):
        assert shell(f"{JCACHE} {command}", JCACHE_DIR=str(jax_cache), PYTHONIOENCODING=encoding).code == 0


@pytest.mark.parametrize("command", [["info"], ["ls"], ["du"], ["prune", "-n", "--keep-last", "0"]])
def test_tables_keep_their_numbers_in_eighty_columns(jcache: Jcache, cache: Path, command: list[str]) -> None:
    """On 80 columns, only long names are shortened, never a number or a heading."""
    long = cache / ("jit_" + "a_long_name_" * 14 + "-" + "a" * 64 + "-cache")
    long.write_bytes(next(cache.glob("jit_train-*-cache")).read_bytes())
    for i in range(3):
        (cache / f"a file with quite a long name for a file {i}").touch()
    jcache("pin", "jit_convert_element_type", "--root", cache)
    code, lines = Terminal(*command, "--root", str(cache)).finish()
    assert code == 0
    table = [line for line in lines if not line.startswith(str(cache)[:20]) and "`" not in line]
    assert max(map(len, table)) <= 80, table
    cut = [line for line in table if "…" in line and "more" not in line]
    assert all(line.split("…")[0].startswith(("jit_", "unknown files")) for line in cut), cut
    assert not any(line.rstrip().endswith("…") and not line.startswith("unknown files") for line in cut), cut


def test_a_table_that_fits_is_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blanks part the columns, so nothing is cut where a table just fits; Rich 13 needs two columns more."""
    columns = [("key", "fold"), ("size", "right"), ("function", "fold")]
    rows = [("k" * 20, "7 B", "f" * 20)]
    needed = 48 if int(version("rich").partition(".")[0]) > 13 else 50
    for width in (47, needed):
        monkeypatch.setattr(output, "_FILE_COLUMNS", width)
        for lines in (True, False):
            output.rich(output.table(columns, rows, lines=lines))
            assert ("…" not in capsys.readouterr().out) == (width == needed)
        assert output.fits(columns, rows) == (width == needed)


@pytest.mark.parametrize("columns", [pytest.param(60, marks=pytest.mark.full), 80])
def test_sentences_break_at_words_and_never_in_a_command(jcache: Jcache, cache: Path, columns: int) -> None:
    """On a terminal, a line is longer than it only where one word or command is, and each command is in one line."""
    store = f"file://{cache.parent}/store"
    jcache("push", store, "--root", cache)
    damaged = next(cache.glob("jit_train-*-cache"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    kept = next(path for path in cache.glob("*-cache") if path != damaged)
    kept.write_bytes(next(path for path in cache.glob("*-cache") if path not in (kept, damaged)).read_bytes())
    for words in (
        ["info"], ["verify"], ["verify", "--quick"], ["verify", "--repair"], ["info"], ["quarantine", "list"],
        ["push", store], ["pull", store], ["pull", store, "--dry-run", "--replace"], ["stats"], ["run", "--", "true"],
        ["prune", "--keep-last", "1", "-n"], ["explain"], ["config"], ["pin", "nothing"], ["show", "nothing"],
    ):  # fmt: skip
        for line in Terminal(*words, "--root", cache, columns=columns).finish()[1]:
            assert line.count("`") % 2 == 0, (words, line)
            assert len(line) <= columns or len(re.findall(r"`[^`]*`|\S+", line)) <= 2, (words, line)


@pytest.mark.parametrize("streams", ["2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_the_program_s_exit_code_outlives_our_streams(tmp_path: Path, streams: str) -> None:
    """Whatever happens to the report, `run` returns the program's exit code."""
    assert shell(f"{JCACHE} run --root '{tmp_path}/root' -- sh -c 'exit 4' {streams}").code == 4


def test_a_list_that_is_written_item_by_item_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    """`as_json_list` and `as_json` print the same values, also for no items."""
    cases: list[list[dict[str, Any]]] = [[], [{"a": 1}], [{"a": "größe"}, {"b": [None, 0.5]}]]
    for items in cases:
        output.as_json_list({"root": "/r"}, "items", iter(items), version=2)
        one = capsys.readouterr().out
        output.as_json({"root": "/r", "items": items}, version=2)
        assert json.loads(one) == json.loads(capsys.readouterr().out)
        assert one.isascii() and len(one.splitlines()) == (6 + len(items) if items else 5)


def test_a_number_with_its_noun() -> None:
    """One has the singular, everything else the plural, and thousands are separated."""
    assert [output.count(n, "entry", "entries") for n in (0, 1, 1000)] == ["0 entries", "1 entry", "1,000 entries"]


def test_what_a_terminal_would_obey_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in a text are printed as escapes, and markup of Rich's means nothing."""
    output.data("a\x1b[31mb")
    output.rich(output.table([("name", "left")], [["[bold]x\x07"]]))
    shown = capsys.readouterr().out
    assert "a\\x1b[31mb" in shown and "[bold]x\\x07" in shown
