"""What independent checkers found: changes that no key showed, and calls that a hit got in the way of."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HEAD = """
import contextlib, io, json, signal, sys, threading, types
import jax, jax.numpy as jnp, numpy as np
import jcache
root, variant = sys.argv[1:]
jcache.enable(root, strict=True)
x = jnp.ones(2)
"""
TAIL = """
def called(step):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = jcache.jit(step)(x)
    return [printed.getvalue().count("traced"), *(leaf.tolist() for leaf in vars(result).values())] \
        if type(result).__name__ == "Pair" else [printed.getvalue().count("traced"), result.tolist()]
print(json.dumps(called(step)))
"""
ORDER = """
FACTORS = {"add": 2.0, "scale": 3.0} if variant == "a" else {"scale": 3.0, "add": 2.0}
def step(x):
    print("traced")
    for name, by in FACTORS.items():
        x = x + by if name == "add" else x * by
    return x
"""
NAMESAKES = """
source = "RATE = %s" + chr(10) + "def rate(): return RATE"
plugins = []
for rate in (2.0, 3.0 if variant == "a" else 4.0):
    module = types.ModuleType("plugin")
    exec(source % rate, module.__dict__)
    plugins.append(module.rate)
def step(x):
    print("traced")
    return x * plugins[0]() * plugins[1]()
"""
PATCHED = """
import textwrap
if variant == "a":
    textwrap.TextWrapper.scale = staticmethod(lambda: 2.0)
    textwrap.TextWrapper.rate = property(lambda self: 5.0)
else:
    textwrap.TextWrapper.scale = staticmethod(lambda: 3.0)
    textwrap.TextWrapper.rate = property(lambda self: 7.0)
def step(x):
    print("traced")
    wrapper = textwrap.TextWrapper()
    return x * wrapper.scale() * wrapper.rate
"""
ENVIRONMENT = """
import os
os.environ["RATE_a"] = "2" if variant == "a" else "3"
def rate(kind):
    return float(os.environ.get("RATE_" + kind, "1"))
def step(x):
    print("traced")
    return x * rate("a") * rate("b")
"""
CONFIG = """
import pathlib
path = pathlib.Path(root).with_name("config.json")
path.unlink(missing_ok=True) if variant == "a" else path.write_text("3")
def step(x):
    print("traced")
    return x * (json.loads(path.read_text()) if path.exists() else 2)
"""
REGISTERED = """
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b
if variant == "a":
    jax.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(c[0], c[1]))
else:
    jax.tree_util.register_pytree_node(Pair, lambda p: ((p.b, p.a), None), lambda _, c: Pair(c[1], c[0]))
def step(x):
    print("traced")
    return Pair(x, x * 2)
"""
INNER = """
FILE = root + ".json"
@jax.jit
def helper(x):
    with open(FILE) as file:
        return x * json.load(file)
def first(x):
    return helper(x) + 1
jcache.jit(first)(x), jax.jit(first)(x)  # traces the helper
def step(x):
    print("traced")
    return helper(x) + 2
"""
INNER_GLOBAL = """
RATE = 2.0
@jax.jit
def helper(x):
    return x * RATE
if variant == "a":
    helper(x)  # is traced with another rate than it has afterwards
RATE = 3.0
def step(x):
    print("traced")
    return helper(x)
"""


def said(program: str, root: Path, variant: str = "a") -> Any:
    return run(HEAD + program + TAIL, root, variant).value


@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        (ORDER, [[9.0] * 2], [[5.0] * 2]),
        (NAMESAKES, [[6.0] * 2], [[8.0] * 2]),
        (PATCHED, [[10.0] * 2], [[21.0] * 2]),
        (REGISTERED, [[1.0] * 2, [2.0] * 2], [[1.0] * 2, [2.0] * 2]),
        (ENVIRONMENT, [[2.0] * 2], [[3.0] * 2]),
        (CONFIG, [[2.0] * 2], [[3.0] * 2]),
    ],
    ids=[
        "order of a dict", "modules of one name", "a library's class", "functions of a node", "a computed variable",
        "a file that may be there",
    ],
)  # fmt: skip
def test_a_change_is_a_miss(tmp_path: Path, program: str, before: list[Any], after: list[Any]) -> None:
    """A dict's order, the second of two modules of one name, a library's class, the functions of a node, and others."""
    root = tmp_path / "root"
    assert [said(program, root) for _ in range(2)] == [[1, *before], [0, *before]]
    assert said(program, root, "b") == [1, *after]
    assert said(program, root)[1:] == before


def test_what_was_traced_before_hides_nothing(tmp_path: Path) -> None:
    """A file that a jitted helper read while another function was traced counts for the next one as well."""
    root, file = tmp_path / "root", tmp_path / "root.json"
    file.write_text("2.0")
    assert [said(INNER, root) for _ in range(2)] == [[1, [4.0] * 2], [0, [4.0] * 2]]
    file.write_text("3.0")
    assert said(INNER, root) == [1, [5.0] * 2]


def test_what_was_traced_before_is_taken_as_jax_takes_it(tmp_path: Path) -> None:
    """A helper that JAX has traced under another global stays as it was traced, in the program that traced it so."""
    root = tmp_path / "root"
    for traced in (1, 0):
        assert said(INNER_GLOBAL, root) == [traced, [2.0] * 2]
        assert said(INNER_GLOBAL, root, "b") == [traced, [3.0] * 2]


INTERRUPTED = """
from jax import monitoring
def step(x):
    return jnp.sin(x) * 2
error = {"interrupt": KeyboardInterrupt, "timeout": TimeoutError}[variant]
armed = True
def listen(event, *args, **kwargs):
    global armed
    if armed and EVENT in event:
        armed = False
        raise error("now")
jitted = jcache.jit(step, check="never")
if len(sys.argv) and EVENT:
    monitoring.register_event_duration_secs_listener(listen)
raised = None
try:
    jitted(x)
except BaseException as found:
    raised = type(found).__name__
print(json.dumps([raised, jitted(x).tolist(), jcache.jit(step)(x).tolist()]))
"""


@pytest.mark.parametrize(("variant", "name"), [("interrupt", "KeyboardInterrupt"), ("timeout", "TimeoutError")])
@pytest.mark.parametrize("event", ["jaxpr_trace_duration", "jaxpr_to_mlir_module_duration"])
def test_what_interrupts_a_hit_is_raised_and_done_with(tmp_path: Path, variant: str, name: str, event: str) -> None:
    """Ctrl-C, or an exception of a handler's or listener's, between looking up and loading; the next call is right."""
    cold = run(HEAD + f"EVENT = {''!r}\n" + INTERRUPTED, tmp_path / "root", variant).value
    assert cold[0] is None
    assert run(HEAD + f"EVENT = {event!r}\n" + INTERRUPTED, tmp_path / "root", variant).value == [name, *cold[1:]]


THREADS = """
devices = jax.devices()
functions = [jcache.jit(eval(f"lambda x: jnp.sin(x) * {n} + x.sum()"), check="never") for n in range(1, 13)]
results, barrier = {}, threading.Barrier(len(devices))
def work(number):
    y = jax.device_put(jnp.arange(4.0), devices[number])
    for index, function in enumerate(functions):
        barrier.wait(60)
        try:
            results[f"{number} {index}"] = function(y).tolist()
        except Exception as error:
            results[f"{number} {index}"] = repr(error)
threads = [threading.Thread(target=work, args=(number,)) for number in range(len(devices))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(results))
"""


def test_threads_on_several_devices(tmp_path: Path) -> None:
    """Each has what it asked for, also where one thread's marker is compiled by another, for a device of its own."""
    root, four = tmp_path / "root", {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    cold = run(HEAD + THREADS, root, "a", env=four).value
    assert len(cold) == 48 and not [value for value in cold.values() if isinstance(value, str)]
    for _ in range(3):
        assert run(HEAD + THREADS, root, "a", env=four).value == cold


DISABLED = """
def step(x):
    print("traced")
    return x * 2
jitted = jcache.jit(step)
jitted(x)
before = jitted.explain(x).hit
jcache.disable()
with contextlib.redirect_stdout(io.StringIO()) as printed:
    jitted(jnp.ones(3))
other = jitted.explain(jnp.ones(3))
directory = jax.config.jax_compilation_cache_dir
jcache.enable(root, strict=True)
jitted(jnp.ones(4))
print(json.dumps([before, other.hit, other.reason, directory, jitted.explain(jnp.ones(4)).hit]))
"""


def test_who_has_disabled_it_is_not_asked_again(tmp_path: Path) -> None:
    """After `disable` functions are traced as ever, and no root is put in use for them; until the next `enable`."""
    expected = [True, False, "`jcache.disable()` has been called.", None, True]
    assert [run(HEAD + DISABLED, tmp_path / "root", "a").value for _ in range(2)] == [expected] * 2


LIKE_JAX = """
import functools, inspect
def named(x, n: int = 2):
    return x * n
class Callable:
    def __call__(self, x):
        return x
def facts(jit):
    found = []
    for function in (named, functools.partial(named, n=3), Callable()):
        jitted = jit(function)
        found.append([getattr(jitted, name, "none") for name in ("__name__", "__qualname__", "__module__", "__doc__")])
        found.append([str(getattr(jitted, "__annotations__", "none")), str(inspect.signature(jitted))])
        found.append(str(inspect.getfullargspec(jitted)))
        assert jitted.__wrapped__ is function
    for result in ("text", str, {1, 2}, named):
        def wrong(x):
            return x, result
        try:
            jit(wrong)(x)
        except TypeError as error:
            found.append(str(error))
    return found
print(json.dumps([facts(jax.jit), facts(jcache.jit)]))
"""


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_it_looks_and_complains_like_jax(tmp_path: Path) -> None:
    """Its names, signature and annotations are those of `jax.jit`'s, and what is no array is refused in JAX's words."""
    for _ in range(2):
        theirs, ours = run(HEAD + LIKE_JAX, tmp_path / "root", "a").value
        assert ours == theirs
        assert "output component" in ours[-1]


LINEN = """
import flax.linen as nn
inputs, traced = jnp.ones((2, 3)), []
def made(width):
    module = nn.Dense(width)
    params = {"params": {"kernel": jnp.ones((3, width)), "bias": jnp.ones(width)}}
    def step(params, x):
        print("traced")
        return module.apply(params, x)
    return jcache.jit(step, check="never"), params
for width in (4, 5):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        step, params = made(width)
        step(params, inputs)
    traced.append(printed.getvalue().count("traced"))
print(json.dumps(traced))
"""


def test_how_many_modules_of_flax_there_were_before_does_not_count(tmp_path: Path) -> None:
    """They are numbered as they are made, and who does not trace makes fewer."""
    pytest.importorskip("flax")
    assert [run(HEAD + LINEN, tmp_path / "root", "a").value for _ in range(2)] == [[1, 1], [0, 0]]
