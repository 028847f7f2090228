"""The syntax tree of running code, where its source can be found and really is its source.

A file may have been edited since it was imported, and ``exec`` can claim any file name. So what is found is compiled
and compared with the code that runs; only where they are the same, positions aside, is it believed. So it may be cut
out of its file by a rough rule first: where that cuts wrongly, the whole file is read.
"""

import __future__

import ast
import linecache
import os
import re
import threading
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from jcache.fingerprint.bytecode import nested, signature
from jcache.fingerprint.syntax import Function, function_bytes, module_bytes

_FLAGS: Final = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names if name != "nested_scopes"
)  # that one stands for every function within another
_NAME: Final = "<jcache>"
_WITHIN: Final = " \t\f\r#)]}"  # how lines begin that begin no statement of a module
_STATEMENT: Final = re.compile(rf"\n(?=[^{re.escape(_WITHIN)}\n])")
_IMPORT: Final = re.compile(r"^[ \t]*((?:from\b[^\n]*?)?\bimport\b[ \t]*(?:\([^)]*\)|(?:\\\n|[^\n])*))", re.MULTILINE)
_DEFINES: Final = ("@", "async ", "class ", "def ")
_HOLDS_STATEMENTS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)
_quietly = threading.Lock()


def syntax_of(code: CodeType, namespace: dict[str, Any]) -> bytes | None:
    """What a function's code says, as bytes; None if its source is not to be had."""
    wanted = signature(code)
    for text in _texts(code.co_filename, namespace):
        cut = _cut_out(text, _begin(text, code.co_firstlineno))
        found = None if cut is None else cut.find_there(code, wanted)
        if found is None:
            parsed = _parsed(text)
            found = None if parsed is None else parsed.find(code, wanted)
        if found is not None:
            return function_bytes(found)
    return None


def syntax_of_module(code: CodeType, namespace: dict[str, Any]) -> bytes | None:
    """What the file of a module says, whose body runs; None if it is not to be had."""
    wanted = signature(code)
    for text in _texts(code.co_filename, namespace):
        try:
            tree, compiled = _quiet_parse(text), _quiet_compile(text, code.co_flags & _FLAGS)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if signature(compiled) == wanted:
            return module_bytes(tree)
    return None


def _texts(path: str, namespace: dict[str, Any]) -> Iterator[str]:
    """What may be the source: the file, what was read of it before, and what the loader has."""
    try:
        status = os.stat(path)
        text = _read(path, (status.st_mtime_ns, status.st_size, status.st_ino))
        if text is not None:
            yield text
    except (OSError, ValueError):
        pass
    entry = linecache.cache.get(path)
    if entry is not None and len(entry) == 4:
        yield "".join(entry[2])
    loader = getattr(namespace.get("__spec__"), "loader", None) or namespace.get("__loader__")
    get_source = getattr(loader, "get_source", None)
    if get_source is not None and not os.path.exists(path):
        try:
            text = get_source(namespace.get("__name__"))
        except (ImportError, OSError, SyntaxError, ValueError, TypeError):
            return
        if isinstance(text, str):
            yield text


@lru_cache(maxsize=64)
def _read(path: str, stamp: tuple[int, ...]) -> str | None:
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, ValueError):
        return None


def _quiet_parse(text: str) -> ast.Module:
    with _quietly, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, _NAME)


def _quiet_compile(source: str | ast.Module, flags: int) -> CodeType:
    with _quietly, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled: CodeType = compile(source, _NAME, "exec", flags=flags, dont_inherit=True)
        return compiled


@lru_cache(maxsize=64)
def _parsed(text: str) -> "_Source | None":
    try:
        tree = _quiet_parse(text)
        return _Source(tree.body, list(_imports(tree.body)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=64)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _begins(line: str) -> bool:
    """Whether a statement of the module begins in a line, to all appearances."""
    return line[:1] not in _WITHIN


def _begin(text: str, line: int) -> int:
    """The line, counted from 0, in which the statement of a module begins that a line, counted from 1, is in."""
    lines = _lines(text)
    at = min(line, len(lines)) - 1
    while at > 0 and not _begins(lines[at]):
        at -= 1
    return at


@lru_cache(maxsize=1024)
def _cut_out(text: str, begin: int) -> "_Source | None":
    """One statement of a module and what the module imports."""
    lines = _lines(text)
    end = begin
    while end < len(lines) and not (_begins(lines[end]) and lines[end][0] != "@"):
        end += 1
    end += 1
    while end < len(lines) and not _begins(lines[end]):
        end += 1
    try:
        return _Source(_quiet_parse("\n" * begin + "\n".join(lines[begin:end])).body, _imported(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=64)
def _imported(text: str) -> list[ast.stmt]:
    """The imports of a module, to all appearances."""
    statements = [each for each in _STATEMENT.split(text) if "import" in each and not each.startswith(_DEFINES)]
    return list(_imports(_quiet_parse("\n".join(found for each in statements for found in _IMPORT.findall(each))).body))


class _Source:
    """Statements of a file, their functions by name, and the code of those that were needed so far."""

    def __init__(self, body: list[ast.stmt], imports: list[ast.stmt]) -> None:
        self._functions: dict[str, list[tuple[Function, ast.stmt]]] = {}
        self._compiled: dict[tuple[int, int], list[CodeType]] = {}
        self._imports = imports
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, Function):
                    self._functions.setdefault(_name(node), []).append((node, statement))

    def find(self, code: CodeType, wanted: bytes) -> Function | None:
        """The function whose code is the same; of several the one in the same place."""
        candidates = self._functions.get(code.co_name, [])
        return self.find_there(code, wanted) or self._same(code, wanted, candidates)

    def find_there(self, code: CodeType, wanted: bytes) -> Function | None:
        """The function in the same place, if its code is the same."""
        candidates = self._functions.get(code.co_name, [])
        return self._same(code, wanted, [each for each in candidates if _first_line(each[0]) == code.co_firstlineno])

    def _same(self, code: CodeType, wanted: bytes, some: list[tuple[Function, ast.stmt]]) -> Function | None:
        same = [
            compiled
            for statement in {id(each[1]): each[1] for each in some}.values()
            for compiled in self._codes(statement, code.co_flags & _FLAGS)
            if compiled.co_code == code.co_code and signature(compiled) == wanted
        ]
        same.sort(key=lambda each: (list(each.co_positions()) != list(code.co_positions()), each.co_firstlineno))
        candidates = [each[0] for each in self._functions.get(code.co_name, [])]
        return _node_of(same[0], candidates) if same else None

    def _codes(self, statement: ast.stmt, flags: int) -> list[CodeType]:
        key = id(statement), flags
        if key not in self._compiled:
            try:
                module = _quiet_compile(ast.Module([*self._imports, statement], []), flags)
                self._compiled[key] = list(nested(module))
            except (SyntaxError, ValueError, RecursionError, MemoryError):  # a lone "await" in a notebook's cell, say
                self._compiled[key] = []
        return self._compiled[key]


def _imports(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """The imports of a module: the compiler calls methods of what it knows to be imported in another way."""
    for node in body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _imports([each for each in ast.iter_child_nodes(node) if isinstance(each, _HOLDS_STATEMENTS)])


def _name(node: Function) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return decorators[0].lineno if decorators else node.lineno


def _node_of(code: CodeType, candidates: list[Function]) -> Function | None:
    """The function that a code object, compiled from this very tree, was compiled from."""
    here = [node for node in candidates if _first_line(node) == code.co_firstlineno]
    if len(here) <= 1:
        return here[0] if here else None
    spans = [
        (first, column, last, end)
        for first, last, column, end in code.co_positions()
        if first is not None and last is not None and column is not None and end is not None and end > 0
    ]
    around = [node for node in here if all(_contains(node, span) for span in spans)]
    return min(around, key=_extent) if around else None


def _contains(node: Function, span: tuple[int, int, int, int]) -> bool:
    body = node.body if isinstance(node.body, ast.AST) else node
    start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return start <= span[:2] and span[2:] <= end


def _extent(node: Function) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset
