"""Lines about keys: what refers to another line comes after it, and no line has a secret. Real JAX processes."""

from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

RECORDED = """
import json, os, sys
import jax, numpy as np
from jcache.runs.recorder import key_hooks, key_recorder
for module in key_hooks.REPLACEMENTS:
    key_hooks.hook(sys.modules[module])
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
lines = []
recorder = key_recorder.KeyRecorder(lines.append, None, lambda: b"secret")
recorder.start()
def step(number, size=3):
    jax.jit(lambda x: x * number)(np.ones(size, np.float32))
def events(): return [line["e"] for line in lines]
"""


def recorded(program: str, *arguments: object, **environment: str) -> Any:
    return run(RECORDED + program, *arguments, env=environment).value


def test_the_order_of_lines(tmp_path: Any) -> None:
    """The process comes first, values and parts before the first key that has them, and each of them once."""
    program = """
step(2); step(3)
with jax.default_matmul_precision("float32"): step(4)
step(5)
recorder.stop()
step(6)
print(json.dumps(lines))
"""
    lines = recorded(program, tmp_path)
    assert lines[0]["e"] == "process" and lines[0]["devices"] == ["1 x cpu"] and lines[0]["rank"] == 0
    known: set[tuple[Any, ...]] = set()
    keys = []
    for line in lines[1:]:
        assert {"t", "th"} <= line.keys()
        if line["e"] == "value":
            assert ("value", line["part"], line["hash"]) not in known
            known.add(("value", line["part"], line["hash"]))
        elif line["e"] == "parts":
            assert {("value", *item) for item in line["parts"].items()} <= known
            known.add(("parts", line["id"]))
        elif line["e"] == "options":
            known.add(("options", line["id"]))
        else:
            keys.append(line)
            assert {("parts", line["parts"]), ("options", line["options"])} <= known
    first, second, third, last = [line["options"] for line in keys]
    assert first == second == last != third
    options = [line["values"]["jax_default_matmul_precision"] for line in lines if line["e"] == "options"]
    assert [text.lower() for text in options] == ["none", "float32"]


def test_variables(tmp_path: Any) -> None:
    """Options of JAX and XLA's flags are in clear; all else is a digest that another secret makes another one."""
    program = """
step(2)
first = lines[0]
os.environ["SOME_PATH"] = "changed"
print(json.dumps([first, key_recorder._variables(b"secret")[1], key_recorder._variables(b"other")[1],
                  key_recorder._variables(b"")[1]]))
"""
    variables = {
        "JAX_ENABLE_X64": "1",
        "SOME_PATH": "here",
        "MY_API_KEY": "xyzzy",
        "JAX_COMPILATION_CACHE_MAX_SIZE": "-1",
    }
    first, later, other, none = recorded(program, tmp_path, **variables)
    assert first["variables"]["JAX_ENABLE_X64"] == "1"
    assert not [name for name in first["variables"] if "CACHE" in name or "API" in name]
    assert "xyzzy" not in str(first) and "here" not in first["digests"].values()
    assert later["SOME_PATH"] != first["digests"]["SOME_PATH"] and later["MY_API_KEY"] == first["digests"]["MY_API_KEY"]
    assert not set(later.values()) & set(other.values()) and none == {}


@pytest.mark.parametrize("attempt", range(3))
def test_threads_that_compute_the_first_keys(tmp_path: Any, attempt: int) -> None:
    """Each key of each thread has its parts and options, whichever thread is first."""
    program = """
import threading
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=step, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(json.dumps(lines))
"""
    lines = recorded(program, tmp_path / str(attempt))
    known = {(line["e"], line["id"]) for line in lines if "id" in line}
    keys = [line for line in lines if line["e"] == "key"]
    assert len(keys) == len({line["key"] for line in keys}) == 8
    assert {("parts", line["parts"]) for line in keys} | {("options", line["options"]) for line in keys} <= known


def test_a_forked_process_begins_anew(tmp_path: Any) -> None:
    """A forked child writes again all that its keys refer to."""
    program = """
import tempfile
where = sys.argv[1] + "/child.json"
os.makedirs(sys.argv[1], exist_ok=True)
recorder._told = key_recorder._Told(os.getpid())
recorder._tell_parts(recorder._told, {"XLA flags": [b"--a"]}, None)
child = os.fork()  # before JAX has threads
if child == 0:
    try:
        lines.clear()
        step(2)
        with open(where, "w") as file:
            json.dump(events(), file)
    finally:
        os._exit(0)
os.waitpid(child, 0)
print(open(where).read())
"""
    found = recorded("import warnings; warnings.simplefilter('ignore')\n" + program, tmp_path / "c")
    assert found[0] == "process" and found[-1] == "key" and found.count("parts") == 1 and "value" in found
