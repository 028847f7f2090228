"""What stands for functions, classes and modules where something refers to them."""

# ruff: noqa: ANN401 - programs hold anything

import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins, registrations
from jcache.fingerprint.depends_on import ATTRIBUTE, Dependency
from jcache.fingerprint.encoding import tagged
from jcache.fingerprint.parts import Parts

_HEAP_TYPE: Final = 1 << 9
_NAMES: Final = ("__qualname__", "__name__", "__self__", "__module__")


class References(Parts):
    """A node for each of the user's, a name for what a library has."""

    @abstractmethod
    def _visit_function(self, function: FunctionType, label: str) -> None:
        """Makes a part of a function of the user's."""

    @abstractmethod
    def _visit_library_function(self, function: FunctionType, label: str) -> None:
        """Makes a part of a function that a library has made."""

    @abstractmethod
    def _visit_class(self, cls: type, label: str) -> None:
        """Makes a part of a class."""

    @abstractmethod
    def _visit_namespace(self, namespace: dict[str, Any], label: str) -> None:
        """Makes a part of all globals of a module."""

    def function(self, function: FunctionType) -> bytes:
        """A reference to a function, which is visited later if it has not been yet."""
        reference = self._nodes.get(id(function))
        if reference is not None:
            return reference
        origin = name_resolution.of_function(function)
        if origin == origins.STDLIB:
            self.meet(function)
        if origin == origins.OURS:
            wrapped = vars(function).get("__wrapped__")
            return named_by("jcache") if wrapped is None else self.encode(wrapped) + self._said(vars(function))
        if origins.is_installed(origin):
            self.library()
        if origin != origins.USER and origins.is_findable(function):
            return named_by(f"{function.__module__}.{function.__qualname__}")
        if origin != origins.USER:
            return self._node(function, id(function), self._helper(function), self._visit_library_function)
        return self.user_function(function)

    def user_function(self, function: FunctionType) -> bytes:
        """A node for a function of the user's own."""
        return self._node(function, id(function), self._helper(function), self._visit_function)

    def _helper(self, function: FunctionType) -> str:
        module = str(function.__globals__.get("__name__", "?"))
        return f"helper {self._qualified(module, function.__code__.co_qualname)}"

    def begin(self, function: FunctionType) -> bytes:
        """A reference to the function at which the walk begins."""
        return self._node(function, id(function), "function", self._visit_function)

    def class_(self, cls: type) -> bytes:
        """A reference to a class, which is visited later if it has not been yet."""
        reference = self._nodes.get(id(cls))
        if reference is not None:
            return reference
        if (known := self._named_classes.get(id(cls))) is not None:
            return known[1]
        self.meet(cls)
        module = str(cls.__module__)
        origin = origins.of_module_named(module)
        own = sys.modules.get(module)
        is_compiled = not cls.__flags__ & _HEAP_TYPE or (own is not None and is_extension(own))
        if origins.is_installed(origin):
            self.library()
        if origin == origins.OURS or is_compiled or (origin != origins.USER and origins.is_findable(cls)):
            reference = named_by(origins.path_of(cls))
            self._named_classes[id(cls)] = cls, reference
            return reference
        label = f"class {self._qualified(module, cls.__qualname__)}"
        return self._node(cls, id(cls), label, self._visit_class)

    def flattened(self, cls: type, name: str) -> bytes:
        """How JAX flattens the instances of a class of that name, if it is registered as a pytree."""
        functions = registrations.registered(cls)
        return self.value(f"flattening of {name}", functions) if functions else b""

    def is_library(self, cls: type) -> bool:
        """Whether a class is not the user's own."""
        return origins.of_module_named(str(cls.__module__)) != origins.USER

    def module(self, module: ModuleType) -> bytes:
        """A module with all that is in it; of a library its name."""
        origin = origins.of_module(module)
        if origin != origins.USER or is_extension(module):
            return named_by(module.__name__)
        return self.namespace(vars(module))

    def namespace(self, namespace: dict[str, Any]) -> bytes:
        """A reference to all globals of some code."""
        reference = self._nodes.get(id(namespace))
        if reference is None:
            label = f"namespace {namespace.get('__name__', '?')}"
            reference = self._node(namespace, id(namespace), label, self._visit_namespace)
        return reference

    def named(self, value: Any) -> bytes | None:
        """What a library, or a user's extension module, has under a name of its own."""
        self.meet(value)
        if hasattr(type(value), "__getattr__"):  # which gives anything, perhaps
            known = name_resolution.vars_of(value)
        else:
            known = {name: getattr(value, name, None) for name in _NAMES}
        name = known.get("__qualname__") or known.get("__name__")
        owner = known.get("__self__")
        home = owner.__name__ if isinstance(owner, ModuleType) else known.get("__module__")
        module = sys.modules.get(home) if isinstance(home, str) else None
        if module is None or not isinstance(name, str):
            return self._ours(value)
        found: Any = module
        for step in name.split("."):
            found = getattr(found, step, None)
        origin = origins.of_module(module)
        if found is not value or (origin == origins.USER and not is_extension(module)):
            return self._ours(value)
        if origins.is_installed(origin):
            self.library()
        return named_by(f"{origins.OURS if origin == origins.OURS else home}.{name}")

    def _ours(self, value: Any) -> bytes | None:
        if origins.of_module_named(type(value).__module__) != origins.OURS:
            return None
        known = name_resolution.vars_of(value)
        if (wrapped := known.get("__wrapped__")) is None:
            return named_by("jcache")
        return self.encode(wrapped) + b"".join(self.beside(value)) + self._said(known)

    def _said(self, attributes: Mapping[str, Any]) -> bytes:
        """What the program says that something jcache has made depends on."""
        return self.depends_on(attributes.get(ATTRIBUTE, ()))

    def depends_on(self, dependencies: Iterable[Dependency]) -> bytes:
        """Makes a part of the value of each dependency."""
        return b"".join([self.value(f"depends_on {each.name}", each.value()) for each in dependencies])


def named_by(path: str) -> bytes:
    """What a library has under a name."""
    return tagged(b"named", path.encode("utf-8", "surrogatepass"))


def is_extension(module: ModuleType) -> bool:
    """Whether it is compiled."""
    return str(getattr(module, "__file__", None) or "").endswith((".so", ".pyd", ".dylib"))
