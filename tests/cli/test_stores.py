"""Opening the store of a root for a command."""

from pathlib import Path

import pytest

from jcache.cli.stores import bound_variables, store_of
from jcache.errors import InvalidValue
from jcache.store.roots import create_root


def test_what_goes_wrong_is_told_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each notice of the store is a warning on stderr."""
    with store_of(create_root(tmp_path / "root")) as store:
        store.notices.append("the ledger is read-only.")
        assert capsys.readouterr().err == ""
    assert "the ledger is read-only." in capsys.readouterr().err


def test_the_time_for_locks_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is no time is refused."""
    monkeypatch.setenv("JCACHE_LOCK_TIMEOUT", "soon")
    with pytest.raises(InvalidValue, match="JCACHE_LOCK_TIMEOUT"), store_of(create_root(tmp_path / "root")):
        pass


def test_the_bound_of_a_file_is_a_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what a root's file should not say is told."""
    root = create_root(tmp_path / "root")
    assert bound_variables(root) == {}
    root.state.mkdir(exist_ok=True)
    (root.state / "jcache.toml").write_text('max_size = "1KB"\nnonsense = 1\n')
    assert bound_variables(root) == {"JAX_COMPILATION_CACHE_MAX_SIZE": "1000"}
    assert "nonsense" in capsys.readouterr().err
