"""The programs of traces, compiled in a process of their own that may crash."""

import sys
from pathlib import Path

import pytest

from jcache.jax_internals.child import NoJax
from jcache.layout import Root
from jcache.store.store import Store
from jcache.traces.format import program_key
from jcache.traces.recompile import Recompiled, Recompiling, recompile
from tests.helpers.traces import compiled, missed, request, store, stored, traces_of

ANSWERS = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    print("started", *sys.argv[5:], os.environ["JCACHE_DIR"], file=log)
print(json.dumps({{"jaxlib": "0.0"}}), flush=True)
for line in sys.stdin:
    print(json.loads(line), file=open({log!r}, "a"))
    {answer}
"""


class Compiler:
    """An interpreter in whose place a program stands that answers questions, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.path, self.log = directory / "python", directory / "log"

    def answers(self, answer: str) -> None:
        self.path.write_text(ANSWERS.format(python=sys.executable, log=str(self.log), answer=answer))
        self.path.chmod(0o755)

    def heard(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler(tmp_path)
    monkeypatch.setenv("JCACHE_PYTHON", str(compiler.path))
    return compiler


@pytest.fixture
def programs(native: Root) -> list[str]:
    """A trace with two programs, and one more device; return the keys of the programs."""
    traces = traces_of(native)
    miss = missed(traces)
    for signature in ("one", "two"):
        assert traces.keeping.keep(miss, compiled(signature, signature=signature)) is None
    traces.keeping.put_program(stored(traces).opened.header, "one", "gpu", "jit_step-2")
    return sorted(program_key(stored(traces).opened.header, of) for of in ("one", "two"))


def every_key(root: Root) -> list[str]:
    with Store(root) as there:
        return [entry.key for entry in there.entries()]


def done(root: Root, keys: list[str]) -> Recompiled:
    with Store(root) as there:
        return recompile(there, keys)


def test_programs_are_compiled_one_after_another(native: Root, programs: list[str], compiler: Compiler) -> None:
    """Neither traces nor what has no StableHLO of its own is compiled; one process does it, in this root."""
    compiler.answers('print(json.dumps({"result": "recompiled", "evidence": ""}), flush=True)')
    result = done(native, every_key(native))
    assert result.results == dict.fromkeys(programs, Recompiling.RECOMPILED) and not result.reasons
    assert result.count(Recompiling.RECOMPILED) == 2 and result.count(Recompiling.FAILED) == 0
    started, *questions = compiler.heard()
    assert started.endswith(f" {native.path} {native.path}") and questions == programs


def test_reasons_are_counted(native: Root, programs: list[str], compiler: Compiler) -> None:
    """Equal reasons of several programs are one, with their number."""
    compiler.answers('print(json.dumps({"result": "elsewhere", "evidence": "another jax"}), flush=True)')
    assert dict(done(native, programs).reasons) == {(Recompiling.ELSEWHERE, "another jax"): 2}


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [("os._exit(7)", "exit code 7"), ('print(json.dumps({"result": "x", "evidence": ""}), flush=True)', "malformed")],
)
def test_a_program_that_ends_the_process_has_failed(
    native: Root, programs: list[str], compiler: Compiler, answer: str, evidence: str
) -> None:
    """With the others another process begins, so that each is tried."""
    compiler.answers(answer)
    result = done(native, programs)
    assert result.results == dict.fromkeys(programs, Recompiling.FAILED)
    ((_, reason),) = result.reasons
    assert reason.startswith("compiling it ended the process: ") and evidence in reason
    assert sum(line.startswith("started") for line in compiler.heard()) == 2


def test_without_programs_no_process_is_started(native: Root, compiler: Compiler) -> None:
    """Where there is nothing to compile, no JAX is needed; where there is, its absence is an error."""
    assert done(native, [request().key]).results == {}
    store(traces_of(native))
    with pytest.raises(NoJax, match="JCACHE_PYTHON"):
        done(native, every_key(native))
