"""The fields of entries: the same names in columns, orders, filters, JSON, completion, help and reference."""

import pytest

from jcache.admin.fields import FIELDS
from jcache.cli.commands.completion import answer
from tests.helpers.command_line import H200, Jcache
from tests.helpers.documents import ROOT

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
