"""Arbitrary texts in sentences and commands."""

import subprocess

import pytest

from jcache.text import quoted, shown

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
