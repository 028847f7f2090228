"""The progress bar that counts items."""

import re
import sys

import pytest

from jcache.cli import progress


def test_items_pass_through_with_a_bar_that_counts_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, the bar shows the action and the count, and the items pass unchanged."""
    monkeypatch.setattr(progress, "_may_draw", lambda: True)
    monkeypatch.setattr(progress, "_APPEARS_AFTER_S", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(progress.progress(["a", "b", "c"], "removing")) == ["a", "b", "c"]
    assert re.search(r"removing.*\d/3", capsys.readouterr().err, re.DOTALL)


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe the items pass, and stderr stays empty."""
    assert not sys.stderr.isatty()
    assert list(progress.progress(range(3), "removing")) == [0, 1, 2]
    assert capsys.readouterr().err == ""
