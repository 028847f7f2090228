"""Describe a function when JAX lowers it: its name, source, arguments and captured arrays.

This module needs the standard library alone, as `jcache.runs.recorder.key_hooks`.
"""

# ruff: noqa: ANN401 - JAX's private objects have no types

if False:  # for the type checker: typing is not needed to run
    from typing import Any

    Line = dict[str, Any]

_MAX_ARGUMENTS = 512
_SHORT = (("float8_", "f8_"), ("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i"))


class LoweredFunction:
    """What is known of a function when it is lowered. It keeps no array and no code of the program.

    Args:
        jaxpr: the first argument but one of JAX's ``lower_jaxpr_to_module``.
        named: its keyword arguments.
        static_of: returns the texts of the static arguments of the function's last call, by the function's source.
    """

    __slots__ = ("_avals", "_constants", "_donated", "_names", "_shardings", "_source", "_static")

    def __init__(self, jaxpr: "Any", named: "Line", static_of: "Any") -> None:
        debug = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
        count = int(named.get("num_const_args") or 0)
        avals: list[Any] = list(named.get("in_avals") or getattr(jaxpr, "in_avals", None) or ())
        captured = [value for value in getattr(jaxpr, "consts", ()) if getattr(value, "shape", None)]
        self._avals = avals[count:]
        self._constants = [type_of(value) for value in [*avals[:count], *captured][:_MAX_ARGUMENTS]]
        self._donated = list(named.get("donated_args") or ())[count:]
        self._shardings = list(named.get("arg_shardings") or ())[count:]
        self._names = list(named.get("arg_names") or getattr(debug, "arg_names", None) or ())
        self._source = str(getattr(debug, "func_src_info", None) or "")
        self._static = static_of(self._source)

    def fields(self) -> "Line":
        """Return the fields of the line ``key`` that describe the function."""
        function, _, source = self._source.partition(" at ")
        count = min(len(self._avals), _MAX_ARGUMENTS)
        return {
            "function": function,
            "source": source,
            "arguments": [self._argument(number) for number in range(count)],
            "static": self._static,
            "constants": self._constants,
        }

    def _argument(self, number: int) -> "list[Any]":
        name = self._names[number] if len(self._names) == len(self._avals) else ""
        donated = number < len(self._donated) and bool(self._donated[number])
        sharding = self._shardings[number] if number < len(self._shardings) else None
        return [str(name or ""), type_of(self._avals[number]), donated, _sharding_text(sharding)]


def type_of(value: "Any") -> str:
    """Return the type of an argument or array as JAX writes it, such as ``f32[64,128]``."""
    dtype = str(getattr(value, "dtype", ""))
    if not dtype:
        return str(value)[:100]  # a token
    dtype = next((short + dtype[len(name) :] for name, short in _SHORT if dtype.startswith(name)), dtype)
    weak = "{weak_type=True}" if getattr(value, "weak_type", False) else ""
    return f"{dtype}[{','.join(map(str, value.shape))}]{weak}"


def _sharding_text(sharding: "Any") -> str:
    """Return a sharding over a mesh; an empty text if it is not given, on one device, or replicated."""
    spec = getattr(sharding, "spec", None)
    return f"{dict(sharding.mesh.shape)} {tuple(spec)}" if spec else ""
