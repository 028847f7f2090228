"""What asks for the time is traced in each process; what only measures, or was not run, is not."""

import pytest

from jcache.fingerprint import clocks
from tests.helpers.jax_programs import run

HEAD = """
import datetime, os, time
from time import time as clock
from datetime import datetime as dt
"""
ASKING = {
    "time.time": "time.time()",
    "another name": "clock()",
    "time_ns": "time.time_ns()",
    "localtime": "time.localtime().tm_sec",
    "datetime.now": "datetime.datetime.now().second",
    "another name of now": "dt.utcnow()",
    "today": "datetime.date.today().day",
    "the process": "os.getpid()",
    "in a function inside": "(lambda: time.time())()",
    "imported inside": "__import__('time') and local()",
}
OTHERS = {
    "a clock that measures": "time.perf_counter()",
    "a date": "datetime.datetime(2020, 1, 1).day + dt.fromtimestamp(0).day",
    "the name of another thing": "shown.time",
}


def told(expression: str) -> str | None:
    namespace: dict[str, object] = {"__name__": "model"}
    local = "def local():\n    import time as t\n    return t.time()\n"
    exec(f"{HEAD}{local}def f():\n    return {expression}\n", namespace)
    functions = [namespace["f"], *([namespace["local"]] if "local" in expression else [])]
    return clocks.asked([(each.__code__, namespace) for each in functions])  # type: ignore[attr-defined]


@pytest.mark.parametrize("expression", ASKING.values(), ids=ASKING)
def test_asking_is_told(expression: str) -> None:
    """By whatever name, and what it was."""
    what = "its process's number" if "getpid" in expression else "the time"
    assert str(told(expression)).endswith(f"` asks for {what}")


@pytest.mark.parametrize("expression", OTHERS.values(), ids=OTHERS)
def test_others_are_not(expression: str) -> None:
    """Seconds that passed are nothing that a trace holds."""
    assert told(expression) is None


PROGRAM = """
import json, sys, time
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

class Trainer:
    rate = 2.0
    def fit(self):
        return time.time()
    def step(self, x):
        return x * self.rate

trainer = Trainer()
def stamp(x):
    return x + jax.random.normal(jax.random.key(int(time.time())))
found = []
for function in (stamp, lambda x: trainer.step(x)):
    function = jcache.jit(function, check="never")
    function(jnp.ones(3))
    found.append(str(function.explain(jnp.ones(3))))
print(json.dumps(found))
"""


@pytest.mark.jax
def test_a_trace_with_the_time_in_it_is_not_stored(tmp_path: object) -> None:
    """A method that would ask and does not run is no reason."""
    for _ in range(2):
        stamp, step = run(PROGRAM, f"{tmp_path}/root").value
    assert "miss, `__main__.stamp` asks for the time, which is another in each process" in stamp
    assert "hit" in step
