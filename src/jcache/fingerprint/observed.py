"""What a result turned out to depend on while it was made, beyond what the walk through the code had found.

Code that only a computed name leads to cannot be known before. It is recorded while it runs, as a compiler does with
the headers that it includes, and compared the next time.
"""

# ruff: noqa: ANN401 - programs hold anything

import sys
from collections.abc import Mapping
from types import CodeType, ModuleType, TracebackType
from typing import Any, Final

from jcache.errors import GraphKeyError
from jcache.fingerprint.bytecode import nested
from jcache.fingerprint.call import Fingerprint
from jcache.fingerprint.code import meaning
from jcache.fingerprint.code_recorder import Namespace, Recorder
from jcache.fingerprint.describe import shortened
from jcache.fingerprint.parts import total
from jcache.fingerprint.walk import Walk

_RAN: Final = "ran "
_MODULE: Final = "ran module "
_ABSENT: Final = "absent"
_CO_OPTIMIZED: Final = 1


class Discovery:
    """A context in which a callable is called that has a fingerprint.

    Args:
        fingerprint: of it.
        strict: of no effect any more.

    Attributes:
        parts: once it is left, what the result depends on beyond the fingerprint; compare `discovered_now`.
        reason: why the result must not be stored, None if it may be.
    """

    def __init__(self, fingerprint: Fingerprint, *, strict: bool = False) -> None:
        self.parts: Mapping[str, str] = {}
        self.reason: str | None = None
        self._codes = fingerprint.codes
        self._recorder = Recorder()

    def __enter__(self) -> "Discovery":
        self.reason = self._recorder.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.end()
        if error is None:
            self.parts = self._found()

    def _found(self) -> dict[str, str]:
        found: dict[str, str] = {}
        covered = set(self._codes)
        for code, namespace in list(self._recorder.seen.values()):
            if code.co_name == "<module>" and not _is_generated(code):
                found[f"{_MODULE}{namespace.get('__name__')}"] = _module_words(code)
                covered.update((id(code), *_of_statements(code)))
        for number, (code, namespace) in list(self._recorder.seen.items()):
            if number not in covered and not _is_generated(code):
                self._find(code, namespace, covered, found)
        return dict(sorted(found.items()))

    def _find(self, code: CodeType, namespace: Namespace, covered: set[int], found: dict[str, str]) -> None:
        top = code.co_qualname.partition(".")[0]
        home = str(namespace.get("__name__", "?"))
        module = sys.modules.get(home)
        if isinstance(module, ModuleType) and vars(module) is namespace and top in namespace:
            words, codes = _ran(home, namespace[top])
            if id(code) in codes:
                covered.update(codes)
                found[f"{_RAN}{home}.{top}"] = words
                return
            self.reason = words if words.startswith("`") else self.reason
        self.reason = self.reason or (
            f"`{home}.{code.co_qualname}` ran and is not what can be found under that name, so that a change of it"
            " would go unnoticed"
        )


def discovered(parts: Mapping[str, str]) -> dict[str, str]:
    """Those of the parts that were found by a `Discovery`."""
    return {label: words for label, words in parts.items() if label.startswith(_RAN)}


def discovered_now(parts: Mapping[str, str]) -> Mapping[str, str]:
    """The same labels as those parts, with what they stand for now; nothing is imported for it."""
    return {label: _now(label) for label in parts}


def _now(label: str) -> str:
    if label.startswith(_MODULE):
        module = sys.modules.get(label.removeprefix(_MODULE))
        return _ABSENT if module is None else _imported_words(module)
    home, _, top = label.removeprefix(_RAN).rpartition(".")
    module = sys.modules.get(home)
    if module is None or top not in vars(module):
        return _ABSENT
    return _ran(home, vars(module)[top])[0]


def _ran(home: str, value: Any) -> tuple[str, set[int]]:
    """Something that a module has, in words, and the code that belongs to it."""
    walk = Walk(home, "function")
    try:
        walk.value("ran", value)
        walk.run()
    except GraphKeyError as error:
        return f"`{home}` has code that ran and has no key: {error}", set()
    return shortened(total(walk.parts)), {id(each) for code in walk.codes() for each in nested(code)}


def _module_words(code: CodeType) -> str:
    return shortened(meaning(code).digest)


def _imported_words(module: ModuleType) -> str:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    try:
        code = loader.get_code(module.__name__) if loader is not None else None
    except Exception:  # noqa: BLE001  whoever has made the loader
        code = None
    return _ABSENT if code is None else _module_words(code)


def _of_statements(code: CodeType) -> list[int]:
    """What runs where it stands: bodies of classes, and comprehensions."""
    found = []
    for each in code.co_consts:
        if isinstance(each, CodeType) and (not each.co_flags & _CO_OPTIMIZED or each.co_name in _IN_PLACE):
            found += [id(each), *_of_statements(each)]
    return found


_IN_PLACE: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def _is_generated(code: CodeType) -> bool:
    """Whether a dataclass, a named tuple, attrs or equinox has made it of a class, or old numpy of any function."""
    if code.co_filename.startswith(("<attrs generated", "<generated_", "<__array_function__ ")):
        return True
    if code.co_name == "<module>":
        inner = [each for each in code.co_consts if isinstance(each, CodeType)]
        return bool(inner) and all(map(_is_generated, inner))
    if code.co_filename == "<string>" and code.co_name == "__create_fn__":
        return True
    is_tuple = code.co_name == "<lambda>" and code.co_varnames[:1] == ("_cls",)
    return code.co_filename == "<string>" and (code.co_qualname.startswith("__create_fn__.<locals>.") or is_tuple)
