"""What a code object means, worked out once for each."""

import __future__

import functools
import sys
from collections.abc import Mapping
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.bytecode import Chain, nested, reads, signature
from jcache.fingerprint.counters import Kind
from jcache.fingerprint.encoding import constant, several, sha256, tagged
from jcache.fingerprint.sources import syntax_of, syntax_of_module
from jcache.fingerprint.weak_map import WeakIdentities

_POSITIONS: Final = frozenset(
    {"__doc__", "getdoc", "getsource", "getsourcelines", "co_firstlineno", "co_lines", "co_positions",
     "co_linetable", "co_code", "co_consts", "co_qualname", "f_lineno", "tb_lineno", "extract_stack",
     "findsource", "getcomments", "dis", "Bytecode", "get_instructions"}
)  # fmt: skip

_PATHS: Final = frozenset({"co_filename", "getsourcefile", "getfile"})
_ANNOTATED: Final = frozenset({"__annotations__", "__annotate__", "get_annotations", "get_type_hints", "signature"})
_PARSES: Final = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args"})
_VARIABLES: Final = frozenset(
    {"locals", "vars", "getclosurevars", "getgeneratorlocals", "getcoroutinelocals", "getasyncgenlocals",
     "resolve_name", "TracebackException", "StackSummary", "walk_tb", "walk_stack"}
)  # fmt: skip
_PLACE: Final = frozenset({"getcwd", "getcwdb", "cwd"})
_OPAQUE: Final = frozenset({"__subclasses__", "__globals__", "__closure__", "f_locals", "f_globals", "f_back"})
_ANNOTATIONS: Final = __future__.annotations.compiler_flag


class Lookup:
    """Names that code looks up; there is one for all functions that look up the same.

    Attributes:
        chain: the names.
        name: the same as bytes.
        given: texts that it is given at once.
        tallied: how it counts with them, where it does nothing else.
    """

    __slots__ = ("chain", "given", "name", "tallied")

    def __init__(self, chain: Chain, name: bytes, given: frozenset[Any], tallied: frozenset[Kind]) -> None:
        self.chain, self.name, self.given, self.tallied = chain, name, given, tallied


class Meaning(NamedTuple):
    """Of a function's code.

    Attributes:
        digest: of what it says.
        words: the same for reading.
        lookups: what it looks up outside of itself, in order.
        shows: "text" if it looks at docstrings or at places in files, so that these count, "path" if at files' names,
            "annotations" if at those, "command" if it parses the arguments that the program was started with,
            "place" if it looks at the working directory, "variables" if at others than it names.
        refused: a name that it uses and through which it could read anything.
        counted: variables of functions around it with which it only counts, and how.
    """

    digest: bytes
    words: str
    lookups: tuple[Lookup, ...]
    shows: frozenset[str]
    refused: str | None
    counted: Mapping[str, frozenset[Kind]]


_known: WeakIdentities[Meaning] = WeakIdentities()


def meaning(code: CodeType, namespace: dict[str, Any]) -> Meaning:
    """Of a code object, whose globals are `namespace`."""
    known = _known.get(code)
    if known is None:
        known = _meaning(code, namespace)
        _known.put(code, known)
    return known


def _meaning(code: CodeType, namespace: dict[str, Any]) -> Meaning:
    found = reads(code)
    words, said = _said(code, namespace)
    lookups = [_lookup(chain, frozenset(found.given.get(chain, ()))) for chain in sorted(found.chains)]
    lookups += [_lookup((name,), frozenset({None}), frozenset(kinds)) for name, kinds in sorted(found.tallies.items())]
    refused = min(_OPAQUE & found.attributes, default=None)
    return Meaning(sha256(said), words, tuple(lookups), _shows(found.attributes), refused, found.cells)


@functools.cache
def _lookup(chain: Chain, given: frozenset[Any], tallied: frozenset[Kind] = frozenset()) -> Lookup:
    return Lookup(chain, constant(chain) or b"", given, tallied)


def _shows(attributes: set[str]) -> frozenset[str]:
    text = {"text"} if attributes & (_POSITIONS | _PATHS) else set()
    shown = (
        ("path", _PATHS),
        ("annotations", _ANNOTATED),
        ("command", _PARSES),
        ("place", _PLACE),
        ("variables", _VARIABLES),
    )
    return frozenset(text | {what for what, names in shown if attributes & names})


def _said(code: CodeType, namespace: dict[str, Any]) -> tuple[str, bytes]:
    is_module = code.co_name == "<module>"
    syntax = (syntax_of_module if is_module else syntax_of)(code, namespace)
    if syntax is None:
        return f"bytecode {version()}", several(b"bytecode", [constant(version()) or b"", signature(code)])
    around = tuple(sorted(code.co_freevars)), _mangled(code), code.co_flags & _ANNOTATIONS, sys.flags.optimize
    return "code", several(b"source", [tagged(b"syntax", syntax), constant(around) or b""])


def version() -> str:
    """Of Python, as far as its bytecode depends on it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _mangled(code: CodeType) -> tuple[str, ...]:
    """Names that a class has put its own name in front of; the syntax tree does not show that."""
    names = {name for each in nested(code) for name in (*each.co_names, *each.co_varnames, *each.co_freevars)}
    return tuple(sorted(name for name in names if name[:1] == "_" and "__" in name[1:] and not name.endswith("__")))


def as_it_stands(code: CodeType, path: str) -> bytes:
    """A digest of a code object with its docstrings and its places in the file at `path`."""
    places = [(each.co_firstlineno, tuple(each.co_positions())) for each in nested(code)]
    return sha256(several(b"places", [constant((version(), path, tuple(places))) or b"", signature(code)]))
