"""The public API: its names, their documentation, and the results of its examples."""

import ast
import inspect
from pathlib import Path

import pytest

import jcache
from jcache.layout import Kind
from jcache.store.roots import create_root
from tests.helpers.documents import ROOT, blocks, pages
from tests.helpers.entries import add, key
from tests.helpers.jax_programs import run

FUNCTIONS = sorted(name for name in jcache.__all__ if inspect.isfunction(getattr(jcache, name)))
REFERENCE = (ROOT / "docs/reference/python-api.md").read_text()


def test_everything_public_is_listed_and_typed() -> None:
    """`__all__` names it in order, `dir` shows it, the type checker sees it, and there is nothing else."""
    assert jcache.__all__ == sorted(jcache.__all__)
    assert set(jcache.__all__) <= set(dir(jcache))
    for_checker = {
        alias.name
        for node in ast.walk(ast.parse(inspect.getsource(jcache)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jcache.")
        for alias in node.names
    }
    assert for_checker == set(jcache.__all__)
    with pytest.raises(AttributeError, match="no attribute 'unheard_of'"):
        jcache.unheard_of  # noqa: B018


@pytest.mark.parametrize("name", jcache.__all__)
def test_everything_public_is_documented(name: str) -> None:
    """Each public name has a docstring and is in the reference; each function has types, errors and an example."""
    value = getattr(jcache, name)
    text = inspect.getdoc(value)
    assert text and text.split("\n")[0].endswith((".", "?"))
    assert f"`jcache.{name}" in REFERENCE
    if inspect.isfunction(value):
        assert "Example:\n    >>>" in text
        parameters = inspect.signature(value).parameters.values()
        assert all(parameter.annotation is not parameter.empty for parameter in parameters)
        assert not parameters or "Args:" in text


@pytest.mark.jax
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    """Each example runs in a separate process, on a root with a few entries, and gives the printed results."""
    root = create_root(tmp_path / "root")
    for number in range(3):
        add(root.directory(Kind.EXECUTABLES), key(number))
    program = """
import doctest, json, sys
import jcache
function = getattr(jcache, sys.argv[1])
examples = doctest.DocTestFinder(recurse=False).find(function, sys.argv[1], globs={})
print(json.dumps([list(doctest.DocTestRunner().run(example)) for example in examples]))
"""
    ((failed, attempted),) = run(program, name, env={"JCACHE_DIR": root.path}).value
    assert failed == 0 < attempted


@pytest.mark.smoke
@pytest.mark.jax
def test_the_examples_of_the_pages_run(tmp_path: Path) -> None:
    """The Python of README.md and docs/, block after block, is one program that runs."""
    examples = [block for page in pages() for block in blocks(page.read_text(), "python")]
    assert len(examples) > 5
    program = "\n".join(examples) + "\nprint('true')"
    assert run(program, env={"JCACHE_DIR": tmp_path / "root"}, cwd=tmp_path).value is True
