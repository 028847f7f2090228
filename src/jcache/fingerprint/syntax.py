"""What a piece of Python means, as bytes: its syntax tree without positions, comments and docstrings.

They are the same for every version of Python that can read the piece: what a version does not have, or leaves empty,
is left out.
"""

import ast
from typing import Final

from jcache.fingerprint.encoding import constant, several, tagged, text

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_WITH_DOCSTRING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_LEFT_OUT: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_LIVE: Final = frozenset({"name", "decorator_list"})  # what a function that exists shows by itself
_DEFAULTS: Final = frozenset({"defaults", "kw_defaults"})


def function_bytes(node: Function) -> bytes:
    """Of a function, without its name, decorators and defaults, which are looked at where it lives."""
    fields = [
        (name, _arguments(value) if isinstance(value, ast.arguments) else _field(node, name, value))
        for name, value in ast.iter_fields(node)
        if name not in _LIVE
    ]
    return _fields(type(node).__name__, fields)


def module_bytes(node: ast.Module) -> bytes:
    """Of all that a module's file says."""
    return _bytes(node)


def _arguments(node: ast.arguments) -> bytes:
    fields = [(name, _field(node, name, value)) for name, value in ast.iter_fields(node) if name not in _DEFAULTS]
    return _fields("arguments", fields)


def _bytes(node: ast.AST) -> bytes:
    if isinstance(node, ast.Constant):  # None is a value here
        return tagged(b"constant", constant(node.value) or b"")
    return _fields(type(node).__name__, [(name, _field(node, name, value)) for name, value in ast.iter_fields(node)])


def _fields(tag: str, fields: list[tuple[str, bytes | None]]) -> bytes:
    return several(
        b"node",
        [text(tag), *(text(name) + value for name, value in fields if value is not None and name not in _LEFT_OUT)],
    )


def _field(node: ast.AST, name: str, value: object) -> bytes | None:
    if isinstance(value, list):
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            value = value[_begins_with_docstring(value) :]
        elif isinstance(node, ast.JoinedStr):
            value = _merged(value)
        return several(b"list", [_item(item) for item in value]) if value else None
    return None if value is None else _item(value)


def _item(value: object) -> bytes:
    return _bytes(value) if isinstance(value, ast.AST) else constant(value) or b"none0:"


def _begins_with_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """The pieces of an f-string; how plain text is cut into pieces is a matter of versions."""
    merged: list[ast.expr] = []
    for value in values:
        last = merged[-1] if merged else None
        if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
            merged[-1] = ast.Constant(str(last.value) + str(value.value))
        elif not (isinstance(value, ast.Constant) and value.value == ""):
            merged.append(value)
    return merged
