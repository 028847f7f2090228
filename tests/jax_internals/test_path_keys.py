"""Which versions of JAX have the path in their keys, and what is tried for them."""

from pathlib import Path

import pytest

from jcache.jax_internals.path_keys import in_keys, is_file, trying, version_numbers, with_path_keys

pytestmark = pytest.mark.contract


@pytest.mark.parametrize(
    ("jax", "depend"),
    [("0.4.35", False), ("0.4.36", True), ("0.10.2", True), ("0.10.2+cuda12", True), ("0.11", False), ("?", False)],
)
def test_versions(jax: str, depend: bool) -> None:
    """The keys of jax 0.4.36 to 0.10.2 depend on the path."""
    assert in_keys(jax) is depend


def test_what_fails_is_a_miss(tmp_path: Path) -> None:
    """If trying another key fails, JAX's key is used, and the next key is tried again."""

    def fail(_: str) -> bool:
        raise OSError

    get = with_path_keys(lambda *_: "a-key", lambda: ["somewhere"], fail)
    assert get("module", "devices", "options") == "a-key" and not trying.now
    assert not is_file(str(tmp_path), "a-key")


def test_versions_are_numbers() -> None:
    """Versions are compared by their numbers, whatever follows them."""
    assert version_numbers("0.4.31+cuda12.cudnn89") == (0, 4, 31)
    assert version_numbers("0.11.0.dev20260101") == version_numbers("0.11.0") > version_numbers("0.10.2")
    assert version_numbers("0.12.0.1") == (0, 12, 0, 1)
    assert version_numbers("unknown") == ()
