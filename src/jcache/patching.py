"""Replace functions and attributes of other modules, and put them back.

Replacements can be undone in any order and more than once, and leave nothing behind. Where other code has replaced the
same function since, ours stays below it and does nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any


class Patch:
    """A function in a module of JAX, replaced until `undo`."""

    _ORIGINAL = "__wrapped__"

    def __init__(self, module: Any, name: str, replace: Callable[[Any], Any]) -> None:
        """Replace the function by the result of calling `replace` with it."""
        self._module = module
        self._name = name
        self._original = getattr(module, name)
        self._on = True
        self._patched = self._make(replace)
        vars(self._patched)["_jcache_patch"] = self
        _put(module, name, self._patched)

    def _make(self, replace: Callable[..., Any]) -> Any:
        ours = replace(self._call_original)

        @functools.wraps(self._original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return (ours if self._on else self._original)(*args, **kwargs)

        return patched

    def undo(self) -> None:
        """Put the function back; where other code has replaced ours since, ours stays below it and does nothing."""
        self._on = False
        above = None
        function = getattr(self._module, self._name)
        if function is self._patched and not hasattr(self._original, "_jcache_patch"):
            _put(self._module, self._name, self._original)
            return
        while isinstance(patch := getattr(function, "_jcache_patch", None), Patch) and patch._patched is function:
            function = patch._original
            if patch._on:
                above = patch
            elif above is None:
                _put(self._module, self._name, function)
            else:
                above._original = vars(above._patched)[above._ORIGINAL] = function

    def redo(self) -> bool:
        """Replace the function again after `undo`; return False where it is not the one that was replaced."""
        if getattr(self._module, self._name) is not self._original:
            return False
        self._on = True
        _put(self._module, self._name, self._patched)
        return True

    def _call_original(self, *args: Any, **kwargs: Any) -> Any:
        return self._original(*args, **kwargs)


class AttributePatch(Patch):
    """An object in a module of JAX, replaced until `undo` by one that passes on to its attribute ``_original``."""

    _ORIGINAL = "_original"

    def _make(self, replace: Callable[..., Any]) -> Any:
        return replace(self._original)


def _put(holder: Any, name: str, function: Any) -> None:
    """Set a function in a module or class under a name.

    Python 3.13 stops counting the changes to a class after some hundred, and then specialised bytecode still calls the
    replaced ``__getitem__``, unless the function has a new version; assigning its defaults gives it one.
    """
    replaced = getattr(holder, name)
    setattr(holder, name, function)
    if isinstance(holder, type) and isinstance(replaced, FunctionType):
        replaced.__defaults__ = replaced.__defaults__


class View:
    """A stand-in for an object of JAX, with some attributes replaced."""

    def __init__(self, original: Any, **ours: Any) -> None:
        """Stand in for an object, with `ours` in place of its attributes of the same names."""
        self._original = original
        vars(self).update(ours)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Ranks(View):
    """JAX's module `distributed`, except that a thread that writes to the cache sees process number 0."""

    def __init__(self, distributed: Any) -> None:
        super().__init__(distributed)
        self.writing = threading.local()

    @property
    def global_state(self) -> Any:
        state = self._original.global_state
        return View(state, process_id=0) if getattr(self.writing, "now", False) else state


class WritesOfAllRanks:
    """Have every process of a multi-process program write to the cache, until `undo`."""

    def __init__(self, compiler: Any) -> None:
        self._distributed = AttributePatch(compiler, "distributed", _Ranks)
        ranks = compiler.distributed

        def replace(original: Callable[..., Any]) -> Callable[..., Any]:
            def cache_write(*args: Any, **kwargs: Any) -> Any:
                ranks.writing.now = True
                try:
                    return original(*args, **kwargs)
                finally:
                    ranks.writing.now = False

            return cache_write

        self._patch = Patch(compiler, "_cache_write", replace)

    def undo(self) -> None:
        self._patch.undo()
        self._distributed.undo()
