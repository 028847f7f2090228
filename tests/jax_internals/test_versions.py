"""The versions of JAX at which behaviour changed are in one module, which any Python can import."""

import ast
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from jcache.jax_internals import versions
from jcache.package import PACKAGE, own_file


def versions_in(tree: ast.Module) -> set[tuple[int, ...]]:
    """Return the tuples such as ``(0, 4, 31)`` or ``(0, 11)`` that a module compares or names."""
    found: set[tuple[int, ...]] = set()
    orders = ast.Lt | ast.LtE | ast.Gt | ast.GtE
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(operator, orders) for operator in node.ops):
            operands: list[ast.AST | None] = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            operands = getattr(node.value, "elts", [])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            operands = [node.value]
        else:
            continue
        for operand in operands:
            with suppress(ValueError, TypeError):
                value = ast.literal_eval(operand)  # type: ignore[arg-type]
                if isinstance(value, tuple) and len(value) in {2, 3} and set(map(type, value)) == {int}:
                    found |= {value} if value[0] == 0 and value[1] >= 4 else set()
    return found


@pytest.mark.full
def test_no_other_module_names_a_version_of_jax() -> None:
    """No other module has a constant for a version of JAX."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in Path(PACKAGE).rglob("*.py")}
    assert {name for name, text in modules.items() if versions_in(ast.parse(text))} == {"jax_internals/versions.py"}
    assert versions_in(ast.parse("OLD, NEW = (0, 4, 36), (0, 11)\nif (0, 8, 1) <= version: pass")) == {
        (0, 4, 36), (0, 11), (0, 8, 1),
    }  # fmt: skip


def test_it_is_loaded_by_any_python() -> None:
    """The module imports nothing, so the recorder can import it in a program without jcache."""
    source = Path(own_file("jax_internals", "versions.py"))
    assert not [
        node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    code = f"import runpy; print(runpy.run_path({str(source)!r})['can_bind_callbacks']((0, 10, 2)))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_callbacks_are_bound_between_two_versions() -> None:
    """jcache caches programs with host callbacks from the first jaxlib that can bind them, until JAX itself does."""
    tried = [(0, 4, 31), (0, 6, 0), (0, 8, 0), (0, 8, 1), (0, 9, 2), (0, 10, 2), (0, 11, 0), (0, 12), (1, 0)]
    told = [versions.can_bind_callbacks(version) for version in tried]
    assert told == [False, False, False, True, True, True, False, False, False]
    assert not versions.can_bind_callbacks(())  # JAX has not told its version yet


def test_versions_are_in_order() -> None:
    """The constants are in the order of the versions, and before the newest tested one."""
    assert versions.KEYS_WITH_PATHS < versions.KEYS_WITHOUT_PATHS < versions.NEWEST_TESTED
    steps = [versions.CALLBACKS_NUMBERED, versions.CALLBACKS_BOUND_ON_LOADING, versions.CALLBACKS_CACHED_BY_JAX]
    assert all(earlier < later for earlier, later in pairwise([*steps, versions.NEWEST_TESTED]))
