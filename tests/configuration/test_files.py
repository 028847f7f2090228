"""The files of settings, the user's and a root's, and which value wins."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given, strategies as st

from jcache.configuration import files
from jcache.configuration.files import Configuration, configuration, for_program
from jcache.configuration.settings import SETTINGS, Source
from jcache.errors import CannotWrite, InvalidValue
from jcache.layout import Root
from tests.configuration.test_settings import TOML
from tests.helpers.entries import tree

BOUND = "JAX_COMPILATION_CACHE_MAX_SIZE"


def in_root(root: Root, data: str | bytes) -> None:
    root.state.mkdir(exist_ok=True)
    root.settings.write_bytes(data if isinstance(data, bytes) else data.encode())


def of(root: Root | None, user: Path, **more: str) -> Configuration:
    return configuration(root, {"JCACHE_CONFIG": str(user), **more})


@pytest.mark.parametrize("sources", list(itertools.product([False, True], repeat=3)), ids=str)
def test_precedence(plain: Root, tmp_path: Path, sources: tuple[bool, bool, bool]) -> None:
    """The environment wins over the root, the root over the user, and each says where its value comes from."""
    user, by_root, by_environment = sources
    if user:
        (tmp_path / "user.toml").write_text('max_size = "1GiB"\norder = "cost"')
    if by_root:
        in_root(plain, 'max_size = "2GiB"')
    found = of(plain, tmp_path / "user.toml", **({BOUND: "3"} if by_environment else {}))
    expected: list[tuple[bool, tuple[Any, ...]]] = [
        (by_environment, (3, "3", Source.ENVIRONMENT, BOUND)),
        (by_root, (2 << 30, "2GiB", Source.ROOT, str(plain.settings))),
        (user, (1 << 30, "1GiB", Source.USER, str(tmp_path / "user.toml"))),
        (True, (None, None, Source.DEFAULT, None)),
    ]
    assert found.values["max_size"] == next(value for holds, value in expected if holds)
    assert found.value("order") == ("cost" if user else "lru") and found.values.keys() == SETTINGS.keys()


def test_the_environment_can_take_a_bound_away(plain: Root, tmp_path: Path) -> None:
    """JAX's -1 means no bound, whatever the files say; what JAX cannot read sets nothing."""
    in_root(plain, "max_size = 7")
    assert of(plain, tmp_path / "none", **{BOUND: "-1"}).values["max_size"][:3] == (None, "-1", Source.ENVIRONMENT)
    for text in ("", "x", "-2", "1GiB", "9" * 30, "٣"):
        assert of(plain, tmp_path / "none", **{BOUND: text}).value("max_size") == 7
    assert of(plain, tmp_path / "none", **{BOUND: "7", "JCACHE_RUN_MAX_SIZE": "7"}).values["max_size"].source == "root"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_size = ", "is not TOML"), ("max_size = 'much'", "max_size: 'much' is not a size"),
        ("max_siz = 1", "did you mean 'max_size'"),
        ("a" * 9, "is not TOML"), ("keep_last = -1", "-1 is not a whole number"), ("x = " + "[" * 9999, "is not TOML"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_the_user(tmp_path: Path, text: str, said: str) -> None:
    """A command says what is wrong with it and where; a program is told the same, and goes on without it."""
    path = tmp_path / "user.toml"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=said) as raised:
        of(None, path)
    assert str(path) in str(raised.value)
    found, faults = for_program(None, {"JCACHE_CONFIG": str(path)})
    assert faults == (str(raised.value),) and not any(found.is_set(name) for name in SETTINGS)


def test_a_user_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A directory in its place is told; none at all is no fault."""
    with pytest.raises(InvalidValue, match="cannot be read"):
        of(None, tmp_path)
    assert not of(None, tmp_path / "none").faults


def test_where_the_user_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the configuration directory of XDG, unless JCACHE_CONFIG names another file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert files.user_file({}) == tmp_path / "jcache" / "jcache.toml"
    assert files.user_file({"JCACHE_CONFIG": "~/x.toml"}) == Path.home() / "x.toml"


@given(st.dictionaries(st.sampled_from(list(SETTINGS)) | st.text(max_size=5), TOML.filter(lambda v: v is not None)))
def test_a_root_is_input(tmp_path_factory: pytest.TempPathFactory, table: dict[str, object]) -> None:
    """Whatever a root's file says, it sets limits, order and what to keep at most, and each other part is told."""
    root = Root(tmp_path_factory.mktemp("root"), plain=True)
    try:
        in_root(root, tomlkit.dumps(table))
    except (ValueError, TypeError, tomlkit.exceptions.TOMLKitError):
        return
    found = configuration(root, {"JCACHE_CONFIG": os.devnull})
    taken = {name for name, one in found.values.items() if one.source is Source.ROOT}
    assert taken <= {name for name, known in SETTINGS.items() if known.in_root}
    assert all(found.faults) and (found.faults or len(taken) == len(table))


@given(st.binary(max_size=200) | st.text(alphabet="max_size=\"'[]{}#\n1G", max_size=60).map(str.encode))
def test_random_bytes_in_a_root(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """They are passed over with a sentence, and nothing is raised."""
    root = Root(tmp_path_factory.mktemp("root"), plain=True)
    in_root(root, data)
    found = configuration(root, {"JCACHE_CONFIG": os.devnull})
    assert all(one.source in (Source.ROOT, Source.DEFAULT) for one in found.values.values())


def test_what_is_not_read_in_a_root(plain: Root, beyond: Path) -> None:
    """A link, a directory, a FIFO and a file of a megabyte are passed over, and told."""
    plain.state.mkdir()
    path = plain.settings
    (beyond / "precious").read_text()
    for plant in (
        lambda: path.symlink_to(beyond / "precious"), path.mkdir, lambda: os.mkfifo(path),
        lambda: path.write_bytes(b"#" * (1 << 20)),
    ):  # fmt: skip
        plant()
        found = configuration(plain, {"JCACHE_CONFIG": os.devnull})
        assert len(found.faults) == 1 and not any(found.is_set(name) for name in SETTINGS), found
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_change_keeps_the_rest(tmp_path: Path) -> None:
    """Comments, blank lines and the order of other settings stay; setting and removing a setting is no change."""
    text = b'# of the team\nmax_size = "1GiB"  # agreed\n\norder = "cost"\n'
    path = tmp_path / "user.toml"
    changed = files.change(text, path, {"max_size": "2GiB"})
    assert changed == text.replace(b"1GiB", b"2GiB")
    added = files.change(text, path, {"keep_last": 3})
    assert added == text + b"keep_last = 3\n" and files.change(added, path, {"keep_last": None}) == text
    with pytest.raises(InvalidValue, match="mend or remove it"):
        files.change(b"max_size = ", path, {"max_size": 1})


def test_writing_follows_no_link_below_a_root(plain: Root, beyond: Path) -> None:
    """Neither the state's directory nor the file is written through a link."""
    plain.state.symlink_to(beyond)
    with pytest.raises(CannotWrite, match=r"Cannot write .*jcache\.toml"):
        files.write_root(plain, b"max_size = 1\n")
    plain.state.unlink()
    plain.state.mkdir()
    plain.settings.symlink_to(beyond / "precious")
    before = tree(beyond)
    files.write_root(plain, b"max_size = 1\n")
    assert tree(beyond) == before and configuration(plain, {"JCACHE_CONFIG": os.devnull}).value("max_size") == 1


def test_a_linked_user_file_stays_a_link(tmp_path: Path) -> None:
    """If the user's file is a link, as to a directory of dotfiles, the file that it leads to is changed."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "user.toml").symlink_to(tmp_path / "dotfiles" / "jcache.toml")
    files.write_user(tmp_path / "user.toml", b"keep_last = 1\n")
    assert (tmp_path / "user.toml").is_symlink() and of(None, tmp_path / "user.toml").value("keep_last") == 1
