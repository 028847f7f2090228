"""Compare two lowered modules, as texts: what differs, in the words of `jcache.vocabulary`.

Names that mean nothing are made canonical first: SSA values, private functions, the module itself. What differs then is
looked for from the harmless to the grave: names alone, constants alone, types alone, the order of operations, the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, NamedTuple

from jcache.vocabulary import CauseKind

Pairs = frozenset[tuple[str, str]]  # what became of it: of the baseline, of the current one

_SYMBOL: Final = r'@(?:[\w.$-]+|"(?:[^"\\]|\\.)*")'
_PRIVATE: Final = re.compile(rf"func\.func private ({_SYMBOL})")
_MODULE: Final = re.compile(rf"^module {_SYMBOL}", re.MULTILINE)
_ANY_SYMBOL: Final = re.compile(_SYMBOL)
_RESULT_INFO: Final = re.compile(r'jax\.(?:result|arg)_info = "(?:[^"\\]|\\.)*"')
_SSA: Final = re.compile(r"%\w+")
_NEW_FUNCTION: Final = re.compile(r"^ *func\.func ", re.MULTILINE)
_CONSTANT: Final = re.compile(r'(constant )dense(?:_resource)?<(?:"[^"]*"|[^>"]*)>')
_DENSE: Final = re.compile(r'dense(?:_resource)?<(?:"[^"]*"|[^>"]*)>')
_TENSOR: Final = re.compile(r"tensor<([^<>]*)>")
_INTEGER: Final = re.compile(r"(?<![%\w#@.])\d+")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_ADDED: Final = re.compile(r"@(?:jit_)?(.+?)(?:_\d+)?")
_SHORT_CHARS: Final = 100
_MAX_COMPARED_LINES: Final = 4000  # difflib needs time in the square of it
_MAX_NAMES: Final = 3
_MAX_BROUGHT: Final = 4


class ModuleChange(NamedTuple):
    """What differs between two modules.

    Attributes:
        item: ``NAMES``, ``CONSTANT``, ``SHAPE``, ``DTYPE``, ``ORDER`` or ``PROGRAM``.
        current, baseline: the difference, in short; for a program, the first line that differs.
        pairs: for types, the sizes or dtypes that changed; for names, the names.
    """

    item: CauseKind
    current: str
    baseline: str
    pairs: Pairs = frozenset()


def compare_modules(current: str, baseline: str) -> ModuleChange:
    """Return what differs between two modules, given as texts that JAX prints of modules that differ."""
    if current == baseline:  # the printer leaves out the elements of large arrays
        return ModuleChange(CauseKind.CONSTANT, "another large array", "")
    ours, theirs = canonical(current), canonical(baseline)
    if ours == theirs:
        return _names(current, baseline)
    if _CONSTANT.sub(r"\1", ours) == _CONSTANT.sub(r"\1", theirs):
        return _first(CauseKind.CONSTANT, _CONSTANT, ours, theirs)
    if _without_types(ours) == _without_types(theirs):
        return _types(ours, theirs)
    line, other = first_difference(ours.splitlines(), theirs.splitlines())
    is_order = Counter(_SSA.sub("%", ours).splitlines()) == Counter(_SSA.sub("%", theirs).splitlines())
    if is_order:
        return ModuleChange(CauseKind.ORDER, _short(line), _short(other))
    return ModuleChange(CauseKind.PROGRAM, _short(line), _short(other), _types_brought(ours, theirs))


def _types_brought(ours: str, theirs: str) -> Pairs:
    """Return the sizes that one module alone has, with those that the other alone has, and so for dtypes.

    They tell what may have brought another program: a cast of the arguments elsewhere, or arrays of another size.
    """
    (sizes, dtypes), (others, other_dtypes) = _sizes_and_dtypes(ours), _sizes_and_dtypes(theirs)
    new, old = sizes - others, others - sizes
    pairs = {(a, b) for a in old for b in new} if max(len(new), len(old)) <= _MAX_BROUGHT else set()
    return frozenset(pairs | {(a, b) for a in other_dtypes for b in dtypes - other_dtypes})


def _sizes_and_dtypes(text: str) -> tuple[set[str], set[str]]:
    sizes: set[str] = set()
    dtypes: set[str] = set()
    for kind in set(_TENSOR.findall(text)):
        *some, dtype = kind.partition(",")[0].split("x")
        sizes.update(some)
        dtypes.add(dtype)
    return sizes, dtypes


def canonical(text: str) -> str:
    """Return a module whose SSA values, private functions and own name are numbered; names of results are left out."""
    text = _RESULT_INFO.sub("jax.info", _MODULE.sub("module @_", text))
    private = {match[1]: "" for match in _PRIVATE.finditer(text)}
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        symbol = match[0]
        return names.setdefault(symbol, f"@f{len(names)}") if symbol in private else symbol

    starts = [match.start() for match in _NEW_FUNCTION.finditer(text)]
    bounds = zip([0, *starts], [*starts, len(text)], strict=True)
    return _ANY_SYMBOL.sub(renamed, "".join(_numbered(text[start:end]) for start, end in bounds))


def _numbered(function: str) -> str:
    """Return a function whose SSA values are numbered in the order in which they come."""
    names: dict[str, str] = {}
    return _SSA.sub(lambda match: names.setdefault(match[0], f"%{len(names)}"), function)


def mask_addresses(text: str) -> str:
    """Return a text without addresses of objects in memory."""
    return _ADDRESS.sub("0x…", text)


def _names(current: str, baseline: str) -> ModuleChange:
    """Return the names that differ, the first few of them."""
    ours, theirs = ([*_ANY_SYMBOL.findall(text), *_RESULT_INFO.findall(text)] for text in (current, baseline))
    changed = dict.fromkeys((_plain(a), _plain(b)) for a, b in zip(ours, theirs, strict=False) if a != b)
    pairs = [(a, b) for a, b in changed if a != b][:_MAX_NAMES] or [*changed][:1]
    return ModuleChange(
        CauseKind.NAMES,
        " ".join(a for a, _ in pairs),
        " ".join(b for _, b in pairs),
        frozenset((b, a) for a, b in pairs),
    )


def _plain(symbol: str) -> str:
    """Return the name of a function without what JAX adds to it: ``jit_`` in front, a number behind."""
    match = _ADDED.fullmatch(symbol)
    return symbol if match is None else f"@{match[1]}"


def _first(item: CauseKind, pattern: re.Pattern[str], ours: str, theirs: str) -> ModuleChange:
    """Return the first match of a pattern that differs, with its type."""
    for mine, other in zip(pattern.finditer(ours), pattern.finditer(theirs), strict=False):
        if mine[0] != other[0]:
            return ModuleChange(item, _short(_with_type(mine)), _short(_with_type(other)))
    return ModuleChange(item, "", "")


def _with_type(match: re.Match[str]) -> str:
    """Return a constant with the type behind it: ``dense<1.0> : tensor<f32>``."""
    value = match[0].removeprefix(match[1])
    rest = match.string[match.end() :].partition("\n")[0]
    return value + (rest if rest.startswith(" : ") else "")


def _without_types(text: str) -> str:
    return _INTEGER.sub("N", _TENSOR.sub("tensor", _DENSE.sub("dense", text)))


def _types(ours: str, theirs: str) -> ModuleChange:
    """Return the first type that differs, and all sizes, or dtypes, that changed."""
    types = zip(_TENSOR.findall(theirs), _TENSOR.findall(ours), strict=True)
    changed = [(old, new) for old, new in types if old != new]
    if not changed:
        line, other = first_difference(ours.splitlines(), theirs.splitlines())
        return ModuleChange(CauseKind.PROGRAM, _short(line), _short(other))
    split = [(old.split(","), new.split(",")) for old, new in changed]
    sizes: set[tuple[str, str]] = set()
    dtypes: set[tuple[str, str]] = set()
    for (old, *_), (new, *_) in split:
        *before, old_dtype = old.split("x")
        *after, new_dtype = new.split("x")
        sizes.update(size_pairs(before, after))
        dtypes.update({(old_dtype, new_dtype)} if old_dtype != new_dtype else ())
    old, new = changed[0]
    item, pairs = (CauseKind.SHAPE, sizes) if sizes else (CauseKind.DTYPE, dtypes)
    return ModuleChange(item, f"tensor<{new}>", f"tensor<{old}>", frozenset(pairs))


def size_pairs(before: Sequence[str], after: Sequence[str]) -> Pairs:
    """Return the sizes that differ between two shapes, of the baseline and of the current one."""
    if len(before) != len(after):
        return frozenset({("x".join(before), "x".join(after))})
    return frozenset((old, new) for old, new in zip(before, after, strict=True) if old != new)


def first_difference(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    """Return the first lines that differ; an empty text for a module that has ended."""
    pairs = zip_longest(ours, theirs, fillvalue="")
    return next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))


def _short(line: str) -> str:
    return line if len(line) <= _SHORT_CHARS else f"{line[: _SHORT_CHARS - 1]}…"


class DiffLine(NamedTuple):
    """A line of two modules side by side.

    Attributes:
        mark: blank for equal lines, ``|`` for changed ones, ``<`` or ``>`` for one that only the baseline, or the
            current module, has.
        baseline, current: the lines.
    """

    mark: str
    baseline: str
    current: str


def side_by_side(baseline: str, current: str, *, context: int = 3) -> Iterator[DiffLine | None]:
    """Yield the lines of two modules that differ, with some lines around them; None where lines are left out."""
    old, new = baseline.splitlines(), current.splitlines()
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = range(1, min(len(old), len(new)) - start + 1)
    same_end = next((n - 1 for n in rest if old[-n] != new[-n]), len(rest))
    first = max(0, start - context)
    if first:
        yield None
    yield from (DiffLine(" ", line, line) for line in old[first:start])
    yield from _changed(old[start : len(old) - same_end], new[start : len(new) - same_end], context)
    yield from (DiffLine(" ", line, line) for line in old[len(old) - same_end :][:context])
    if same_end > context:
        yield None


def _changed(old: list[str], new: list[str], context: int) -> Iterator[DiffLine | None]:
    """Yield the lines of the part in which two modules differ."""
    if max(len(old), len(new)) > _MAX_COMPARED_LINES:
        blocks = [("replace", 0, len(old), 0, len(new))]
    else:
        blocks = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    for tag, i, j, k, m in blocks:
        if tag != "equal":
            for a, b in zip_longest(old[i:j], new[k:m]):
                mark = "<" if b is None else ">" if a is None else "|"
                yield DiffLine(mark, a or "", b or "")
        elif j - i <= 2 * context:
            yield from (DiffLine(" ", line, line) for line in old[i:j])
        else:
            yield from (DiffLine(" ", line, line) for line in old[i : i + context])
            yield None
            yield from (DiffLine(" ", line, line) for line in old[j - context : j])
