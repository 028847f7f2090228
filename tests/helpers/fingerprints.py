"""Packages that are written, imported, fingerprinted and forgotten."""

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from jcache.fingerprint import Fingerprint, fingerprint

Sources = str | Mapping[str, str]


def write(directory: Path, sources: Sources) -> None:
    """A module ``model``, or files by name."""
    files = {"model.py": sources} if isinstance(sources, str) else sources
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), newline="", encoding="utf-8", errors="surrogatepass")


@contextmanager
def imported(directory: Path, sources: Sources) -> Iterator[ModuleType]:
    """The module ``model`` of some sources; all that was imported with it is forgotten afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory, sources)
    before = set(sys.modules)
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("model")
    finally:
        sys.path.remove(str(directory))
        for name in set(sys.modules) - before:
            if str(directory) in str(getattr(sys.modules[name], "__file__", "")) or name.startswith("model"):
                del sys.modules[name]


def of(directory: Path, sources: Sources, *args: object, **kwargs: object) -> Fingerprint:
    """The fingerprint of ``build`` in the module ``model``."""
    with imported(directory, sources) as model:
        return fingerprint(model.build, args, kwargs)


def build(value: object = None) -> object:
    return value


def key_of(value: object) -> str:
    """The key of a call with a value."""
    return fingerprint(build, (value,)).hash


def executed(source: str, name: str, **namespace: Any) -> dict[str, Any]:
    """The globals of some source, which is executed as if it were of a file of that name."""
    exec(compile(source, name, "exec"), namespace)
    return namespace


def run_calls(
    directory: Path,
    source: str,
    calls: Iterable[tuple[str, int]],
    call: Callable[[Any, int], object] = lambda function, argument: function(argument),
    state: Callable[[Any], str] = lambda _: "",
) -> tuple[list[object], str]:
    """Import a module anew and call its functions; return the results, and the state of the module afterwards.

    Args:
        directory: the directory of the module.
        source: its text.
        calls: names of functions, each with its argument.
        call: how they are called.
        state: returns the state of a module as a text.
    """
    with imported(directory, source) as module:
        return [call(getattr(module, name), argument) for name, argument in calls], state(module)
