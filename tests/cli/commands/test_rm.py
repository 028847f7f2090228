"""`jcache rm` as somebody uses it, and `prune --filter`."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.layout import Kind, Root, short_key
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.command_line import LEGACY, Jcache
from tests.helpers.entries import DAY, add, digits, executable, files_of, key, tree
from tests.helpers.terminals import WIDTHS, Terminal

LONG = "jit_a_function_with_a_name_that_is_longer_than_most_names_of_functions_are"
NOW = time.time_ns()


def fill(root: Root) -> list[str]:
    """Five executables, the n-th of n days ago, of which one is pinned; the last one has a long name."""
    keys = [key(0, "jit_train"), key(1, "jit_train"), key(2, "jit_eval"), key(3, "jit_eval_all"), key(4, LONG)]
    directory = root.directory(Kind.EXECUTABLES)
    for number, a_key in enumerate(keys):
        when = NOW - number * DAY - DAY
        add(directory, a_key, executable(number), used_ns=when, written_ns=when)
    with Store(root) as store:
        store.pins.add([(Kind.EXECUTABLES, keys[2])])
        store.ledger.record([Known(Kind.EXECUTABLES, keys[0], hits=3, jaxlib="0.12.0", run="2026-a")])
    return keys


@pytest.fixture
def keys(native: Root) -> list[str]:
    return fill(native)


def left(root: Root) -> set[str]:
    return set(files_of(root.directory(Kind.EXECUTABLES)))


def test_a_key_is_removed_and_told(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """With --yes it asks nothing, names what went, and leaves everything else as it was."""
    result = jcache("rm", "jit_eval_all", "--yes", "--root", native.path)
    assert result.code == 0 and not result.err
    assert short_key(keys[3]) in result.out and "Removed 1 entry" in result.out and "1 named" in result.out
    assert left(native) == {keys[n] for n in (0, 1, 2, 4)}
    assert jcache("verify", "--root", native.path).code == 0


@pytest.mark.parametrize("write", [lambda k: k, short_key, lambda k: k.rpartition("-")[2][:6], lambda k: k + "-cache",
                                   lambda k: f"{k[:7]}…{short_key(k)[-9:]}"])  # fmt: skip
def test_keys_as_ls_prints_them(jcache: Jcache, native: Root, keys: list[str], write: Callable[[str], str]) -> None:
    """Whole, short, by the hash, as a file, or cut in the middle."""
    done = jcache("rm", write(keys[0]), write(keys[4]), "-y", "--json", "--root", native.path).json
    assert {one["key"] for one in done["removed"]} == {keys[0], keys[4]}
    assert {one["reason"] for one in done["removed"]} == {"named"} and done["schema_version"] == 2
    assert left(native) == {keys[n] for n in (1, 2, 3)}


def test_off_a_terminal_it_needs_yes(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """Without it nothing is removed, and the exit code says that the command line was wrong."""
    before = tree(native.path)
    result = jcache("rm", "jit_eval_all", "--root", native.path)
    assert (result.code, result.out) == (2, "") and "rm would remove 1 entry" in result.err and "--yes" in result.err
    assert tree(native.path) == before


@pytest.mark.full
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_it_lists_and_asks_on_a_terminal(native: Root, keys: list[str], columns: int, answer: str, code: int) -> None:
    """What would go is on the screen before the question, whatever the width, and anything but yes is no."""
    terminal = Terminal("rm", "--filter", "used>3d", "--root", native.path, columns=columns)
    shown = terminal.answer(answer)
    assert f"{short_key(keys[3])}, executables, " in shown and "Remove 2 entries (" in shown
    ended, lines = terminal.finish()
    assert ended == code and left(native) == set(keys if code else keys[:3])
    assert ("Nothing was removed." in lines) is bool(code)
    table = [line for line in lines if line.endswith("matching the filter") and "Removed" not in line]
    assert len(table) == (0 if code else 2) and all(len(line) <= columns for line in table)
    endings = [short_key(a_key)[-9:] for a_key in sorted(keys[3:])]
    assert [line.split()[0][-9:] for line in table] == ([] if code else endings)


def test_a_dry_run_is_the_plan(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """It needs no --yes, changes nothing, and names exactly what the real run removes."""
    before = tree(native.path)
    planned = jcache("rm", "--filter", "eval", "-n", "--json", "--root", native.path).json
    text = jcache("rm", "--filter", "eval", "-n", "--root", native.path).out
    assert tree(native.path) == before and "Would remove 1 entry" in text
    done = jcache("rm", "--filter", "eval", "-y", "--json", "--root", native.path).json
    assert done | {"dry_run": True, "sidecars_made": 0} == planned | {"sidecars_made": 0}
    assert [one["key"] for one in done["removed"]] == [keys[3]] and done["removed"][0]["reason"] == "matched"


def test_pinned_entries_stay_and_are_named(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """By name or by filter, as with clear: exit code 0, and the report says which and why."""
    for words in (["jit_eval-"], ["--filter", "name=jit_eval"]):
        result = jcache("rm", *words, "-y", "--root", native.path)
        assert result.code == 0 and "Removed 0 entries" in result.out
        assert f"{short_key(keys[2])} is pinned" in result.out
        done = jcache("rm", *words, "-y", "--json", "--root", native.path).json
        assert done["kept_pinned"] == [{"key": keys[2], "kind": "executables"}]
    assert left(native) == set(keys)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "rm needs entries: name keys, or give --filter, not both"),
        (["jit_eval_all", "--filter", "size>0"], 2, "not both"),
        (["jit_eval_all", "--legacy"], 2, "--legacy is an option of --filter"),
        (["--filter", ""], 2, "is not a filter"),
        (["--filter", "size"], 2, "is not a filter, but a field"),
        (["--filter", "sise>3"], 2, "did you mean 'size'?"),
        (["--filter", "pinned=maybe"], 2, "neither yes nor no"),
        (["jit_train"], 1, "'jit_train' stands for 2 entries"),
        (["jit_"], 1, "stands for 5 entries"),
        ([""], 1, "has the key or prefix ''"),
        (["train"], 1, "No entry of"),
        (["jit_trian"], 1, "did you mean 'jit_train'?"),
        (["jit_*"], 1, "No entry of"),
        (["../native/executables/jit_eval"], 1, "No entry of"),
        (["jit_eval_all", "jit_nothing"], 1, "Nothing was removed."),
        (["jit_eval_all\n"], 1, "No entry of"),
        (["jit_eval_all", "--forced"], 2, "No such option '--forced'"),
        (["jit_eval_all", "--force"], 2, "did you mean '--yes'?"),
    ],
)
def test_wrong_values_remove_nothing(
    jcache: Jcache, native: Root, keys: list[str], words: list[str], code: int, says: str
) -> None:
    """Each is one message with what to do, an exit code as documented, and no change."""
    before = tree(native.path)
    result = jcache("rm", *words, "--yes", "--root", native.path)
    assert (result.code, result.out) == (code, "") and says in result.err and len(result.err.splitlines()) == 1
    assert {path: found[3] for path, found in tree(native.path).items()} == {p: found[3] for p, found in before.items()}


def test_a_filter_that_matches_nothing_is_done(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """There is nothing to confirm and nothing to do."""
    result = jcache("rm", "--filter", "hits>99", "--root", native.path)
    assert result.code == 0 and "Removed 0 entries" in result.out and left(native) == set(keys)


def test_filters_of_what_the_ledger_knows(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """Hits, jaxlib, run and pins select as in `ls`, which prints the same keys."""
    for text in ("hits=0", "hits>=3", "jaxlib<0.13", "run=2026-a", "pinned=no", "pinned=yes", "platform=cuda"):
        listed = jcache("ls", "-q", "--filter", text, "--root", native.path).out.split()
        planned = jcache("rm", "-n", "--filter", text, "--json", "--root", native.path).json
        named = [one["key"] for one in [*planned["removed"], *planned["kept_pinned"]]]
        assert sorted(named) == sorted(listed), text
    assert jcache("ls", "-q", "--filter", "hits>=3", "--root", native.path).out.split() == [keys[0]]


def test_legacy_entries_go_only_when_asked_for(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """A filter passes them over without --legacy, as `ls` does; a key names them as it names others."""
    for number in (7, 8):
        (native.directory(Kind.EXECUTABLES) / digits(number)).write_bytes(LEGACY)

    def there() -> set[int]:
        return {n for n in (7, 8) if (native.directory(Kind.EXECUTABLES) / digits(n)).exists()}

    assert jcache("rm", "--filter", "size>0", "-y", "--root", native.path).code == 0 and there() == {7, 8}
    assert jcache("rm", digits(7)[1:9], "-y", "--root", native.path).code == 1 and there() == {7, 8}
    assert jcache("rm", digits(7)[:9], "-y", "--root", native.path).code == 0 and there() == {8}
    assert jcache("rm", "--filter", "size>0", "--legacy", "-y", "--root", native.path).code == 0 and not there()


def test_where_there_is_no_cache(jcache: Jcache, tmp_path: Path) -> None:
    """The exit code is that of every command."""
    assert jcache("rm", "x", "-y", "--root", tmp_path / "none").code == 10


def test_prune_with_a_filter_is_about_what_matches(jcache: Jcache, native: Root, keys: list[str]) -> None:
    """Bounds count the matching entries, and nothing else is removed or even counted."""
    planned = jcache("prune", "--filter", "train", "--max-entries", "1", "--json", "--root", native.path).json
    assert [one["key"] for one in planned["removed"]] == [keys[1]] and planned["kept_entries"] == 1
    assert left(native) == {keys[n] for n in (0, 2, 3, 4)}
    result = jcache("prune", "--filter", "hits=0", "--filter", "used>1d", "--keep-last", "0", "--root", native.path)
    assert result.code == 0 and "1 pinned" in result.out and left(native) == {keys[0], keys[2]}
    assert jcache("prune", "--filter", "sise>1", "--keep-last", "0", "--root", native.path).code == 2
    assert jcache("prune", "--filter", "size>1", "--root", native.path).code == 2  # a filter alone is no criterion
