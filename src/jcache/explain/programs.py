"""Read recorded modules and compile options in a child process that has JAX; it starts when it is first needed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from jcache.errors import DamagedEntry
from jcache.explain.modules import ModuleChange, compare_modules
from jcache.formats.debug_options import debug_options
from jcache.formats.protobuf import Message
from jcache.jax_internals.child import Child, ChildDied, NoJax, child_of, interpreter
from jcache.package import own_file
from jcache.text import shown

PROGRAM: Final = own_file("jax_internals", "child_programs.py")
CACHE_PATHS: Final = ("xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file")
_LIMIT_S: Final = 60.0
_MAX_TEXTS: Final = 200  # modules that are read for one diagnosis

ReadModule = Callable[[str], bytes | None]


class Programs:
    """The modules that a root keeps, and compile options, as texts.

    Args:
        read: returns the bytes of a module by its hash; None if they are not kept.
        environment: the environment that names the interpreter with JAX; None to use no JAX.

    Attributes:
        notice: a sentence on why modules or options could not be read; None if all could.
    """

    def __init__(self, read: ReadModule, environment: Mapping[str, str] | None) -> None:
        self.notice: str | None = None
        self._read = read
        self._environment = environment
        self._stack = ExitStack()
        self._child: Child | None = None
        self._texts: dict[str, str | None] = {}
        self._options: dict[str, Mapping[str, str] | None] = {}
        self._compared: dict[tuple[str, str], ModuleChange | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def compare(self, current: str, baseline: str) -> ModuleChange | None:
        """Return what differs between two modules, given their hashes; None if one of them cannot be read."""
        pair = (current, baseline)
        if pair not in self._compared:
            ours = self.text(current)
            theirs = None if ours is None else self.text(baseline)
            self._compared[pair] = None if ours is None or theirs is None else compare_modules(ours, theirs)
        return self._compared[pair]

    def text(self, module: str) -> str | None:
        """Return the text of a module, given its hash; None if it is not kept or cannot be read."""
        if module not in self._texts:
            if len(self._texts) >= _MAX_TEXTS:
                self._note(f"Only {_MAX_TEXTS} modules were compared.")
                return None
            data = self._read(module)
            self._texts[module] = None if data is None else self._ask("module", data)
        return self._texts[module]

    def options(self, proto: str) -> Mapping[str, str] | None:
        """Return compile options by field, given the base64 text of their bytes; None if they cannot be read.

        Without JAX, the path of the cache directory is the only field that is known.
        """
        if proto not in self._options:
            try:
                data = base64.b64decode(proto, validate=True)
                text = self._ask("options", data)
                fields = _cache_path(data) if text is None else json.loads(text)
            except ValueError:
                fields = None
            is_known = isinstance(fields, dict) and all(isinstance(value, str) for value in fields.values())
            self._options[proto] = fields if is_known else None
        return self._options[proto]

    def _ask(self, kind: str, data: bytes) -> str | None:
        child = self._running()
        if child is None:
            return None
        try:
            text, problem = child.ask({kind: base64.b64encode(data).decode()}, "text", "problem")
        except ChildDied as death:
            self._end(
                f"JAX could not read the programs ({death.evidence}), so they are compared by their hashes alone."
            )
            return None
        if problem:
            self._note(f"A program cannot be read by jaxlib {shown(child.jaxlib)} here: {shown(problem)}.")
            return None
        return text

    def _running(self) -> Child | None:
        """Return the child process; None if there is none."""
        if self._child is None and self._environment is not None:
            environment = {**self._environment, "JAX_PLATFORMS": "cpu"}
            child = child_of(
                interpreter(self._environment), PROGRAM, _LIMIT_S, environment, doing="read recorded programs"
            )
            try:
                self._child = self._stack.enter_context(child)
            except NoJax as error:
                self._end(f"{error} Without it, programs are compared by their hashes alone.")
        return self._child

    def _end(self, notice: str) -> None:
        self._note(notice)
        self._stack.close()
        self._child = self._environment = None

    def _note(self, notice: str) -> None:
        self.notice = self.notice or notice


def _cache_path(options: bytes) -> dict[str, str] | None:
    """Return the path of the cache directory in compile options, as a field; None if there is none."""
    try:
        found = debug_options(Message(memoryview(options)))
    except DamagedEntry:
        return None
    return None if found is None or found.cache_path is None else {CACHE_PATHS[0]: found.cache_path}
