"""The builds in progress in a process: what each depends on, and who learns of it."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from jcache.fingerprint import fingerprint
from jcache.formats import pytrees
from jcache.formats.envelope import unseal
from jcache.layout import Kind, Root
from jcache.runtime import build_context
from jcache.runtime.build_context import Build, add_dependency, is_building, is_nested, producers
from tests.helpers.entries import key
from tests.helpers.graph_programs import forked

GRAPH = key(1, "mesh")


def half() -> float:
    """A function that depends on nothing."""
    return 0.5


def build(root: Root, call: Callable[[], object] = half) -> Build:
    """Run a build, and return it."""
    one = Build(root, GRAPH)
    one.run(call)
    return one


def test_a_build_is_in_progress_while_its_function_runs(native: Root) -> None:
    """It is known by its root and key, in its thread alone, and no longer once the function has raised."""
    seen: list[tuple[bool, bool, bool]] = []

    def look() -> None:
        seen.append((is_nested(), is_building(native, GRAPH), is_building(native, key(2, "mesh"))))

    def fail() -> None:
        look()
        thread = Thread(target=look)
        thread.start()
        thread.join()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        build(native, fail)
    look()
    assert seen == [(True, True, False), (False, False, False), (False, False, False)]


def test_files_that_are_read_meanwhile_are_dependencies(native: Root, tmp_path: Path) -> None:
    """They are found, with the time that building took, and are parts of the sealed entry."""
    (tmp_path / "rates.txt").write_text("1")
    built = build(native, (tmp_path / "rates.txt").read_text)
    assert built.reason is None and built.seconds > 0 and built.economics.builds == 1
    assert [label for label in built.found if "rates.txt" in label]
    of = fingerprint(half)
    header, payload = unseal(built.seal(pytrees.dump(0.5), of))
    assert (header.kind, header.key, header.name) == (Kind.GRAPHS, GRAPH, "mesh")
    assert header.key_parts == {**built.found, **of.parts} and header.producers == producers() | {"codec": "pytree"}
    assert pytrees.load(memoryview(bytearray(payload))) == 0.5


def test_a_requested_graph_is_a_parent_of_the_build_that_asks_for_it(native: Root) -> None:
    """All builds of the thread depend on what that graph depends on, and only the innermost has it as a parent."""
    inner = Build(native, key(2, "mesh"))

    def ask() -> None:
        inner.run(lambda: add_dependency(key(3, "mesh"), {"file /a": "1"}))

    outer = build(native, ask)
    assert (list(outer.parents), list(inner.parents)) == ([], [key(3, "mesh")])
    assert outer.found["file /a"] == inner.found["file /a"] == "1"


def test_a_thread_without_a_build_works_for_all_of_them(native: Root) -> None:
    """Nobody knows for which build it works, so each build depends on what it asks for; none is its child."""

    def ask() -> None:
        thread = Thread(target=add_dependency, args=(key(3, "mesh"), {"file /a": "1"}))
        thread.start()
        thread.join()

    built = build(native, ask)
    assert built.found["file /a"] == "1" and not built.parents


def test_a_forked_child_continues_only_its_own_threads_builds(native: Root) -> None:
    """The build of another thread is in progress in the parent alone: in the child nothing would end it."""
    began, may_end, counts = Event(), Event(), []

    def wait() -> None:
        began.set()
        may_end.wait()

    def fork() -> None:
        with forked() as is_child:
            counts.append(len(build_context._all_builds))
            assert counts == [1 if is_child else 2]

    other = Thread(target=lambda: build(native, wait))
    other.start()
    began.wait()
    try:
        build(native, fork)
    finally:
        may_end.set()
        other.join()
    assert counts == [2] and build_context._all_builds == []
