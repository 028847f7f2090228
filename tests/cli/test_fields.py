"""The fields of entries: the same names in columns, orders, filters, JSON, completion, help and reference."""

import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from jcache.admin.fields import FIELDS, Source
from jcache.cli.commands.completion import answer
from jcache.layout import Kind, Root, short_key
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.command_line import H200, Jcache
from tests.helpers.documents import ROOT
from tests.helpers.entries import DAY, add, executable, key
from tests.helpers.terminals import WIDTHS, Terminal

LONG = "jit_a_function_with_a_name_that_is_longer_than_most_names_of_functions_are"
REFERENCE = (ROOT / "docs/reference/commands.md").read_text()
FLAGS = {"use_unknown", "legacy"}  # which say how to read the other fields


def candidates(*words: str) -> set[str]:
    return {line.partition("\t")[0] for line in answer(list(words))[1:]}


def test_the_sets_agree(jcache: Jcache) -> None:
    """JSON, columns, orders, filters, completion, help and the reference have the fields of the one table."""
    entry = jcache("ls", "stage", "--json", "--columns", ",".join(FIELDS), "--root", H200).json["entries"][0]
    assert entry.keys() - FLAGS == {field.json_name for field in FIELDS.values()}
    assert candidates("ls", "--filter", "") == candidates("ls", "--columns", "") == set(FIELDS)
    assert {text for text in candidates("ls", "--sort", "") if ":" not in text} == set(FIELDS)
    shown = " ".join(jcache("ls", "--help", env={"COLUMNS": "400"}).out.split())
    assert f"Fields: {', '.join(FIELDS)}." in shown
    section = REFERENCE.partition("\n## Fields\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    names = {field.name: ", ".join(f"`{name}`" for name in field.names) for field in FIELDS.values()}
    assert rows == [f"| {names[field.name]} | {field.help} | `{field.example}` |" for field in FIELDS.values()]


@pytest.mark.parametrize("name", sorted({name for field in FIELDS.values() for name in field.names}))
def test_every_name_is_a_column_and_an_order(jcache: Jcache, name: str) -> None:
    """A name that JSON has works on the command line as well; the heading is the name in the table."""
    lines = jcache("ls", "--columns", f"key,{name}", "--sort", f"{name}:desc", "--root", H200).out.splitlines()
    field = next(field for field in FIELDS.values() if name in field.names)
    assert lines[0].split() == (["key", field.name] if field.name != "key" else ["key"])
    assert len(lines) == 5 and all(len(line.split()) >= len(lines[0].split()) for line in lines[2:])


def test_columns_and_fields_of_content_on_request(jcache: Jcache) -> None:
    """What must be read from inside executables is in JSON if a column, a filter or the order asks for it."""
    content = {field.json_name for field in FIELDS.values() if field.source is Source.CONTENT}
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


def test_what_the_ledger_knows_is_listed(jcache: Jcache, native: Root) -> None:
    """Hits, jaxlib and run are columns, orders and JSON; an entry that nobody recorded was never hit."""
    for number in range(3):
        add(native.directory(Kind.EXECUTABLES), key(number), executable(number), used_ns=time.time_ns() - number * DAY)
    with Store(native) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, key(1), hits=1200, jaxlib="0.10.2", run="2026-a")])
    listed = jcache("ls", "--sort", "hits", "--json", "--root", native.path).json["entries"]
    assert [(e["hits"], e["jaxlib"], e["run"]) for e in listed] == [
        (1200, "0.10.2", "2026-a"),
        (0, None, None),
        (0, None, None),
    ]
    shown = jcache("ls", "--sort", "hits", "--columns", "hits,jaxlib,run", "--root", native.path).out.splitlines()
    assert [line.split() for line in shown[2:]] == [["1,200", "0.10.2", "2026-a"], ["0", "–", "–"], ["0", "–", "–"]]
    (native.ledger).write_bytes(b"damaged" * 1000)
    listed = jcache("ls", "--json", "--root", native.path).json["entries"]
    assert {entry["hits"] for entry in listed} == {None}  # unknown, and not never


def test_a_word_is_a_part_of_the_name(jcache: Jcache) -> None:
    """With or without --filter; all must hold."""
    stage = jcache("ls", "-q", "stage", "--root", H200).out
    assert stage.startswith("jit_stage-") and stage == jcache("ls", "-q", "--filter", "stage", "--root", H200).out
    assert jcache("ls", "-q", "jit_", "_or", "size>1", "--root", H200).out.startswith("jit_bitwise_or-")
    assert jcache("ls", "-q", "stage", "--filter", "convert", "--root", H200).out == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--filter", "devise=9.0"], "'devise' is not a field to filter by; did you mean 'device'?"),
        (["--sort", "last_used"], "'last_used' is not a field to sort by; did you mean 'used'?"),
        (["--columns", "key,bites"], "'bites' is not a column; did you mean 'bytes'?"),
        (["--columns", "key,,size"], "'' is not a column: choose from size, age,"),
        (["--columns", "colour"], "'colour' is not a column"),
        (["platform"], "is not a filter, but a field"),
        (["*"], "'*' is not a filter"),
        (["--kind", "trace"], "did you mean 'traces'?"),
    ],
)
def test_wrong_names_are_answered_with_near_ones(jcache: Jcache, words: list[str], says: str) -> None:
    """One message, exit code 2, and no table."""
    result = jcache("ls", *words, "--root", H200)
    assert (result.code, result.out) == (2, "") and says in result.err and len(result.err.splitlines()) == 1


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
