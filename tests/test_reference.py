"""The reference is made from what it describes: commands from Typer, the Python API from docstrings."""

import re

import pytest

import jcache
from jcache.cli.app import COMMANDS
from tests.helpers import api_page, command_tables


def test_the_options_are_those_of_typer() -> None:
    """The tables of the commands page are those of `python -m tests.helpers.command_tables`."""
    page = command_tables.PAGE.read_text()
    assert page == command_tables.with_tables(page)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_has_each_argument_option_and_example(name: str) -> None:
    """A command's table spells its arguments and options as its help does, and its example is the help's."""
    made = command_tables.table(name)
    for parameter in command_tables.command(name).params:
        shared = command_tables.SHARED.intersection(parameter.opts)
        spelling = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        assert shared or spelling.replace("|", "\\|") in made, spelling
    assert "\nExample:\n\n```sh\njcache " in made or '"$(jcache' in made


def test_the_docstrings_are_those_of_today() -> None:
    """The page of docstrings is that of `python -m tests.helpers.api_page`, and has a heading for each public name."""
    page = api_page.PAGE.read_text()
    assert page == api_page.page()
    assert sorted(re.findall(r"^### jcache\.(\w+)$", page, re.MULTILINE)) == sorted(jcache.__all__)
