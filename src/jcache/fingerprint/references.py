"""References to functions, classes and modules, and the state that functions have besides their code."""

# ruff: noqa: ANN401 - programs hold anything

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from jcache.fingerprint import methods, name_resolution, origins
from jcache.fingerprint.arguments import defaults_of
from jcache.fingerprint.attributes import ALL, functions_of, is_hash
from jcache.fingerprint.bytecode import signature, without_address
from jcache.fingerprint.classes import FACTORY, members, registered
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.configurations import is_of_library
from jcache.fingerprint.depends_on import ATTRIBUTE, Dependency
from jcache.fingerprint.describe import attribute_of, shortened, vars_of
from jcache.fingerprint.encoding import several, sha256, tagged, text
from jcache.fingerprint.opaque import compiled
from jcache.fingerprint.parts import Part, Parts
from jcache.fingerprint.selection import Names, is_model_by_name
from jcache.jax_internals.registry import registry

_NO_CELL: Final = b"empty0:"
_DISPATCHER: Final = "singledispatch.<locals>.wrapper"
_OF_DISPATCHER: Final = frozenset({"register", "dispatch", "registry", "_clear_cache", "__wrapped__"})
_DOCUMENTATION: Final[Mapping[str, Any]] = {"__doc__": None, "__annotations__": {}}
_SPECIAL: Final = frozenset({"__qualname__", "__module__", *_DOCUMENTATION, ALL})  # attributes of a function
_NAMES: Final = ("__qualname__", "__name__", "__self__", "__module__")


class References(Parts, ABC):
    """Encoder that makes a node of each function and class of the user, and refers to a library's by name."""

    @abstractmethod
    def _visit_function(self, function: FunctionType, label: str) -> None:
        """Make a part of one of the user's functions."""

    @abstractmethod
    def _visit_namespace(self, namespace: dict[str, Any], label: str) -> None:
        """Make a part of all globals of a module."""

    def function(self, function: FunctionType) -> bytes:
        """Return a reference to a function; it is visited later, if it has not been visited yet."""
        reference = self._nodes.get(id(function))
        if reference is not None:
            return reference
        origin = name_resolution.of_function(function)
        if origin == origins.STDLIB:
            self.note_reached(function)
        if origin == origins.OURS:
            wrapped = vars(function).get("__wrapped__")
            return named_by("jcache") if wrapped is None else self.encode(wrapped) + self._declared(vars(function))
        if origins.is_installed(origin):
            self.library()
        if origin != origins.USER and origins.is_findable(function):
            return named_by(f"{function.__module__}.{function.__qualname__}")
        if origin != origins.USER:
            return self._node(function, self._helper(function), self._visit_library_function)
        return self.user_function(function)

    def user_function(self, function: FunctionType) -> bytes:
        return self._node(function, self._helper(function), self._visit_function)

    def _helper(self, function: FunctionType) -> str:
        module = str(function.__globals__.get("__name__", "?"))
        return f"helper {self._qualified(module, function.__code__.co_qualname)}"

    def begin(self, function: FunctionType) -> bytes:
        """Return a reference to the function at which the walk begins."""
        return self._node(function, "function", self._visit_function)

    def class_(self, cls: type) -> bytes:
        """Return a reference to a class; it is visited later, if it has not been visited yet."""
        self.names.update(map(methods.all_of, cls.__mro__) if self.is_given else ())
        reference = self._nodes.get(id(cls))
        if reference is not None:
            return reference
        if (known := self._named_classes.get(id(cls))) is not None:
            return known[1]
        self.note_reached(cls)
        module = str(cls.__module__)
        origin = origins.of_module_named(module)
        own = sys.modules.get(module)
        is_compiled = compiled(cls) is cls or (own is not None and origins.is_extension(own))
        if origins.is_installed(origin):
            self.library()
        if origin == origins.OURS or is_compiled or (origin != origins.USER and origins.is_findable(cls)):
            reference = named_by(origins.path_of(cls)) + self._registered(cls)
            self._named_classes[id(cls)] = cls, reference
            return reference
        label = f"class {self._qualified(module, cls.__qualname__)}"
        return self._node(cls, label, self._visit_class)

    def made_class(self, cls: type) -> bytes:
        self.names.update({methods.ANY_CLASS} if cls is type else ())
        for each in cls.__mro__:
            if not self.is_library(each) and (name := methods.constructor_of(each)) not in self.names:
                self.names.add(name)
        return self.class_(cls)

    def _registered(self, cls: type) -> bytes:
        """Encode the user's classes that are registered as virtual subclasses of a library's class."""
        found = [each for each in registered(cls) if not self.is_library(each)]
        return b"".join(map(self.class_, sorted(found, key=origins.path_of)))

    def flattened(self, cls: type, name: str) -> bytes:
        """Make a part of the functions with which JAX flattens a class's instances, if it is a registered pytree."""
        functions = registry().get(cls)
        return self.value(f"flattening of {name}", tuple(functions)) if functions else b""

    def is_library(self, cls: type) -> bool:
        return is_of_library(cls)

    def module(self, module: ModuleType) -> bytes:
        """Return a reference to a module: to all its globals if it is the user's, by name if it is a library's."""
        origin = origins.of_module(module)
        if origin != origins.USER or origins.is_extension(module):
            return named_by(module.__name__)
        own = b"" if type(module) is ModuleType else self.class_(type(module))
        return self.namespace(vars(module)) + own

    def namespace(self, namespace: dict[str, Any]) -> bytes:
        """Return a reference to all globals of a module."""
        reference = self._nodes.get(id(namespace))
        if reference is None:
            label = f"namespace {namespace.get('__name__', '?')}"
            reference = self._node(namespace, label, self._visit_namespace)
        return reference

    def named(self, value: Any) -> bytes | None:
        """Return a reference by name to a value that a library or extension module has under that name.

        Return None for any other value, except that jcache's own wrappers are encoded by what they wrap.
        """
        self.note_reached(value)
        if hasattr(type(value), "__getattr__"):  # it may return a value for any name
            known = vars_of(value)
        else:
            known = {name: attribute_of(value, name) for name in _NAMES}
        name = known.get("__qualname__") or known.get("__name__")
        owner = known.get("__self__")
        home = owner.__name__ if isinstance(owner, ModuleType) else known.get("__module__")
        module = sys.modules.get(home) if isinstance(home, str) else None
        if module is None or not isinstance(name, str):
            return self._ours(value)
        found: Any = module
        for step in name.split("."):
            found = attribute_of(found, step)
        origin = origins.of_module(module)
        is_users = (origin == origins.USER and not origins.is_extension(module)) or origins.has_code_of_the_user(value)
        if found is not value or is_users:
            return self._ours(value)
        if origins.is_installed(origin):
            self.library()
        return named_by(f"{origins.OURS if origin == origins.OURS else home}.{name}")

    def _ours(self, value: Any) -> bytes | None:
        if origins.of_module_named(type(value).__module__) != origins.OURS:
            return None
        if (wrapped := vars_of(value).get("__wrapped__")) is None:
            return named_by("jcache")
        self.snapshot.reaches_jitted = True
        return self.encode(wrapped) + self._added(value) + self._declared(vars_of(value))

    def _added(self, value: Any) -> bytes:
        """Encode the attributes that the program has set on an object made by jcache."""
        return b"".join(self.beside(value, [name for name in vars_of(value) if name.startswith("_")]))

    def _declared(self, attributes: Mapping[str, Any]) -> bytes:
        """Encode the dependencies that the program has declared for an object made by jcache."""
        return self.depends_on(attributes.get(ATTRIBUTE, ()))

    def depends_on(self, dependencies: Iterable[Dependency]) -> bytes:
        return b"".join([self.value(f"depends_on {each.name}", each.value()) for each in dependencies])

    def _add_state(self, function: FunctionType, code: CodeType, label: str, items: list[bytes]) -> None:
        """Add what a function has besides its code: its name, defaults, closure and attributes."""
        if function.__name__ != code.co_name:
            items.append(text(function.__name__))
        if self.names.isdisjoint(_SPECIAL):
            self.unread |= _SPECIAL
        else:
            home = function.__globals__.get("__name__")
            self.note_special(function, label, {"__qualname__": code.co_qualname, "__module__": home, **_DOCUMENTATION})
        name = label.partition(" ")[2] or self._name
        for parameter, value in defaults_of(function).items():
            self.part(f"default {without_address(parameter)} of {name}", value)
        if function.__closure__:
            items += self._closure(function, code, name)
        held = function.__dict__
        if self.for_trace:
            held = dict(self.before.without_new(function, label, list(held.items())))
        if held:
            self.note_order_of(label, held)
            for attribute, value in sorted(held.copy().items()):
                items.append(
                    text(attribute)
                    + self._member(f"attribute {attribute} of {name}", self.then(function, attribute, value))
                )

    def note_special(self, value: Any, label: str, usual: Mapping[str, Any]) -> None:
        """Record those special attributes that code names: texts are set aside, and usual values do not count."""
        for name in usual:
            if self.names.isdisjoint({name, ALL}):
                self.unread.update({name, ALL})
                continue
            with suppress(Exception):  # annotations run the user's code
                found = getattr(value, name, None)
                if (isinstance(found, str) or name not in self.names) and found != usual[name]:
                    self.set_aside(f"{name} of {label}", found)
                elif found is not None and found != usual[name]:
                    self.part(f"{name} of {label}", found)

    def _closure(self, function: FunctionType, code: CodeType, name: str) -> list[bytes]:
        items = []
        is_library = (origin := name_resolution.of_function(function)) != origins.USER
        if origins.is_installed(origin) and origin != "jax":  # it may keep values there; a served call sets them again
            self.alive += function.__closure__ or ()
        for each, cell in sorted(zip(code.co_freevars, function.__closure__ or (), strict=True), key=lambda it: it[0]):
            try:
                value = cell.cell_contents
            except ValueError:
                items.append(_NO_CELL)
                continue
            if type(value) is int and not is_library and each in meaning_of(function).counted and self.leaves_out():
                items.append(self.counter(f"closure {each} of {name}", value, cell, each))
                continue
            value = self.then(cell, each, value, of_any_type=is_library)
            if is_library and is_hash(value):
                self.set_aside(f"closure {each} of {name}", value)
                continue
            items.append(self._member(f"closure {each} of {name}", value, () if is_library else (each,)))
        return items

    def _member(self, label: str, value: Any, names: Names = ()) -> bytes:
        """Return a reference to a function or class, or to a new part for any other value; see `part`."""
        if type(value) is FunctionType:
            return self.function(value)
        if issubclass(type(value), type):
            return self.made_class(value)
        return self.value(label, value, names)

    def _visit_library_function(self, function: FunctionType, label: str) -> None:
        code = function.__code__
        name = f"{function.__globals__.get('__name__')}.{code.co_qualname}"
        items = [text(name), tagged(b"bytecode", signature(code))]
        if code.co_qualname == _DISPATCHER:
            items += [self.encode(dict(vars(function)["registry"])), *self.beside(function, _OF_DISPATCHER)]
        else:
            self._add_state(function, code, label, items)
        self.parts[label] = part_of(items, "of a library")

    def _visit_class(self, cls: type, label: str) -> None:
        name = label.partition(" ")[2]
        items = [self.class_(type(cls)), *(self.class_(base) for base in cls.__bases__)]
        if cls.__name__ != cls.__qualname__.rpartition(".")[2]:
            items.append(text(cls.__name__))
        self.note_special(cls, label, {"__orig_bases__": None, **_DOCUMENTATION})
        if "__subclasses__" in self.names:
            items += [text("(subclasses)"), *map(self.class_, type.__subclasses__(cls))]
        self.unread.update({"__subclasses__"} - self.names)
        if type(cls).mro is not type.mro:
            items += [text("(order)"), *map(self.class_, cls.__mro__)]
        found = list(members(cls))
        found = self.before.without_new(cls, label, found) if self.for_trace else found
        wholly = self.is_whole(cls) and not is_model_by_name(self, cls)
        if not wholly:
            methods.add_names([cls], self.names)
        self.note_order_of(label, (name for name, _ in found))
        for attribute, value in sorted(found, key=lambda each: each[0]):
            is_whole = wholly and not attribute.startswith(FACTORY)
            if not (is_whole or self._is_reached(cls, attribute, value)):
                self.aside.update(methods.names_reaching(cls, attribute, value))
                self.set_aside(f"{'method' if functions_of(value) else 'class attribute'} {attribute} of {name}", value)
                continue
            value = self.then(cls, attribute, value)
            is_method = isinstance(value, staticmethod | classmethod | property)
            its_label = f"attribute {attribute} of {name}"
            names = () if wholly else (attribute,)
            items.append(text(attribute) + (self.encode(value) if is_method else self._member(its_label, value, names)))
        items.append(self.flattened(cls, name))
        self._add(label, encoding := several(b"class", items), f"class {shortened(sha256(encoding))}")

    def _is_reached(self, cls: type, name: str, value: Any) -> bool:
        """Return whether the walk has reached a member of a class, as it has the method at which it begins."""
        is_node = any(id(each) in self._nodes for each in functions_of(value))
        return is_node or methods.is_reached(cls, name, value, self.names)


def part_of(items: list[bytes], kind: str) -> Part:
    return Part(digest := sha256(several(b"function", items)), f"{kind} {shortened(digest)}")


def named_by(path: str) -> bytes:
    """Return a reference to a library's member by its name."""
    return tagged(b"named", path.encode("utf-8", "surrogatepass"))
