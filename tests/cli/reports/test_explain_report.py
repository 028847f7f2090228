"""What `jcache explain` prints for people."""

from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runs.calls import BYPASSED, HIT
from jcache.runs.record import Argument, ProgramRecord, RunRecord
from jcache.store.roots import create_root
from jcache.store.run_records import add_record
from tests.helpers.command_line import Jcache
from tests.helpers.records import process, program, run
from tests.helpers.terminals import WIDTHS, Terminal

FLAG = "--xla_cpu_enable_fast_math=true"
LONG = "a_function_with_a_name_that_is_longer_than_most"
NO_JAX = {"JCACHE_PYTHON": "/nonexistent/python"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


def keep(root: Root, *runs: RunRecord) -> None:
    for one in runs:
        add_record(root, one.id, one.to_json(), {})


@pytest.fixture
def flagged(root: Root) -> Root:
    """A root with three runs, of which the last has a new flag, a new shape and a bypassed function."""
    usual = [program("init"), program(LONG), program("step")]
    smaller = program("eval", "other", arguments=(Argument("batch", "f32[61,128]"),), compile_seconds=0.5)
    log = ProgramRecord(None, "log", BYPASSED, "no key could be made: it calls back to the host", compile_seconds=0.1)
    now = [program(name, flags=FLAG) for name in ("init", LONG, "step")]
    other = process(program("eval"), program("norm", outcome=HIT))
    keep(
        root,
        run(1, process(*usual), other),
        run(2, process(*(one._replace(outcome=HIT) for one in usual)), other),
        run(3, process(*now, log, flags=FLAG), process(smaller, program("norm", outcome=HIT))),
    )
    return root


def test_the_causes_are_printed_with_price_and_way_out(jcache: Jcache, flagged: Root) -> None:
    """The first line has the counts; each cause has its change, reason, functions and resolution, the dearest first."""
    lines = jcache("explain", "--root", flagged.path, env=NO_JAX).out.splitlines()
    assert lines[0].startswith("train.py, ") and lines[0].endswith(
        "ago: 1 hit, 4 misses (2 causes), 1 bypassed. "
        "4.30 s of 4.60 s went into programs that had been compiled before."
    )
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "",
        f"1 XLA_FLAGS + {FLAG} 3 misses, 3.60 s",
        "first in this run; the 2 runs before were without",
        f"in {LONG}, init, step",
        "→ use the same flags in all runs, or fill the cache once: "
        f"XLA_FLAGS={FLAG} jcache warm --root {flagged.path} -- python train.py",
        "2 eval eval.py:7 shape of batch: f32[64,128] → f32[61,128] 1 miss, 0.70 s",
        "each shape is a program of its own",
        "→ pad arrays to few sizes, or warm all of them",
        "",
        "bypassed log no key could be made: it calls back to the host",
        "→ see the message of JAX",
    ]


@pytest.mark.parametrize("columns", WIDTHS)
def test_it_fits_the_terminal(flagged: Root, columns: int) -> None:
    """On a terminal, no line is wider but for a path, nothing is left out, and a line goes on below its text."""
    code, lines = Terminal("explain", "--root", flagged.path, columns=columns).finish()
    assert code == 0
    assert all(len(line) <= columns or str(flagged.path) in line for line in lines)
    text = " ".join(" ".join(lines).split())
    for piece in ("3 misses, 3.60 s", FLAG, LONG, "f32[64,128] → f32[61,128]", "calls back to the host"):
        assert piece in text
    numbered = [line for line in lines if line[:3] in ("1  ", "2  ")]
    assert len(numbered) == 2


def test_ranks_that_differ_are_told_with_the_first_module(jcache: Jcache, root: Root) -> None:
    """Of several ranks and hosts it is told which agree, and where the others differ first."""
    usual = [program("init"), program("step")]
    other = [program("init"), program("step", "other", arguments=(Argument("batch", "f32[32,128]"),))]
    ranks = [process(*(other if rank == 2 else usual), rank=rank, host=f"host{rank // 2}") for rank in range(4)]
    keep(root, run(1, *ranks))
    lines = jcache("explain", "--root", root.path).out.splitlines()
    assert lines[-2:] == [
        "agree: rank 0 on host0, rank 1 on host0, rank 3 on host1",
        "differ: rank 2 on host1, first at step step.py:7  shape of batch: f32[64,128] → f32[32,128]",
    ]
    keep(root, run(2, *(process(*usual, rank=rank, host="here") for rank in range(2))))
    (ranks_json,) = jcache("explain", "--root", root.path, "--json").json["ranks"][:1]
    assert {"host": "here", "rank": 1} in ranks_json["members"]


def test_hosts_that_share_a_root_are_compared(jcache: Jcache, root: Root) -> None:
    """The last run of the same command on another host is compared with this one."""
    for number, host in enumerate(("a", "b")):
        keep(root, run(number, process(program("step", topology=host), host=host)))
    lines = jcache("explain", "--root", root.path).out.splitlines()
    assert lines[-2:] == ["agree: rank 0 on a", "differ: rank 0 on b, first at step step.py:7  CPU: a → b"]
