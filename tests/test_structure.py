"""The rooms of the tests are those of the sources: a module's specification is the test file at its path."""

import ast
from pathlib import Path

import pytest

from jcache.package import PACKAGE

MOST_LINES, MOST_CODE_LINES = 300, 40
SOURCE, TESTS = Path(PACKAGE), Path(__file__).parent
WITHOUT_TESTS = {
    "__main__.py": "it only calls `jcache.cli.main`, as each test of the command line does",
    "package.py": "a path and the join of it with names",
    "cli/recorded_run.py": "what `jcache run` and `warm` do: `test_run` and `test_warm` tell it",
    "explain/change.py": "two values: `test_compare` tells what they mean",
    "explain/evidence.py": "a type",
    "explain/result.py": "a diagnosis as values: `test_diagnosis` tells what they mean",
    "jax_internals/compile_record.py": "two records that `compile_hook` fills, and that `test_compile_hook` looks at",
    "remote/transport.py": "a protocol and values: `test_client` and the tests of each store tell what they mean",
    "runs/recorder/file_names.py": "two names",
    "runtime/remote_request.py": "what `remote_tier` waits for: `test_remote_tier` tells when it gives up",
    "runtime/settings.py": "arguments and settings as values: `test_enable` tells what they mean",
    "store/order.py": "two names",
    "store/progress.py": "a type",
    "store/put_result.py": "values: `test_entry_writer` tells what they mean",
    "store/remote_entries.py": "a protocol, which `runtime/remote_tier.py` has",
    "verify/result.py": "a request and a result as values: `test_verification` tells what they mean",
}


def modules() -> list[str]:
    """Return the paths of the modules that have a test file of their own, or need none; a package's offers none."""
    paths = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return sorted(map(str, paths))


@pytest.mark.parametrize("module", modules())
def test_each_module_has_a_test_file_at_its_path(module: str) -> None:
    """`jcache.store.eviction` is specified in `tests/store/test_eviction.py`; exceptions are few and have a reason."""
    path = TESTS / module
    test = path.with_name(f"test_{path.name}")
    assert (module in WITHOUT_TESTS) != test.exists(), f"{module}: write its specification in {test.relative_to(TESTS)}"


def test_exceptions_are_modules() -> None:
    """Whoever removes or renames such a module removes it here as well."""
    assert WITHOUT_TESTS.keys() <= set(modules())


def code_lines(body: list[ast.stmt]) -> int:
    """Return on how many lines some code begins or ends."""
    nodes = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.stmt | ast.expr)]
    return len({node.lineno for node in nodes} | {node.end_lineno for node in nodes})


@pytest.mark.full
@pytest.mark.whole
def test_modules_and_functions_are_short() -> None:
    """A module has at most 300 lines, and the body of a function at most 40 lines of code."""
    for module in SOURCE.rglob("*.py"):
        text = module.read_text()
        assert text.count("\n") <= MOST_LINES, module
        for each in ast.walk(ast.parse(text)):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                body = each.body[ast.get_docstring(each) is not None :]
                assert code_lines(body) <= MOST_CODE_LINES, f"{module}: {each.name}"
