"""Bytecode of functions: its digest, and the names that it looks up.

A ``Chain`` is a name that code looks up outside of the function, followed by the attributes that it reads from there
directly: ``("np", "linalg", "norm")``. The first item is the name of a global, or ``import:LEVEL:MODULE`` for a module
that the function itself imports.
"""

import dis
import re
from collections.abc import Iterator
from itertools import takewhile
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint import uses, ways
from jcache.fingerprint.encoding import constant, several, sha256, tagged, text
from jcache.fingerprint.instructions import ATTRIBUTE, INDEX, Step, steps_of
from jcache.fingerprint.weak_map import WeakIdentities

Chain = tuple[str, ...]
IMPORT: Final = "import:"

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"})
_LOCAL: Final = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "LOAD_CLASSDEREF",
     "LOAD_FROM_DICT_OR_DEREF", "LOAD_CLOSURE"}
)  # fmt: skip
_STORE: Final = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL", "STORE_FAST_MAYBE_NULL"})
_ENDS_IMPORT: Final = frozenset({"SWAP", "POP_TOP", "COPY"})
NOTHING: Final = ("nothing",)
_BY_NAME: Final = frozenset({"getattr", "getattr_static", "hasattr", "attrgetter", "methodcaller", "__getattribute__"})
_READS_ALL: Final = frozenset({"__dict__", "__getstate__", "__reduce__", "__reduce_ex__"})
_FIELD: Final = re.compile(r"[.\[](\w+)")  # of a text for `format`, as in ``{0.name[key]}``
_GETTERS: Final = frozenset({"attrgetter", "methodcaller"})
_MOST_GIVEN: Final = 3
_TAKES: Final = ATTRIBUTE | {"LOAD_SUPER_ATTR"}
_CALLS: Final = frozenset({"CALL", "KW_NAMES", "CALL_KW"})
_LOADS_CONSTANT: Final = frozenset(dis.hasconst)
_HAS_DOCSTRING: Final = 0x4000000
_ADDRESS: Final = re.compile(r"\d{11,}")


class Named(NamedTuple):
    """Variable or attribute that is passed as an argument."""

    name: str


_signatures: Final[WeakIdentities[bytes]] = WeakIdentities()


def signature(code: CodeType) -> bytes:
    """Return a digest of what a code object does: its instructions, constants and names, but no file or line.

    A docstring counts only if an instruction loads it, like any constant.
    """
    known = _signatures.get(code)
    if known is None:
        _signatures.put(code, known := _signature(code))
    return known


def _signature(code: CodeType) -> bytes:
    constants = [
        tagged(b"code", signature(each)) if isinstance(each, CodeType) else constant(each) or text(repr(each))
        for each in code.co_consts
    ]
    if constants and isinstance(code.co_consts[0], str) and not _loads_first_constant(code.co_code):
        constants[0] = constant(None) or b""
    names = [
        tuple(map(without_address, each))
        for each in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    ]
    flags = code.co_flags & ~_HAS_DOCSTRING
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags)
    plain = constant((code.co_name, code.co_qualname, counts, tuple(names), code.co_code, code.co_exceptiontable))
    return sha256((plain or b"") + several(b"constants", constants))


def without_address(name: str) -> str:
    """Return a name without an address in it, which a function that is made from a text may have (of beartype, say)."""
    return _ADDRESS.sub("#", name)


def _loads_first_constant(instructions: bytes) -> bool:
    return any(
        argument == 0 and operation in _LOADS_CONSTANT
        for operation, argument in zip(instructions[::2], instructions[1::2], strict=True)
    )


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested(each)


class CodeReads:
    """Names that a function and the functions nested in it look up.

    Attributes:
        chains: all chains.
        given: the first arguments or indices of each chain: a constant text, `Named` for a variable, NOTHING for a call
            without arguments or with None, and None for anything else.
        attributes: the names of all attributes that the code reads, of any object, among other names; "*" if the code
            may read any attribute.
        used: the names of variables and attributes that the code loads for more than to count or to store in them.
        ways: names with the ways in which the code uses containers of these names.
        filled: those in which the code stores items.
        said: those that it gives to the methods of loggers, or to others of these names.
        counted: those of variables and attributes of which it does nothing but ``n += 1``.
        set_otherwise: those of attributes that it sets in another way.
        computed: what it reads attributes of whose names it computes, see `computed`.
        told_by: the names of the globals with which it prints and logs, see `uses.without_told`.
        bindings: the import chains that each local name may be bound to.
        handles_errors: whether there are handlers of errors, which may use the text of one.
    """

    def __init__(self) -> None:
        self.chains: set[Chain] = set()
        self.given: dict[Chain, set[Any]] = {}
        self.attributes: set[str] = set()
        self.used: set[str] = set()
        self.ways: set[tuple[str, ways.Way]] = set()
        self.filled: set[str] = set()
        self.said: set[str] = set()
        self.counted: set[str] = set()
        self.set_otherwise: set[str] = set()
        self.computed: set[Chain | None] = set()
        self.told_by: set[str] = set()
        self.bindings: dict[str, set[Chain]] = {}
        self.handles_errors = False


def reads(code: CodeType, *, untold: bool = False) -> CodeReads:
    """Return what a function looks up; without what it only prints or logs if `untold`."""
    found = CodeReads()
    codes = list(nested(code))
    listings = [steps_of(one) for one in codes]
    found.handles_errors = any(map(uses.handles_errors, listings)) or any(each.co_name == "__exit__" for each in codes)
    for at, listing in enumerate(listings):
        left, heads = uses.without_told(listing)
        found.told_by |= heads
        listings[at] = left if untold else listing
    for listing in listings:
        _imports(listing, found)
    together = [step for listing in listings for step in listing]
    found.counted = uses.only_counted(together)
    found.set_otherwise = uses.set_attributes(together) - found.counted
    for one, listing in zip(codes, listings, strict=True):
        by_text = set(written(one, listing))
        found.computed |= computed(listing) if not _BY_NAME.isdisjoint(one.co_names) else set()
        found.attributes.update((each.value for each in listing if each.name in _TAKES), by_text)
        found.used.update(by_text, uses.used(listing))
        found.ways.update(ways.ways(listing), ((each, ways.Way.WHOLE) for each in by_text))
        found.filled.update(uses.filled(listing))
        found.said.update(uses.said(listing))
        _chains(listing, found)
    return found


def written(code: CodeType, listing: list[Step]) -> Iterator[str]:
    """Yield the names of attributes that are texts in the code; "*" if the code may compute such a name.

    Those of `computed` are left out.
    """
    uses = _BY_NAME.intersection(code.co_names)
    matches = [each for each in listing if each.name == "MATCH_CLASS"]
    reads_all = not _READS_ALL.isdisjoint(code.co_names) or any(each.number for each in matches)
    if reads_all or (uses and None in computed(listing)):
        yield "*"
    for each in code.co_consts if uses or matches else ():
        for name in each if isinstance(each, tuple) else (each,):
            if isinstance(name, str):
                yield from name.split(".")
    for each in code.co_consts if "format" in code.co_names or "format_map" in code.co_names else ():
        yield from _FIELD.findall(each) if isinstance(each, str) and "{" in each else ()


def computed(listing: list[Step]) -> set[Chain | None]:
    """Return of what a function such as `getattr` may read an attribute whose name is no constant.

    Returns:
        The chains of globals of which it does, for ``getattr(np.linalg, name)``; None among them for anything else.
    """
    found = set[Chain | None]()
    for at, each in enumerate(listing):
        if each.value in _BY_NAME and each.name in _GLOBAL | ATTRIBUTE:
            given = list(takewhile(lambda step: step.name not in _CALLS, listing[at + 1 :]))
            count = listing[at + 1 + len(given)].number if listing[at + 1 + len(given) :] else 0
            fixed = given if each.value in _GETTERS else given[1 - count : 2 - count or None]
            if count > _MOST_GIVEN or not fixed or not all(map(_text, fixed)) or any(step.called for step in given):
                found.add(_receiver(given) if each.value == "getattr" and each.name in _GLOBAL else None)
    return found


def _receiver(given: list[Step]) -> Chain | None:
    """Return the chain of the global that is the first of several arguments; None if that is anything else."""
    after = list(takewhile(lambda step: step.name in ATTRIBUTE, given[1:]))
    following = given[1 + len(after) :]
    is_global = bool(following) and given[0].name in _GLOBAL and following[0].name.startswith("LOAD_")
    return (given[0].value, *(step.value for step in after)) if is_global else None


def _imports(listing: list[Step], found: CodeReads) -> None:
    """Record the chains of a function's imports, and the local names bound to them."""
    for at, each in enumerate(listing):
        if each.name != "IMPORT_NAME":
            continue
        level, names = listing[at - 2].value, listing[at - 1].value
        base = f"{IMPORT}{level}:{each.value}"
        found.chains.add((base,))
        found.chains.update((base, name) for name in names or ())
        _bind(listing[at + 1 :], base, is_from=bool(names), found=found)


def _bind(rest: list[Step], base: str, *, is_from: bool, found: CodeReads) -> None:
    chain: Chain = (base,)
    top, dot, _ = base.removeprefix(f"{IMPORT}0:").partition(".")
    for each in rest:
        if each.name == "IMPORT_FROM":
            chain = (base, each.value) if is_from else (base,)  # "import a.b as c" takes b from a
        elif each.name in _STORE:
            if not is_from and dot and each.value == top:
                chain = (f"{IMPORT}0:{top}",)  # "import a.b" binds a
            found.bindings.setdefault(each.value, set()).add(chain)
            if not is_from:
                return
        elif each.name not in _ENDS_IMPORT or is_from:
            return


def _chains(listing: list[Step], found: CodeReads) -> None:
    bases: set[Chain] = set()
    start, called = 0, False
    for at, each in enumerate(listing):
        if bases and each.name in ATTRIBUTE:
            bases = {(*base, each.value) for base in bases}
            called = each.called or listing[start].called
            continue
        _note(bases, listing, range(start, at), found, called=called)
        bases, start, called = _begun(each, found), at, each.called
    _note(bases, listing, range(start, len(listing)), found, called=called)


def _begun(each: Step, found: CodeReads) -> set[Chain]:
    if each.name in _GLOBAL:
        return {(each.value,)}
    return set(found.bindings.get(each.value, ())) if each.name in _LOCAL else set()


def _note(bases: set[Chain], listing: list[Step], place: range, found: CodeReads, *, called: bool) -> None:
    after = listing[place.stop : place.stop + 5]
    if bases == {("__name__",)} and after and after[0][:2] == ("STORE_NAME", "__module__"):
        return  # every class statement begins with this
    given = _given(listing[place.start - 1] if place.start else None, after, called=called)
    for base in bases:
        found.chains.add(base)
        found.given.setdefault(base, set()).add(given)


def _given(before: Step | None, after: list[Step], *, called: bool) -> Any:  # noqa: ANN401
    """Return what a chain ``x`` is called or indexed with, as in `CodeReads.given`.

    A constant text is found in ``x[text]``, ``x(text)``, ``x(text, more)`` and ``text in x``.
    """
    names = [each.name for each in after]
    if names[:1] == ["CONTAINS_OP"] and before is not None:
        return _text(before)
    if called and names[:1] == ["CALL"] and not after[0].number:
        return NOTHING
    if called and after and (seed := _variable(after)) is not None:
        return seed
    is_call = (names[1:2] == ["CALL"] and after[1].number == 1) or (
        names[2:3] == ["CALL"] and after[2].number == 2 and names[1].startswith("LOAD_")
    )
    is_index = len(after) > 1 and (
        names[1] == "BINARY_SUBSCR" or (names[1] == "BINARY_OP" and after[1].number == INDEX)
    )
    return _text(after[0]) if (called and is_call) or is_index else None


def _variable(after: list[Step]) -> Any:  # noqa: ANN401
    """Return NOTHING for ``x(None)`` and ``x(seed=None)``, `Named` for ``x(variable)``, None for anything else."""
    first, attributes = after[0], 1
    if first.name == "LOAD_CONST":
        ends = [each.name for each in after[1:3]]  # the names of keywords may come first
        is_call = not _CALLS.isdisjoint(ends[:1]) or ends[1:] == ["CALL_KW"]
        return NOTHING if first.value is None and is_call else None
    while attributes < len(after) and after[attributes].name in ATTRIBUTE:
        attributes += 1
    if first.name not in _LOCAL | _GLOBAL or attributes >= len(after) or after[attributes].name not in _CALLS:
        return None
    value = after[attributes - 1].value
    return Named(value) if isinstance(value, str) else None


def _text(step: Step) -> str | None:
    return step.value if step.name == "LOAD_CONST" and isinstance(step.value, str) else None
