"""A child process that answers questions in lines of JSON: what it says, and how it ends."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.jax_internals.child import Child, ChildDied, NoJax, child_of, interpreter

READY = "import json, os, signal, sys\nprint(json.dumps({'jaxlib': '0.0'}), flush=True)\n"
ECHO = (
    "for line in sys.stdin:\n    print(json.dumps({'said': json.loads(line), 'arguments': sys.argv[3:]}), flush=True)\n"
)
LIMIT_S = 60.0


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Make a program that a child runs."""

    def make(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return make


def test_the_environment_names_the_interpreter() -> None:
    """Without the variable, or with an empty one, it is jcache's own."""
    assert interpreter({"JCACHE_PYTHON": "/usr/bin/python3"}) == "/usr/bin/python3"
    assert interpreter({}) == interpreter({"JCACHE_PYTHON": ""}) == sys.executable


def test_questions_are_answered_until_the_end(program: Callable[[str], str]) -> None:
    """Each question gets its own answer, of any length; at the end the process is gone."""
    with child_of(sys.executable, program(READY + ECHO), LIMIT_S, os.environ, "more", doing="answer") as child:
        assert child.jaxlib == "0.0"
        for question in ("a", "größe\n", "x" * 100_000):
            assert child.ask(question, "said") == [question]
        assert child.ask("a", "said", "arguments") == ["a", "['more']"]
        child.end()


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("sys.exit(3)", "exit code 3"),
        ("print('hello', flush=True); sys.stdin.read()", "its answer is malformed"),
        ("print('[]', flush=True); sys.stdin.read()", "its answer is malformed"),
        ("print('{}', flush=True); sys.stdin.read()", "its answer is malformed"),
    ],
)
def test_a_child_that_gives_no_answer_has_died(program: Callable[[str], str], text: str, evidence: str) -> None:
    """The evidence is the signal, the exit code, or that the answer is malformed."""
    with child_of(
        sys.executable, program(f"{READY}sys.stdin.readline()\n{text}"), LIMIT_S, os.environ, doing="x"
    ) as child:
        assert death(child) == evidence


def death(child: Child) -> str:
    """Return the evidence of a child's death when it is asked something."""
    with pytest.raises(ChildDied) as died:
        child.ask("question", "said")
    assert not died.value.late
    return died.value.evidence


def test_a_child_that_fails_at_its_end_has_died(program: Callable[[str], str]) -> None:
    """A signal after the last answer counts as well."""
    failing = READY + ECHO + "os.kill(os.getpid(), signal.SIGKILL)\n"
    with child_of(sys.executable, program(failing), LIMIT_S, os.environ, doing="x") as child:
        assert child.ask("a", "said") == ["a"]
        with pytest.raises(ChildDied, match=signal.SIGKILL.name):
            child.end()


def test_a_child_that_never_starts_is_no_jax(program: Callable[[str], str]) -> None:
    """The last line on its standard error is the reason; nothing within the block is done."""
    path = program("import sys; print('first\\nNo module named jax', file=sys.stderr); sys.exit(1)")
    with (
        pytest.raises(NoJax, match=r"cannot compile with JAX \(No module named jax\): install it with"),
        child_of(sys.executable, path, LIMIT_S, os.environ, doing="compile"),
    ):
        raise AssertionError
