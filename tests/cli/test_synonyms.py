"""The answer to a command or an option that does not exist: which one may have been meant."""

import re

import pytest

from jcache.cli.app import COMMANDS
from jcache.cli.synonyms import _COMMANDS, _OPTIONS
from tests.helpers.command_line import Jcache


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("list", "'ls'"), ("gc", "'prune'"), ("delete", "'rm'"), ("remove", "'rm'"), ("del", "'rm'"), ("size", "'du'"),
        ("status", "'info'"), ("check", "'verify'"), ("LS", "'ls'"), ("lss", "'ls'"), ("prun", "'prune'"),
        ("verfy", "'verify'"), ("exprt", "'export'"), ("qua", "'quarantine'"), ("e", "'explain', 'export' or 'env'"),
    ],
)  # fmt: skip
def test_commands(jcache: Jcache, word: str, meant: str) -> None:
    """Another tool's word, a beginning or a slip is answered with jcache's command, on one line, with exit code 2."""
    result = jcache(word)
    assert (result.code, result.out) == (2, "")
    assert (
        result.err == f"jcache: No such command '{word}'; did you mean {meant}? `jcache --help` lists all commands.\n"
    )


def test_a_word_that_is_like_none(jcache: Jcache) -> None:
    """It is told that there is no such command, without a guess."""
    assert jcache("xyzzy").err == "jcache: No such command 'xyzzy'. `jcache --help` lists all commands.\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["prune", "--max", "3"], "'--max-size' or '--max-entries'"),
        (["prune", "--max-age", "3d"], "'--older-than'"),
        (["prune", "--size", "3"], "'--max-size'"),
        (["clear", "--force"], "'--yes'"),
        (["ls", "--order-by", "size"], "'--sort'"),
        (["ls", "--fitler", "x"], "'--filter'"),
        (["ls", "--fields", "key"], "'--columns'"),
        (["info", "--jsn"], "'--json'"),
        (["rm", "--dryrun"], "'--dry-run'"),
        (["ls", "--dir=/x"], "'--root'"),
    ],
)
def test_options(jcache: Jcache, words: list[str], meant: str) -> None:
    """So is an option, with those of the command."""
    result = jcache(*words)
    option = next(word for word in words if word.startswith("--")).partition("=")[0]
    help_of = f"`jcache {words[0]} --help` lists the options."
    assert (result.code, result.out) == (2, "")
    assert result.err == f"jcache: No such option '{option}'; did you mean {meant}? {help_of}\n"


def test_a_short_option_and_one_without_its_value(jcache: Jcache) -> None:
    """The message names the command whose help to read."""
    assert jcache("ls", "-x").err == "jcache: No such option '-x'. `jcache ls --help` lists the options.\n"
    assert "`jcache ls --help`" in jcache("ls", "--root").err


@pytest.mark.parametrize("option", ["--root", "--json", "-q"])
def test_an_option_before_the_command(jcache: Jcache, option: str) -> None:
    """What every command takes is not said to be unknown, but to be in the wrong place."""
    result = jcache(option, "ls")
    says = f"No such option '{option}' before the command; write it after the command."
    assert result.code == 2 and says in result.err


def test_synonyms_are_of_what_there_is(jcache: Jcache) -> None:
    """Each table names commands and options that exist, and no synonym is a command or stands for two."""
    assert _COMMANDS.keys() <= set(COMMANDS)
    words = [word for words in _COMMANDS.values() for word in words]
    assert len(words) == len(set(words)) and not set(words) & set(COMMANDS)
    others = [word for words in _OPTIONS.values() for word in words]
    assert len(others) == len(set(others))
    known = {option for name in COMMANDS for option in re.findall(r"--[a-z-]+", jcache(name, "--help").out)}
    assert _OPTIONS.keys() <= known
