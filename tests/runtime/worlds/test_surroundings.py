"""What surrounds a program: command, directory, interpreter and environment."""

import sys
import types
from pathlib import Path

import pytest

from jcache.runtime.worlds import surroundings


def taken(top: Path, *variables: str, packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the components."""
    return surroundings.take(str(top), variables, packages)[0]


def test_arguments_and_directory_count_from_the_programs_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a program that is moved with its data is in the same world."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    def of(name: str, *arguments: str) -> dict[str, str]:
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setattr(sys, "argv", ["program.py", *arguments])
        return taken(tmp_path / name)

    one = of("one", str(tmp_path / "one" / "data"))
    assert one == of("two", str(tmp_path / "two" / "data")) and one["directory"] == "."
    assert one["arguments"] != of("one", "data", "more")["arguments"]
    assert taken(tmp_path)["directory"] == "one"


ARGUMENTS = {  # what is changed of `--lr 1 --seed=2 -v data depth=3`, and the components that are others then
    "--lr 9 --seed=2 -v data depth=3": {"argument --lr"},
    "--lr 1 --seed=9 -v data depth=3": {"argument --seed"},
    "--lr 1 --seed=2 -v other depth=3": {"argument -v"},
    "--lr 1 --seed=2 -v data depth=9": {"argument depth"},
    "--seed=2 --lr 1 -v data depth=3": {"arguments"},
    "--lr 1 --seed=2 -v data depth=3 more": {"arguments", "argument 1"},
    "--lr 1 --seed=2 -v data depth=3 more=": {"arguments", "argument 1"},
    "--lr 1 --seed=2 -v data": {"arguments", "argument depth"},
    "--lr 1 --seed=2 -v data depth=3 --token=a": {"arguments", "argument --token"},
}


@pytest.mark.parametrize("changed", ARGUMENTS)
def test_each_option_counts_by_itself(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is learnt about a seed says nothing of a learning rate; the order counts as well."""
    found = []
    for text in ("--lr 1 --seed=2 -v data depth=3", changed):
        monkeypatch.setattr(sys, "argv", ["program.py", *text.split()])
        found.append(taken(tmp_path))
    assert {label for label, _ in found[0].items() ^ found[1].items()} == ARGUMENTS[changed]


def test_each_setting_of_an_option_counts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``--set lr=0.1 --set seed=1``, however it is written."""
    found = []
    for text in ("--set lr=0.1 --set=seed=1 --name a", "--set lr=0.1 --set=seed=2 --name a"):
        monkeypatch.setattr(sys, "argv", ["program.py", *text.split()])
        found.append(taken(tmp_path))
    assert {label for label, _ in found[0].items() ^ found[1].items()} == {"argument --set seed"}
    assert {"argument --set lr", "argument --name"} <= found[0].keys()


def test_the_value_of_an_option_that_is_a_secret_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its digest it could be guessed. Of another argument no text is kept but the name of an option."""
    found = []
    for secret in ("abc", "xyz"):
        monkeypatch.setattr(sys, "argv", ["program.py", "--api-key", secret, f"--password={secret}", "dG9r=="])
        found.append(taken(tmp_path))
    assert found[0] == found[1] and "dG9r" not in repr(found)


def test_variables_count_that_somebody_can_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of JAX and XLA, of a loaded package by its prefix, and what the program's own code names."""
    counts, others = (
        ("JAX_ENABLE_X64", "XLA_FLAGS", "TABLES_RATE", "RATE"),
        ("UNRELATED", "JAX_COMPILATION_CACHE_DIR", "TABLES_API_KEY"),
    )
    for name in (*counts, *others, "TPU_SKIP_MDS_QUERY"):
        monkeypatch.setenv(name, "one")
    monkeypatch.setenv("JCACHE_DIR", "/a")
    found = {label for label in taken(tmp_path, "RATE", packages=("tables", "os")) if label.startswith("environment ")}
    assert found >= {f"environment {name}" for name in counts}
    assert not found & {f"environment {name}" for name in (*others, "TPU_SKIP_MDS_QUERY", "JCACHE_DIR")}
    before = taken(tmp_path, "RATE")
    monkeypatch.setenv("RATE", "2")
    after = taken(tmp_path, "RATE")
    assert {label for label, _ in before.items() ^ after.items()} == {"environment RATE"}
    assert "2" not in after["environment RATE"].split()
    monkeypatch.setenv("APP_RATE", "1")
    assert "environment APP_RATE" in taken(tmp_path, "APP_") and "environment APP_RATE" not in taken(tmp_path, "APP")


def test_the_hash_seed_counts_where_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not set, each process has another one."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert "environment PYTHONHASHSEED" not in taken(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert "environment PYTHONHASHSEED" in taken(tmp_path)


def test_the_interpreter_counts_by_its_version(tmp_path: Path) -> None:
    """And its flags."""
    assert taken(tmp_path)["interpreter"] == f"CPython {sys.version.split()[0]}" and "flags" in taken(tmp_path)


def main_of(monkeypatch: pytest.MonkeyPatch, *command: str, **attributes: object) -> None:
    """Have a program that was started by a command."""
    main = types.ModuleType("__main__")
    vars(main).update(attributes)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "orig_argv", ["python", *command])


def test_a_program_of_the_command_line_counts_by_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the variables that it names."""
    monkeypatch.setenv("RATE", "1")
    main_of(monkeypatch, "-X", "dev", "-c", "print('RATE')")
    one = taken(tmp_path)
    main_of(monkeypatch, "-c", "print('RATE', 2)")
    assert one["code"] != taken(tmp_path)["code"] and "environment RATE" in one


def test_a_notebook_counts_by_the_cells_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order."""
    codes = []
    for cells in (["", "a = 1"], ["", "a = 1", "a = 2"]):
        main_of(monkeypatch, "-m", "ipykernel", In=cells)
        codes.append(taken(tmp_path)["code"])
    assert codes[0] != codes[1]


def test_what_a_kernel_is_started_with_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a file of this one process; what a cell writes into `sys.argv` counts."""
    found = []
    for argv in (["ipykernel_launcher.py", "-f", "a.json"], ["ipykernel_launcher.py", "-f", "b.json"], ["p.py", "b"]):
        monkeypatch.setattr(sys, "argv", argv)
        found.append(taken(tmp_path)["arguments"])
    assert found[0] == found[1] != found[2]


def test_a_program_that_nobody_can_read_again_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that came by standard input."""
    main_of(monkeypatch, "-")
    assert surroundings.take(str(tmp_path), (), ())[1] == "the program was not read from a file"
    main_of(monkeypatch, "p.py", __file__=str(tmp_path / "p.py"))
    assert surroundings.take(str(tmp_path), (), ())[1] is None
    assert surroundings.program_directory() == str(tmp_path)
