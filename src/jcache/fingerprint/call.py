"""Fingerprint of a call: of the callable, of everything that it depends on, and of the arguments."""

# ruff: noqa: ANN401 - callables and arguments are anything

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import Any, Final

from jcache.errors import GraphKeyError
from jcache.fingerprint import name_resolution, origins, places
from jcache.fingerprint.arguments import Call, bound, unfolded
from jcache.fingerprint.attributes import ALL, FIELDS, HANDED_ON
from jcache.fingerprint.chance import are_seeds
from jcache.fingerprint.code import TOLD, with_told
from jcache.fingerprint.depends_on import Dependency
from jcache.fingerprint.describe import attribute_of, changes
from jcache.fingerprint.loose import LooseDigests, ModuleGlobals
from jcache.fingerprint.parts import total
from jcache.fingerprint.snapshot import GROWING, ValueSnapshot
from jcache.fingerprint.values import REACH_VARIABLES
from jcache.fingerprint.visited import ARGUMENT
from jcache.fingerprint.walk import Walk
from jcache.frozen import Frozen
from jcache.layout import storable

_ATTRIBUTES: Final = (  # the beginnings of the labels of those that no code names
    "attribute ", f"{HANDED_ON}attribute ", "class attribute "
)  # fmt: skip
_DRAWN: Final = "a random generator or an `itertools.count` that a jitted function may share was drawn from"
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class Fingerprint:
    """Fingerprint of one call."""

    name: str  # a readable name of the callable
    hash: str  # 64 hexadecimal digits, the same for the same call in every process, on every machine
    parts: Mapping[str, str]  # a short description of all that went into the hash, by label
    for_trace: bool = False  # see `fingerprint`
    chance: tuple[str, ...] = ()  # a sentence for each source of nondeterminism that the code can reach
    loose: Mapping[str, str] = field(default_factory=dict, compare=False)  # see `fingerprint.loose`
    snapshot: ValueSnapshot = field(
        default_factory=ValueSnapshot, repr=False, compare=False
    )  # what `changed_meanwhile` needs
    depends_on: tuple[Dependency, ...] = field(default=(), repr=False, compare=False)
    names: frozenset[str] = field(default=frozenset(), repr=False, compare=False)  # see `fingerprint`

    @property
    def key(self) -> str:
        return storable(f"{self.name}-{self.hash}")


def fingerprint(
    function: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
    *,
    for_trace: bool = False,
    before: ValueSnapshot | None = None,
    depends_on: tuple[Dependency, ...] = (),
    names: frozenset[str] = frozenset(),
) -> Fingerprint:
    """Return the fingerprint of a call of `function`, without calling it.

    Args:
        function: a callable.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        for_trace: whether the fingerprint is for a trace. Then the order of a dict's items and the placement of
            arrays on a mesh count, and JAX's options do not.
        before: the snapshot of an earlier fingerprint. A container that has only grown since counts as it was then, and
            so does an integer that was replaced by another one.
        depends_on: the dependencies that the program declares.
        names: the names of attributes with which the last walk of an earlier fingerprint of the call began.

    Raises:
        GraphKeyError: something that the result depends on cannot be fingerprinted.
    """
    name = name_of(function)
    try:
        call = unfolded(function, args, kwargs)
        module = _home(call.function)
        walk = Walk(module, name, names, for_trace=for_trace, before=before)
        while not _walk(call, walk, depends_on):
            if names == walk.names:  # another walk would end as this one did
                raise GraphKeyError(f"`{name}` has no key, for jcache cannot tell which of its names count.")
            names = frozenset(walk.names)
            walk = Walk(module, name, names, for_trace=for_trace, before=before)
        unread = {label: value for label, value in walk.loose if label.startswith(_ATTRIBUTES)}
        modules = {label: each.items for label, each in walk.loose if isinstance(each, ModuleGlobals)}
        walk.snapshot.hold(walk.alive, unread, modules, for_trace=for_trace)
        walk.snapshot.reads_all = not walk.names.isdisjoint({ALL, FIELDS})
        walk.snapshot.reads_variables = not walk.names.isdisjoint(REACH_VARIABLES)
        labels = sorted(walk.parts)
        parts = Frozen([*((label, walk.parts[label].words) for label in labels), *places.part_of(walk.loose).items()])
        loose = LooseDigests().by_label([] if before else walk.loose)
        return Fingerprint(
            name, total(walk.parts).hex(), parts, for_trace, tuple(sorted(walk.chance)), Frozen(sorted(loose.items())),
            walk.snapshot, depends_on, names,
        )  # fmt: skip
    except GraphKeyError:
        raise
    except Exception as error:  # the walk may run user code
        raise GraphKeyError(
            f"`{name}` has no key, for looking at it raised {type(error).__name__}: {error}."
        ) from error


def home_of(function: Any) -> str:
    """Return the name of a callable's module.

    Labels leave this name out, so that the fingerprint stays the same when the code moves to another module.
    """
    return _home(unfolded(function, (), {}).function)


def _home(function: Any) -> str:
    namespace = attribute_of(function, "__globals__") or {}
    return str(namespace.get("__name__", "") or attribute_of(function, "__module__", ""))


def _walk(call: Call, walk: Walk, depends_on: tuple[Dependency, ...]) -> bool:
    """Walk over a call; return whether the walk has seen all that counts, see `Walk.is_done`."""
    with with_told(told=TOLD in walk.names):
        _visit(call, walk, depends_on)
        return walk.is_done()


def _visit(call: Call, walk: Walk, depends_on: tuple[Dependency, ...]) -> None:
    if type(call.function) is FunctionType and name_resolution.of_function(call.function) == origins.USER:
        walk.begin(call.function)
        walk.snapshot.visit_parameters(call.function)
    else:
        walk.value("function", call.function)
    given = (*call.args, *call.kwargs.values())
    walk.given = frozenset(id(each) for each in given if type(each) in GROWING or isinstance(each, tuple))
    parameters = bound(call)
    for parameter, value in parameters:
        walk.value(label := ARGUMENT + parameter, value, (label,))
    more = [f"{name}=" for name in call.kwargs]
    if not walk.for_trace and (order := [each for each in more if each in dict(parameters)]) != sorted(order):
        walk.set_aside("order of keywords", order)
    walk.depends_on(depends_on)
    walk.run()


def changed_meanwhile(then: Fingerprint, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Return a short text for each part of an earlier fingerprint that the call itself has changed.

    A container that has only grown does not count as a change, nor an integer in which the code only counts.
    An attribute that no code reads counts as changed if it was set. If the call cannot be fingerprinted any more, the
    reason is returned. Call this once for a fingerprint, because it clears the fingerprint's snapshot.

    Args:
        then: the fingerprint from before the call.
        function: the callable that was called.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    try:
        told = _changes(then, function, args, kwargs)
    finally:
        then.snapshot.clear()
    return told + then.snapshot.sets.check_holders()


def _changes(then: Fingerprint, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    try:
        now = fingerprint(
            function, args, kwargs, for_trace=then.for_trace, before=then.snapshot, depends_on=then.depends_on,
            names=then.names,
        )  # fmt: skip
    except GraphKeyError as error:
        return [str(error)]
    generators, within = then.snapshot.sets.generators, then.snapshot.reaches_jitted or not then.for_trace
    is_drawn = generators.left or (generators.has_drawn and are_seeds(now.chance))
    told = [_DRAWN] if is_drawn and within else []
    told += [f"{label} was set" for label in then.snapshot.set_since(now.snapshot)]
    told += then.snapshot.side_effects(now.snapshot).used_by(now.snapshot)
    told += then.snapshot.sets.settle(then.snapshot.alive)
    parts = ({label: text for label, text in each.parts.items() if label != places.LABEL} for each in (then, now))
    return told + ([] if now.hash == then.hash else changes(*parts))


def name_of(function: Any) -> str:
    """Return a readable name of a callable that can be part of a file name."""
    inner = unfolded(function, (), {}).function
    name = getattr(inner, "__qualname__", None)
    text = name if isinstance(name, str) and name else type(inner).__qualname__
    text = text.replace("<locals>.", "").replace("<lambda>", "lambda")
    return "".join(c if c.isprintable() and c != "/" else "_" for c in text)


def digest_of(value: Any) -> bytes | None:
    """Return the digest of a value by itself; None if the value cannot be fingerprinted."""
    walk = Walk("", "value", (ALL,))
    try:
        walk.value("value", value)
        walk.run()
    except GraphKeyError:
        return None
    return total(walk.parts)
