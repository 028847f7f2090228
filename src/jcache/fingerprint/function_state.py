"""What functions have beside their code: defaults, attributes, and variables of functions around them."""

# ruff: noqa: ANN401 - programs hold anything

from types import CodeType, FunctionType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.encoding import text
from jcache.fingerprint.references import References

_NO_CELL: Final = b"empty0:"


class States(References):
    """The part of a walk that looks at them."""

    def _add_state(self, function: FunctionType, code: CodeType, label: str, items: list[bytes]) -> None:
        """What a function has beside its code."""
        if function.__name__ != code.co_name:
            items.append(text(function.__name__))
        if function.__defaults__ or function.__kwdefaults__:
            self._defaults(function, code, label)
        if function.__closure__:
            items += self._closure(function, code, self._short(label))
        if function.__dict__:
            name = self._short(label)
            for attribute, value in sorted(function.__dict__.items()):
                items.append(
                    text(attribute)
                    + self._member(f"attribute {attribute} of {name}", self.then(function, attribute, value))
                )

    def _short(self, label: str) -> str:
        return label.partition(" ")[2] or self._name

    def _defaults(self, function: FunctionType, code: CodeType, label: str) -> None:
        name = self._short(label)
        if function.__defaults__:
            last = code.co_argcount
            count = min(last, len(function.__defaults__))
            for each, value in zip(code.co_varnames[last - count : last], function.__defaults__[-count:], strict=False):
                self.part(f"default {each} of {name}", value)
        if function.__kwdefaults__:
            for each, value in sorted(function.__kwdefaults__.items()):
                self.part(f"default {each} of {name}", value)

    def _closure(self, function: FunctionType, code: CodeType, name: str) -> list[bytes]:
        items = []
        is_library = name_resolution.of_function(function) != origins.USER  # which may note what it has found out
        for each, cell in sorted(zip(code.co_freevars, function.__closure__ or (), strict=True), key=lambda it: it[0]):
            try:
                value = cell.cell_contents
            except ValueError:
                items.append(_NO_CELL)
                continue
            value = self.then(cell, each, value, of_any_type=is_library)
            items.append(self._member(f"closure {each} of {name}", value))
        return items

    def _member(self, label: str, value: Any) -> bytes:
        """Code is referred to where it stands, anything else is a part of its own."""
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, type):
            return self.class_(value)
        return self.value(label, value)
