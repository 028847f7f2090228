"""What is found out while something is built, and noticed when it is not the same the next time."""

import collections
import cProfile
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jcache.fingerprint import Discovery, discovered_now, fingerprint
from tests.helpers.fingerprints import Sources, imported


def discover(function: Callable[..., Any], *args: Any) -> Discovery:
    """Calls a function, and returns what was found meanwhile."""
    with Discovery(fingerprint(function, args)) as found:
        function(*args)
    return found


@contextmanager
def dynamic(
    directory: Path, plugin: str = "def rate(x): return helper(x)\ndef helper(x): return x"
) -> Iterator[ModuleType]:
    """A module ``model``, and one with functions that the code of its ``build`` does not lead to."""
    sources: Sources = {
        "model.py": "import model_plugin\ndef build(): return 1",
        "model_plugin.py": plugin,
    }
    with imported(directory, sources) as model:
        yield model


def test_what_the_walk_has_covered_is_not_found_again(tmp_path: Path) -> None:
    """Functions, what stands in them, methods, generators, classes that they define and what dataclasses make."""
    source = """
        import dataclasses, collections, enum, functools
        @dataclasses.dataclass(order=True)
        class Mesh:
            n: int
            def f(self): return [h(x) for x in range(self.n)]
        P = collections.namedtuple("P", "a b")
        def h(x): return (lambda: x)()
        def g():
            yield from (h(x) for x in range(3))
        @functools.lru_cache
        def cached(n): return h(n)
        def build():
            class Inner:
                n = [h(y) for y in range(2)]
                def f(self): return {k: v for k, v in zip("ab", self.n)}
            @dataclasses.dataclass
            class Local:
                n: int = 1
            E = enum.Enum("E", "A B")
            found = Mesh(3).f(), sorted(g(), key=lambda x: -x)
            return found, P(1, 2), Inner().f(), Local(2), cached(1), Mesh(1) < Mesh(2), E
    """
    with imported(tmp_path, source) as model:
        found = discover(model.build)
    assert found.reason is None
    assert dict(found.parts) == {}


def through(model: ModuleType, target: Callable[..., Any]) -> Discovery:
    """What is found when a build reaches a function by a way that nobody can foresee."""
    found = Discovery(fingerprint(model.build))
    with found:
        target(2)
    return found


def test_a_helper_that_is_reached_dynamically_is_found(tmp_path: Path) -> None:
    """With all that it reaches itself; what has changed the next time is seen, as is what is gone."""
    with dynamic(tmp_path) as model:
        plugin = sys.modules["model_plugin"]
        found = through(model, plugin.rate)
        assert found.reason is None
        assert list(found.parts) == ["ran model_plugin.rate"]
        assert discovered_now(found.parts) == found.parts
        plugin.helper = lambda x: -x  # type: ignore[attr-defined]
        assert discovered_now(found.parts) != found.parts
        del plugin.rate
        assert discovered_now(found.parts) == {"ran model_plugin.rate": "absent"}
    assert discovered_now(found.parts) == {"ran model_plugin.rate": "absent"}


def test_a_discovered_method_stands_for_its_class(tmp_path: Path) -> None:
    """Its attributes and other methods count with it."""
    plugin = "class C:\n  n = 1\n  @property\n  def rate(self): return self.n\ndef call(x): return C().rate"
    with dynamic(tmp_path, plugin=plugin) as model:
        module = sys.modules["model_plugin"]
        found = through(model, lambda x: module.C().rate)
        parts = {label: text for label, text in found.parts.items() if "model_plugin" in label}
        assert list(parts) == ["ran model_plugin.C"]
        module.C.n = 2
        assert discovered_now(parts) != parts


def test_code_that_cannot_be_found_again_is_a_reason_not_to_store(tmp_path: Path) -> None:
    """What has no name of its own could change unnoticed."""
    with dynamic(tmp_path) as model:
        namespace: dict[str, Any] = {}
        exec("def f(x): return x", namespace)
        found = through(model, namespace["f"])
    assert found.reason is not None and "cannot be found" in found.reason.replace("is not what can be", "cannot be")


def test_a_discovered_helper_without_a_fingerprint_is_a_reason(tmp_path: Path) -> None:
    """It is told what of it has none."""
    plugin = "left = iter([1, 2])\ndef rate(x): return next(left)"
    with dynamic(tmp_path, plugin=plugin) as model:
        found = through(model, sys.modules["model_plugin"].rate)
    assert found.reason is not None and "iterator" in found.reason


def test_threads_that_a_build_starts_are_heard(tmp_path: Path) -> None:
    """And those that were there before are not."""
    go, done = threading.Event(), threading.Event()

    with dynamic(tmp_path, plugin="def rate(x): return x\ndef other(x): return x") as model:
        plugin = sys.modules["model_plugin"]

        def beside() -> None:
            go.wait()
            plugin.other(1)
            done.set()

        thread = threading.Thread(target=beside)
        thread.start()

        def target(x: int) -> None:
            go.set()
            done.wait()
            inner = threading.Thread(target=plugin.rate, args=(1,))
            inner.start()
            inner.join()

        found = through(model, target)
        thread.join()
    assert [label for label in found.parts if "model_plugin" in label] == ["ran model_plugin.rate"]


def test_several_builds_at_once(tmp_path: Path) -> None:
    """Each finds its own; one within another finds for both."""
    with dynamic(tmp_path, plugin="def a(x): return x\ndef b(x): return x") as model:
        plugin = sys.modules["model_plugin"]
        prints = fingerprint(model.build)
        barrier = threading.Barrier(2)
        results: dict[str, list[str]] = {}

        def build(name: str) -> None:
            barrier.wait()
            with Discovery(prints) as found:
                barrier.wait()
                for _ in range(3):
                    getattr(plugin, name)(1)
                barrier.wait()
            results[name] = list(found.parts)

        threads = [threading.Thread(target=build, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {name: [each for each in labels if "plugin" in each] for name, labels in results.items()} == {
            "a": ["ran model_plugin.a"],
            "b": ["ran model_plugin.b"],
        }
        with Discovery(prints) as outer:
            plugin.a(1)
            with Discovery(prints) as inner:
                plugin.b(1)
            plugin.a(1)
        assert list(inner.parts) == ["ran model_plugin.b"]
        assert list(outer.parts) == ["ran model_plugin.a", "ran model_plugin.b"]


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """No profiler, no tool of sys.monitoring, also after an error."""
    with dynamic(tmp_path) as model, pytest.raises(ZeroDivisionError), Discovery(fingerprint(model.build)):
        _ = 1 / 0
    assert sys.getprofile() is None
    assert threading.getprofile() is None
    if sys.version_info >= (3, 12):
        assert not any(sys.monitoring.get_tool(number) == "jcache" for number in range(6))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="profilers are in nobody's way there")
def test_a_profiler_of_the_programs_own(tmp_path: Path) -> None:
    """One in Python is kept informed; one in C is left alone, and nothing can be recorded."""
    calls: collections.Counter[str] = collections.Counter()

    def profiler(frame: Any, event: str, argument: Any) -> None:
        calls[frame.f_code.co_name] += event == "call"

    with dynamic(tmp_path) as model:
        plugin = sys.modules["model_plugin"]
        sys.setprofile(profiler)
        try:
            found = through(model, plugin.rate)
            assert sys.getprofile() is profiler
        finally:
            sys.setprofile(None)
        assert list(found.parts) == ["ran model_plugin.rate"] and calls["rate"] == 1
        profile = cProfile.Profile()
        profile.enable()
        found = through(model, plugin.rate)
        profile.disable()
        assert found.reason is not None and "profiler" in found.reason


def test_a_module_that_is_imported_meanwhile(tmp_path: Path) -> None:
    """Its file counts, and its functions that ran do."""
    plugin = "class C:\n  n = [x for x in range(2)]\ndef rate(x): return x\nrate(1)"
    with imported(tmp_path, {"model.py": "def build(): return 1", "model_late.py": plugin}) as model:
        found = through(model, functools.partial(importlib.import_module, "model_late"))
        assert found.reason is None
        labels = [label for label in found.parts if "late" in label]
        assert labels == ["ran model_late.rate", "ran module model_late"]
        assert discovered_now(found.parts) == found.parts
