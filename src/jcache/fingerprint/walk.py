"""Walk over everything that a callable's result depends on.

The walk begins at a function and continues with whatever its code looks up: helpers, classes, values, modules. Each
function, class and namespace is a *node* with its own label, such as ``helper pkg.mod.rate``. A reference to a node is
encoded as the node's label alone, so that recursion ends. Each node and each value is a *part*: a label, a digest and a
short description.
"""

# ruff: noqa: ANN401 - programs hold anything

import builtins
import copyreg
import os
import sys
from collections.abc import Collection, Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, cast

from jcache.fingerprint import attributes, chance, methods, module_finders, name_resolution, origins
from jcache.fingerprint.bytecode import IMPORT, Chain
from jcache.fingerprint.code import TOLD, Lookup, meaning_of, uses_told
from jcache.fingerprint.describe import shortened, vars_of
from jcache.fingerprint.encoding import several, sha256, text
from jcache.fingerprint.kinds import is_data, is_the_programs
from jcache.fingerprint.logs import found_used
from jcache.fingerprint.loose import ModuleGlobals
from jcache.fingerprint.references import References, named_by, part_of
from jcache.fingerprint.refusals import Refused
from jcache.fingerprint.selection import found_whole
from jcache.fingerprint.settings import is_plain
from jcache.fingerprint.snapshot import ValueSnapshot
from jcache.fingerprint.values import BY_FRAME
from jcache.jax_internals.registry import rank

_HARMLESS: Final = frozenset({"__hash__", "__repr__", "__str__"})  # may call `hash` and decide no result
_NAMESPACES: Final = frozenset({"f_globals", "__globals__"})
_CALLABLES: Final = frozenset({FunctionType, BuiltinFunctionType})
_ABSENT: Final = b"absent0:"
_SKIPPED: Final = frozenset({"__builtins__", "__file__", "__cached__", "__loader__", "__spec__", "__path__", "__doc__"})


class Walk(References):
    """One walk, which collects what it finds in `parts`."""

    def __init__(
        self,
        home: str,
        name: str,
        names: Collection[str] = (),
        *,
        for_trace: bool = False,
        before: ValueSnapshot | None = None,
    ) -> None:
        """Prepare the walk.

        Args:
            home: the module of the function at which the walk begins; labels leave its name out.
            name: the name of that function.
            names: names of attributes that count besides those whose names the walk finds in code.
            for_trace: see `jcache.fingerprint.call.fingerprint`.
            before: see there.
        """
        super().__init__(home, name, for_trace=for_trace, before=before)
        self._bound: dict[tuple[int, int, bool], dict[Lookup, bytes]] = {}
        self._globals: dict[tuple[str, str], list[tuple[Any, bytes]]] = {}
        self.names = set(names)
        self._seeds: set[str] = set()
        self._modules: set[str] = set()  # whose globals are set aside
        self._has_all_modules = False

    def run(self) -> None:
        super().run()
        self._note_at_last()
        if self.uses_library and not self.for_trace:
            self.add_options()

    def is_done(self) -> bool:
        """Return whether the walk has left out no attribute or item that code visited later reads.

        If it has, another walk must begin with the `names` of this one.
        """
        self.names.update(found_whole(self) | found_used(self))
        if TOLD not in self.names and any(map(uses_told, self.snapshot.uses)):
            self.names.add(TOLD)
            return False
        return self.names.isdisjoint({*self.unread, *self.aside, *([attributes.ALL] if self.aside else [])})

    def _visit_function(self, function: FunctionType, label: str) -> None:
        code, known = function.__code__, meaning_of(function)
        is_generated = methods.is_generated(function)
        self.snapshot.visit(function, known, is_generated=is_generated)
        if not is_generated:
            self.names |= known.attributes
            if known.computed and not all(name_resolution.is_of_library(each, function) for each in known.computed):
                self.names.add(attributes.ALL)
        if not _NAMESPACES.isdisjoint(known.attributes):
            self._set_modules_aside()
        items = [*self._bindings(function, known.lookups), known.digest]
        self._add_state(function, code, label, items)
        self.parts[label] = part_of(items, "code")

    def _bindings(self, function: FunctionType, sought: tuple[Lookup, ...]) -> list[bytes]:
        namespace: dict[str, Any] = function.__globals__
        self.is_harmless = function.__code__.co_name in _HARMLESS
        if self.for_trace and self.before_call is None:
            self.snapshot.note_globals(namespace)
        known = self._bound.setdefault((id(namespace), id(cast("Any", function).__builtins__), self.is_harmless), {})
        items: list[bytes] = []
        for lookup in sought:
            encoding = known.get(lookup)
            if encoding is None:
                encoding = known[lookup] = self._look(function, namespace, lookup)
            items += (lookup.name, encoding)
        return items

    def _look(self, function: FunctionType, namespace: dict[str, Any], lookup: Lookup) -> bytes:
        chain, given = lookup.chain, lookup.given
        if self.before_call is not None and self.before_call.has_added(namespace, chain[0]):
            namespace = {name: value for name, value in namespace.items() if name != chain[0]}
        value = namespace.get(chain[0]) if len(chain) == 1 else None
        if type(value) is FunctionType and origins.of_path(value.__code__.co_filename) == origins.USER:
            return self._nodes.get(id(value)) or self.user_function(value)  # what follows finds the same, more slowly
        found = name_resolution.find(chain, namespace, cast("Any", function).__builtins__)
        value = found.value
        if lookup.is_counted and type(value) is int and "print" not in namespace and self.leaves_out():
            return self.counter(f"global {found.name}", value, None, f"{found.module}.{found.name}")
        try:
            self._note_looked_up(value, given)
        except Refused as refused:
            label = f"global {self._qualified(found.module or 'builtins', found.name)}"
            self._above[label] = self._at
            raise self._error(label, refused) from None
        self.names.update([BY_FRAME] if value is builtins.locals or value is builtins.globals else [])
        if _reaches_globals(value):
            self.names.update([] if value is builtins.globals else [attributes.ALL])
            return self.namespace(function.__globals__)
        if value is os.environ or value is os.getenv or value is os.environb or value is os.getenvb:
            return self._environment(given)
        if given and chain[0].startswith(IMPORT) and issubclass(type(value), ModuleType) and self._is_users(value):
            self._set_module_aside(value.__name__, value)  # it is used as a value, not only for its attributes
        self.names.update([methods.ANY_CLASS] if value is type else [])
        if value is sys.modules:
            self._set_modules_aside()
            return named_by("sys.modules")
        finder = module_finders.name_of_finder(value)  # it was looked at with what it is called with
        encoding = self._found(found, chain) if finder is None else named_by(finder)
        return encoding if found.loader is None else encoding + self.encode(found.loader)

    def _found(self, found: name_resolution.Resolved, chain: Chain) -> bytes:
        value = found.value
        if value is name_resolution.ABSENT:
            return _ABSENT
        if isinstance(value, name_resolution.Unimported):
            self.library()
            return named_by(value.path)
        if found.module is not None and found.origin not in {origins.USER, origins.OURS}:
            return self._of_library(found)
        if (kind := type(value)) is FunctionType:  # `isinstance` would believe an object that names another class
            return self.function(value)
        if issubclass(kind, type):
            return self.made_class(value)
        if issubclass(kind, ModuleType):
            return named_by(value.__name__) if len(chain) == 1 and chain[0].startswith(IMPORT) else self.module(value)
        if found.module is None or (kind is BuiltinFunctionType and isinstance(value.__self__, ModuleType)):
            return self.encode(value)
        return self._global(found)

    def _global(self, found: name_resolution.Resolved) -> bytes:
        name = str(found.module), found.name
        for value, encoding in self._globals.setdefault(name, []):  # namespaces may share a name
            if value is found.value:
                return encoding
        if self.before_call is None and not is_plain(found.value):
            self.snapshot.sets.globals.setdefault(id(found.value), (":".join(name), found.value))
        value = self.then(None, ".".join(name), found.value)
        reference = self.value(f"global {self._qualified(*name)}", value, (found.name,))
        self._globals[name].append((found.value, reference))
        return reference

    def _of_library(self, found: name_resolution.Resolved) -> bytes:
        """Encode a library's member by its name, and also by its value where the program may have set that.

        What the library itself defines is no part of the fingerprint: `jcache.runtime.worlds` compares distributions.
        """
        if origins.is_installed(found.origin):
            self.library()
        name, value = named_by(found.path), found.value
        if issubclass(type(value), ModuleType):
            return name
        if issubclass(type(value), type):
            name += self._registered(value)
        if name_resolution.is_made_of_users(value):
            return name + self._global(found)
        if not (is_the_programs(found) or (is_data(value) and not found.inside)):
            return name
        try:
            return name + self.encode(value)
        except Refused:  # the value is the library's own
            return name

    def _environment(self, given: frozenset[Any]) -> bytes:
        """Encode the environment variables that the code names.

        `jcache.fingerprint.io` records the variables that the code reads in other ways, when it runs.
        """
        names = sorted(each for each in given if isinstance(each, str))
        for name in names:
            if f"environment {name}" not in self.parts:
                self.part(f"environment {name}", os.environ.get(name))
        return several(b"environment", [text(name) for name in names])

    def _set_modules_aside(self, names: Collection[str] | None = None) -> None:
        """Set the globals of the user's modules of some names aside; None stands for all modules, once."""
        sought = [] if self._has_all_modules else list(sys.modules.items())
        self._has_all_modules |= names is None
        for name, module in sought:
            if (names is None or name in names) and self._is_users(module):
                self._set_module_aside(name, module)

    def _set_module_aside(self, name: str, module: Any) -> None:
        if name in self._modules:
            return
        self._modules.add(name)
        kept = {key: each for key, each in vars_of(module).items() if key not in _SKIPPED}
        self.snapshot.read_otherwise.update(map(str, kept))
        self.set_aside(f"globals of {name}", ModuleGlobals(kept, among_all=self._has_all_modules))

    def _is_users(self, module: Any) -> bool:
        """Return whether one of `sys.modules` is the user's; a library's class of modules may load them lazily."""
        kind = type(module)
        if kind is not ModuleType and self.is_library(kind):
            return False
        return not issubclass(kind, ModuleType) or origins.of_module(module) == origins.USER

    def note_reached(self, value: Any, given: Iterable[object] = ()) -> None:
        super().note_reached(value, given)
        if (finder := module_finders.name_of_finder(value)) is not None:
            self._set_modules_aside(module_finders.found_by(finder, given))

    def _note_looked_up(self, value: Any, given: frozenset[Any]) -> None:
        if isinstance(value, name_resolution.Unimported):
            if (found := chance.of_unimported(value.path, given)) is not None:
                self.add_unrepeatable(found)
            return
        if _reaches_globals(value):
            super().note_reached(value, given)  # the globals of the function that calls it count already
        else:
            self.note_reached(value, given)
        if type(value) in _CALLABLES and (read := attributes.READ.get(chance.name_of(value))):
            self.names.add(read)
            made = copyreg.dispatch_table.items()
            if own := {origins.path_of(cls): each for cls, each in made if not self.is_library(cls)}:
                self.set_aside("copyreg", own)
        if names := chance.seeds(given):
            self._seeds.update(names if chance.is_generator(value) else ())

    def _note_at_last(self) -> None:
        """Record uses of the present date, the time zone and this process's number, and seeds that are None.

        They are recognised by names, and the walk may find one of them much later than the other.
        """
        for name in sorted(self.calendars and chance.DATES & self.names):
            self.add_unrepeatable(chance.day(f"datetime.{name}"))
        if not chance.ZONED.isdisjoint(self.names):
            self.add_unrepeatable(chance.zone())
        if (number := rank()) and self.snapshot.uses_any(chance.OF_A_RANK):
            self.part("rank", number)
        for label, part in list(self.parts.items()) if self._seeds else ():
            name = label.partition(" ")[2].partition(" ")[0].rpartition(".")[2]
            if name in self._seeds and part.words == "None":
                self.chance.add(f"`{name}`, the seed of a generator, is None")
        for name in sorted(self._seeds & self.nones):
            self.chance.add(f"`{name}`, the seed of a generator, is None")

    def _visit_namespace(self, namespace: dict[str, Any], label: str) -> None:
        home = str(namespace.get("__name__", "?"))
        items = []
        before = self.before_call
        names = [each for each in map(str, [*namespace]) if before is None or not before.has_added(namespace, each)]
        self.note_order_of(label, names)
        self.snapshot.read_otherwise.update(names)
        for name in sorted(names):
            if name not in _SKIPPED:
                found = name_resolution.Resolved(namespace.get(name), home, name, origins.USER)
                items.append(text(name) + self._found(found, (name,)))
        encoding = several(b"namespace", items)
        self._add(label, encoding, f"all of it {shortened(sha256(encoding))}")


def _reaches_globals(value: Any) -> bool:
    """Return whether a function reaches the globals of the function that calls it."""
    return value is builtins.globals or value is builtins.eval or value is builtins.exec
