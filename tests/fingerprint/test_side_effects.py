"""What a call counts or adds is found by name, and told apart from what other code uses."""

from pathlib import Path
from types import ModuleType

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.side_effects import SideEffects, holders
from tests.helpers.fingerprints import imported

SOURCE = """
import queue
n, log, memo, jobs = 0, [], {}, queue.Queue()
class Run:
    def __init__(self): self.n = 0
run = Run()
def counts(x):
    global n
    n += 1
    run.n += 1
    log.append(x)
    jobs.put(x)
    return x
def fills(x):
    if x not in memo: memo[x] = abs
    return memo[x](x)
def other(x):
    {code}
"""
USES = {
    "a number": "return x + n",
    "an attribute": "return x + run.n",
    "a log": "return x + len(log)",
    "an item of a log": "return log[-1]",
    "a queue": "return jobs.get()",
    "a memo": "return memo[x](x)",
}
OTHERS = {
    "nothing": "return x",
    "what counts itself": "log.append(x)\n    jobs.put(x)\n    run.n += 1",
    "a memo that it may fill": "if x not in memo: memo[x] = abs\n    return memo[x](x)",
    "another attribute": "return run.m",
}


def effects(module: ModuleType) -> SideEffects:
    """What the two functions have done to the module's values."""
    done = []
    for function in (module.counts, module.fills):
        before = fingerprint(function, (1,))
        function(1)
        assert changed_meanwhile(before, function, (1,), {}) == []
        done.append(before.snapshot.effects)
    return SideEffects(*(frozenset(one | other) for one, other in zip(*done, strict=True)))


@pytest.mark.parametrize("case", [*USES, *OTHERS])
def test_other_code_uses_what_a_call_has_changed(case: str, tmp_path: Path) -> None:
    """Numbers, logs, memos and queues, by any name; code that counts in the same way uses nothing."""
    with imported(tmp_path, SOURCE.replace("{code}", USES.get(case) or OTHERS[case])) as module:
        found = effects(module)
        assert bool(found.used_by(fingerprint(module.other, (1,)).snapshot, elsewhere=True)) == (case in USES)


def test_side_effects_are_kept_as_text(tmp_path: Path) -> None:
    """A text that is no such JSON stands for none."""
    with imported(tmp_path, SOURCE.replace("{code}", "...")) as module:
        found = effects(module)
    assert found.changed >= {"n"} and found.more >= {"log"} and found.grown >= {"memo"} and found.states == {"jobs"}
    assert SideEffects.of_text(found.as_text()) == found and SideEffects().as_text() == ""
    for text in ("", "[]", '{"other": []}', '{"more": 1}'):
        assert SideEffects.of_text(text) == SideEffects()


def test_what_holds_a_container() -> None:
    """By the names that it has within others."""
    assert holders("a[b][c]") == ["a", "a[b]"] and holders("a") == []
