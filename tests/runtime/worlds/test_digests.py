"""Digests of files, which a root remembers."""

import os
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runtime.worlds import digests
from jcache.runtime.worlds.digests import Digests, is_secret, short, variables_in


def read(path: str) -> list[str]:
    """Return the digest of a file."""
    return [short(Path(path).read_bytes())]


def unread(path: str) -> list[str]:
    """Fail: the file must not be read."""
    pytest.fail(f"{path} is read again")


def test_a_file_is_read_once_as_long_as_it_is_unchanged(native: Root, tmp_path: Path) -> None:
    """A later process takes the digest from the root, until inode, size or modification time is another."""
    path = tmp_path / "a.py"
    path.write_text("1")
    first = Digests(native)
    assert first.of(str(path), path.stat(), read) == first.of(str(path), path.stat(), unread) == [short(b"1")]
    first.save()
    assert Digests(native).of(str(path), path.stat(), unread) == [short(b"1")]
    os.utime(path, ns=(1, 1))
    assert Digests(native).of(str(path), path.stat(), lambda _: ["now"]) == ["now"]


@pytest.mark.parametrize("damage", [b"", b"x", b"\n{}", b'{"a":["1"]}'])
def test_damaged_digests_are_made_again(native: Root, tmp_path: Path, damage: bytes) -> None:
    """The file has a checksum of its own."""
    path = tmp_path / "a.py"
    path.write_text("1")
    first = Digests(native)
    first.of(str(path), path.stat(), read)
    first.save()
    (native.worlds / digests.NAME).write_bytes(damage)
    assert Digests(native).of(str(path), path.stat(), lambda _: ["again"]) == ["again"]


def test_a_root_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    """Saving fails in silence, and so does a missing root."""
    (tmp_path / "file").touch()
    for root in (Root(tmp_path / "file", plain=False), None):
        some = Digests(root)
        assert some.of("a", os.stat(tmp_path), lambda _: ["1"]) == ["1"]
        some.save()


def test_names_of_variables_are_found_in_a_source() -> None:
    """A constant in capitals may name one, and so may what is asked of the environment."""
    source = b"""x = {'RATE': 1, "no": 2, 'LR': 3, "X": 4}
    os.environ.get("rate_of"); os.getenv('half'); os.environ["Mixed"]; env["lr_scale"]; my_env.get(
        "deep")"""
    assert variables_in(source) == {"RATE", "LR", "rate_of", "half", "Mixed", "lr_scale", "deep"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("password", "hunter2"), ("API_KEY", "x9"), ("hf_token", "hf_abcdefghijklmnop"),
     ("token", "token: 'a1b2c3d4e5f6g7h8'"), ("client_secret", "a"), ("PASSWD", "PASSWD=no1")],
)  # fmt: skip
def test_secrets_are_known_by_names_and_values(name: str, value: str) -> None:
    """A value may stand in a line behind its name."""
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("pad_token", "pad_token: -100"), ("mask_token", "mask_token = '<mask>'"), ("PAD_TOKEN", "-1"),
     ("secret_dim", "64"), ("bandpassWidth", "0.25"), ("bandpassWidth", "wide"), ("token", "token: [CLS]"),
     ("auth_key_size", "auth_key_size: 128"), ("use_secret", "true"), ("passes", "3"),
     ("tokens", "abcdefghijklmnopqr"), ("passwd", "")],
)  # fmt: skip
def test_numbers_and_words_are_no_secrets(name: str, value: str) -> None:
    """They are settings, whatever their names sound like."""
    assert not is_secret(name, value)
