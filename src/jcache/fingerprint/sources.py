"""The syntax tree of running code, where its source can be found and really is its source.

A file may have been edited since it was imported, and ``exec`` can claim any file name. So what is found is compiled
and compared with the code that runs; only where they are the same, positions aside, is it believed.
"""

import __future__

import ast
import linecache
import os
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
_HOLDS_STATEMENTS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)
_quietly = threading.Lock()


def syntax_of(code: CodeType, namespace: dict[str, Any]) -> bytes | None:
    """What a function's code says, as bytes; None if its source is not to be had."""
    wanted = signature(code)
    for text in _texts(code.co_filename, namespace):
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
        return _Source(_quiet_parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Source:
    """A file, its functions by name, and the code of the statements that were needed so far."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions: dict[str, list[tuple[Function, ast.stmt]]] = {}
        self._compiled: dict[tuple[int, int], list[tuple[bytes, CodeType]]] = {}
        self._imports = list(_imports(tree.body))
        for statement in tree.body:
            for node in ast.walk(statement):
                if isinstance(node, Function):
                    self._functions.setdefault(_name(node), []).append((node, statement))

    def find(self, code: CodeType, wanted: bytes) -> Function | None:
        """The function whose code is the same; of several the one in the same place."""
        candidates = self._functions.get(code.co_name, [])
        near = [each for each in candidates if _first_line(each[0]) == code.co_firstlineno]
        for some in (near, candidates):
            same = [
                compiled
                for statement in {id(each[1]): each[1] for each in some}.values()
                for digest, compiled in self._codes(statement, code.co_flags & _FLAGS)
                if digest == wanted
            ]
            same.sort(key=lambda each: (list(each.co_positions()) != list(code.co_positions()), each.co_firstlineno))
            found = _node_of(same[0], [each[0] for each in candidates]) if same else None
            if found is not None:
                return found
        return None

    def _codes(self, statement: ast.stmt, flags: int) -> list[tuple[bytes, CodeType]]:
        key = id(statement), flags
        if key not in self._compiled:
            try:
                module = _quiet_compile(ast.Module([*self._imports, statement], []), flags)
                self._compiled[key] = [(signature(each), each) for each in nested(module)]
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
