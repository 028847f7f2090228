"""Every measured figure of the pages names, in its place, the file of tests/ that measures it, or was taken by hand."""

import re
from pathlib import Path

import pytest

from tests.helpers.documents import ROOT, name_of, pages

NUMBER = r"(?<![\w.])(?:\d[\d.,]*|half[ ]an?|two|three|four|five|six|eight|ten|twelve|twenty|thirty)"
TIME = r"(?:µs|ms|s|seconds?|minutes?|hours?)"
SIZE = r"(?:KB|KiB|MB|MiB|GB|GiB|TB|TiB)"  # after a space: 20GiB is what somebody types
PART = r"(?:half|thirds?|quarters?|fifths?|tenths?)"
FIGURE = re.compile(
    rf"""
      {NUMBER}[ ]?{TIME}(?!\w) | {NUMBER}[ ]{SIZE}(?!\w) | {NUMBER}[ ]?[%×]   # 6.6 s, five minutes, 130 MiB, 16 ×
    | \b(?:milli|micro)seconds?\b                                            # about a microsecond
    | \btimes[ ](?:faster|slower|more|less|longer|as[ ](?:fast|long|much|many|large))\b | \btwice[ ]as\b
    | \b(?:half|{PART}[ ]of)[ ]the[ ](?:CPU[ ])?time\b | \b{PART}[ ](?:less|more|faster|slower)\b
    | (?<![\w.])0\.\d+[ ]of\b                                                # 0.58 of a tar's bytes
    | \bthousand[ ](?:random[ ])?points\b | \bin[ ](?:three|four|five|ten)[ ]pass\b | \bentries[ ]as[ ]at\b
    """,
    re.VERBOSE,
)
TEST_FILE = re.compile(r"\btests/(?:[a-z0-9_]+/)*(?:test_[a-z0-9_]+|conftest)\.py\b")
BY_HAND = re.compile(r"\bby hand\b.*\b20\d\d\b", re.DOTALL)  # and when

LIMITS = {  # limits, defaults and examples, which nobody measures
    "docs/explanation/traces.md": ["building takes less than 10 s"],
    "docs/how-to/graphs.md": ["that takes 10 s or longer to build"],
    "docs/how-it-is-built.md": ["in batches of at most 0.1 s"],
    "docs/how-to/cron.md": ["for 0.1 s at a time"],
    "docs/how-to/remote.md": [
        "left alone for 30 s",
        "1,000 entries or 256 MiB",
        "and 64 MiB of them",
        "left 3 s after the program's end",
    ],
    "docs/how-to/ship-a-cache.md": ["64 MiB must stay free", "the last 32 MiB may be missing"],
    "docs/how-to/use-in-a-program.md": ["then every half a minute", "this takes over 30 seconds"],
    "docs/how-to/warm-a-cluster.md": ["30 s at least and 10 minutes at most (15 s on the CPU), or 2 s after"],
    "docs/reference/archive.md": ["128 MiB at most"],
    "docs/reference/commands.md": ["such as 1/7, 5% or"],
    "docs/reference/docstrings.md": ["CODE, or 10 s", "take 10 s or longer to build"],
    "docs/reference/environment.md": ["10 s by default", "at most 32 MiB a root"],
    "docs/reference/formats.md": ["at most 4 MiB", "Here 3 seconds and"],
}


def prose(text: str) -> str:
    """Return the text of a page without code and comments, but with the names of tests."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)[^`]+\1", lambda code: " ".join(TEST_FILE.findall(code[0])) or "CODE", text)


def places(text: str) -> list[str]:
    """Return what a reader sees at once: each paragraph, each item of a list, each table with its neighbours."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n|\n(?=[ ]*(?:-|\d\.) )|(?<=[^|])\n(?=\|)", prose(text))]
    blocks = [" ".join(block.split()) for block in blocks if block]
    return [
        " ".join(blocks[max(at - 1, 0) : at + 2]) if block.startswith("|") else block for at, block in enumerate(blocks)
    ]


def bare_figures(text: str, limits: list[str]) -> list[str]:
    """Return the places of a page with a figure, but for limits, that neither names a test nor says "by hand"."""
    found = []
    for place in places(text):
        figures = place
        for limit in limits:
            figures = figures.replace(limit, "LIMIT")
        if FIGURE.search(figures) and not TEST_FILE.search(place) and not BY_HAND.search(place):
            found.append(f"{[match[0] for match in FIGURE.finditer(figures)]} in: {place}")
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_figure_names_what_measures_it(page: Path) -> None:
    """A figure stands beside the test or benchmark that measures it; limits are listed above."""
    assert not bare_figures(page.read_text(), LIMITS.get(name_of(page), []))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_test_on_a_page_exists(page: Path) -> None:
    """A page names no file of tests/ that is not there."""
    assert not [name for name in TEST_FILE.findall(page.read_text()) if not (ROOT / name).is_file()]


@pytest.mark.parametrize("page", LIMITS)
def test_every_limit_is_on_its_page(page: str) -> None:
    """The list of limits has none that its page has no more."""
    text = " ".join(prose((ROOT / page).read_text()).split())
    assert not [limit for limit in LIMITS[page] if limit not in text]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("It takes 20 s of CPU time.\n", 1),
        ("It takes 20 s of CPU time (`pytest tests/test_figures.py -s`).\n", 0),
        ("It takes 20 s of CPU time.\n\nSee `tests/test_figures.py`.\n", 1),
        ("It takes 20 s of CPU time, by hand.\n", 1),
        ("It takes 20 s of CPU time, by hand in 2026.\n", 0),
        ("- It is 16 × as fast.\n- So says `tests/test_figures.py`.\n", 1),
        ("By `tests/test_figures.py`:\n\n| a | 19 ms |\n|---|---|\n| b | 2 GB/s |\n", 0),
        ("| a | 19 ms |\n|---|---|\n| b | 2 GB/s |\n\nAll that is a table.\n", 1),
        ("It waits 10 s at most, and is three times faster.\n", 1),
        ("It waits 10 s at most, for `20 s`, with `--max-size 20GiB`.\n\n```\n3 s\n```\n", 0),
    ],
)
def test_figures_are_found(text: str, bare: int) -> None:
    """A figure is bare unless its paragraph, its item or what stands beside its table says where it is from."""
    assert len(bare_figures(text, ["waits 10 s at most"])) == bare
