"""The report of `prune`, `clear` and `rm`."""

from pathlib import Path

from tests.helpers.command_line import Jcache, keys, keys as keys_in


def test_prune_says_what_it_kept_and_why(jcache: Jcache, cache: Path) -> None:
    """The report counts removed and kept entries, with the reasons."""
    jcache("pin", "jit_train", "--root", cache)
    out = jcache("prune", "--root", cache, "--max-entries", "4").out
    assert "Removed" in out and "over the bound" in out
    assert "1 pinned" in out and "3 within the bounds" in out
    assert len(keys(cache)) == 4


def test_what_is_not_named_is_not_counted(jcache: Jcache, cache: Path) -> None:
    """The report speaks of the named entries alone: it does not say that none is kept where the others stay."""
    for more in (["--dry-run"], ["--yes"]):
        result = jcache("rm", "jit_train", *more, "--root", cache)
        assert result.code == 0 and "1 named" in result.out and "keep" not in result.out and "Kept" not in result.out
    assert len(keys_in(cache)) > 1
    jcache("pin", "jit_sin", "--root", cache)
    kept = jcache("rm", "jit_sin", "--yes", "--root", cache)
    assert kept.code == 0 and "Kept 1 entry" in kept.out and "1 pinned" in kept.out
