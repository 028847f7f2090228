"""Arbitrary texts in sentences and commands."""

import random
import subprocess

import pytest
from hypothesis import given, strategies as st

from jcache.text import quoted, shown, wrapped

TEXTS = [
    "plain",
    "two words",
    "it's",
    "$HOME",
    "a\u3000b",
    "a\xa0b",
    "ü",
    "👨\u200d👩",
    "a\tb",
    "a\nb\\'c",
    "\x1b[31m",
    "\u202ea",
    "\x7f\x85",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_word_of_a_command(text: str) -> None:
    """A shell reads it as the text, whatever is in it, and a terminal shows it in one line."""
    command = f"printf %s {quoted(text)}"
    assert command == shown(command)
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.decode() == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u3000b\xa0c", "a\u3000b\xa0c"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u202e", r"\u202e"),
        ("\udcff", r"\udcff"),
    ],
)
def test_a_text_in_a_sentence(text: str, expected: str) -> None:
    """Spaces of other scripts are shown, and nothing that would move the cursor or turn the text around."""
    assert shown(text) == expected


WORDS = st.lists(st.text(alphabet="abc-/.,é字", min_size=1, max_size=12), max_size=12)
COMMANDS = st.lists(st.text(alphabet="jc -/", min_size=1, max_size=30).map(lambda text: f"`{text}`"), max_size=3)


@given(WORDS, COMMANDS, st.integers(1, 60), st.integers(0, 4), st.randoms(use_true_random=False))
def test_lines_break_at_words(
    words: list[str], commands: list[str], width: int, indent: int, chance: random.Random
) -> None:
    """No word is cut or lost, a command stays in one line, and a line is too long only if it is a single word."""
    parts = [*words, *commands]
    chance.shuffle(parts)
    text = " " * indent + " ".join(parts)
    result = wrapped(text, width)
    assert result.split() == text.split()
    assert all(command in result for command in commands)
    for line in result.split("\n") if result != text else ():
        assert len(line) <= width or line.strip(" ") in parts or "`" in line


def test_what_fits_stays() -> None:
    """Lines that fit are not touched, with their blanks and line breaks; a list keeps its indent."""
    text = "  two  blanks\n\n    more"
    assert wrapped(text, 20) == text
    assert wrapped("  3 stored: much too long", 14) == "  3 stored:\n  much too\n  long"
