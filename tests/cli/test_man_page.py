"""The man page: it says what the command line says, and formatters find nothing wrong with it."""

import os
import re
import shutil
import subprocess

import pytest

from jcache.cli.app import COMMANDS
from tests.helpers.man_page import PAGE, escaped, inline, man_page

WITHOUT_DATE = 'WARNING: missing date, using "": TH'  # a date would say nothing that the page's contents do not


def formatted(*command: str) -> "subprocess.CompletedProcess[str]":
    """Return what a formatter prints for the page."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed here")
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    return subprocess.run([*command, str(PAGE)], env=environment, capture_output=True, text=True, check=False)


def test_the_page_is_the_one_in_the_repository() -> None:
    """`docs/man/jcache.1` is what the help texts and the reference give."""
    assert PAGE.read_text() == man_page(), "regenerate it: python -m tests.helpers.man_page"


def test_groff_prints_all_of_it() -> None:
    """groff, which `man` runs, prints each command, and characters beyond ASCII, without a warning."""
    done = formatted("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=100n", "-ww")
    assert done.returncode == 0 and not done.stderr
    assert not [name for name in COMMANDS if not re.search(rf"^ +jcache {name}$", done.stdout, re.MULTILINE)]
    assert "≤" in done.stdout and "JCACHE_DIR" in done.stdout and "--max-size SIZE" in done.stdout


def test_mandoc_finds_nothing() -> None:
    """`mandoc -T lint` has nothing to say but that there is no date."""
    lines = formatted("mandoc", "-T", "lint", "-W", "warning").stdout.splitlines()
    assert not [line for line in lines if WITHOUT_DATE not in line]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("--root", "\\-\\-root"),
        ("it's `ls`", "it\\(aqs \\fBls\\fR"),
        (".hidden", "\\&.hidden"),
        ("a [link](b.md#c) to **it**", "a link to \\fBit\\fR"),
        ("≤ \\n", "\\[u2264] \\en"),
    ],
)
def test_text_is_quoted(text: str, source: str) -> None:
    """No text of a help becomes a request, and marks of Markdown become fonts."""
    assert inline(text) == source
    assert escaped("`") == "\\(ga"
