"""The progress bars: which items they count, and which of two on one terminal is drawn."""

import os
import re
import subprocess
import sys
from select import select

import pytest

from jcache.cli import progress
from tests.helpers.command_line import clean_environment
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S


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


BAR = """
import os, sys
from jcache.cli import progress
progress._APPEARS_AFTER_S = -1.0  # a bar is for what takes longer than a second
with progress.Bar(sys.argv[1]) as bar:
    os.write(1, b"ready\\n")  # a bar takes what is printed to the terminal
    for line in sys.stdin:
        bar.show(1, 2)
        os.write(1, b"done\\n")
"""


def test_one_bar_on_a_terminal() -> None:
    """If two processes share a terminal, the first one draws its bar, and the other one after that."""
    primary, secondary = open_terminal()
    env = clean_environment({"TERM": "xterm", "NO_COLOR": "1"})
    both = []
    for name in ("first", "second"):
        process = subprocess.Popen(
            [sys.executable, "-c", BAR, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=secondary,
            env=env, text=True,
        )  # fmt: skip
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
        both.append((process, process.stdin, process.stdout))
    shown = ""
    for (process, say, answer), name in ((both[1], ""), (both[0], "first"), (both[1], "second")):
        say.write("show\n")
        say.flush()
        assert answer.readline() == "done\n"
        while name not in shown:
            assert select([primary], [], [], LIMIT_S)[0], f"{name!r} is not in {shown!r}"
            shown += os.read(primary, 65536).decode()
        if name:
            say.close()
            answer.close()
            assert process.wait(LIMIT_S) == 0
    os.close(primary)
    os.close(secondary)
    assert list(dict.fromkeys(re.findall("first|second", shown))) == ["first", "second"]
