"""The picture in README.md shows what jcache prints today."""

from pathlib import Path

import pytest

from tests.helpers.documents import ROOT, agree
from tests.helpers.terminal_picture import COMMANDS, PICTURE, draw, run, shown


def test_the_readme_shows_the_picture() -> None:
    """README.md shows the picture, which fetches nothing from elsewhere."""
    assert f"({PICTURE.relative_to(ROOT)})" in (ROOT / "README.md").read_text()
    assert "url(http" not in PICTURE.read_text()


def test_a_picture_shows_what_was_drawn() -> None:
    """What is drawn in colors is read back from the picture as it was printed."""
    outputs = ["\x1b[1mkey\x1b[0m   size  <b> & c\n\x1b[2mjit_step\x1b[0m  1 B\n", "─── 2 ·  x\n\nlast line\n"]
    assert shown(draw(outputs)) == ["key   size  <b> & c\njit_step  1 B\n", "─── 2 ·  x\n\nlast line\n"]


@pytest.mark.jax
def test_the_picture_is_that_of_today(tmp_path: Path) -> None:
    """The commands of the picture, run on a cache that a real program fills, print what it shows, but for figures."""
    for command, pictured, printed in zip(
        COMMANDS, shown(PICTURE.read_text()), shown(draw(run(tmp_path))), strict=True
    ):
        assert agree(command, pictured, printed), f"{command}\nis pictured as\n{pictured}\nand prints\n{printed}"
