"""Turn lowered modules and compile options into text: a separate program, since only JAX can read them.

`jcache.explain.programs` runs it and talks to it in lines of JSON. First it prints the version of jaxlib:

    {"jaxlib": str}

and then, for each line of stdin, an answer:

    {"module": base64 of MLIR bytecode}      {"text": str, "problem": str}
    {"options": base64 of CompileOptionsProto}      {"text": JSON of {field: value}, "problem": str}

The text of a module has no locations; arrays of more than a few elements are left out. ``problem`` is empty, or the
reason why there is no text. The program compiles nothing and touches no device and no cache. It runs with any jax from
0.4.31 on, on Python 3.11 or later, whether or not jcache is installed for that Python.
"""

import base64
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

_MAX_ELEMENTS: Final = 64  # of an array that is printed
_MAX_TEXT_CHARS: Final = 32 << 20
_MAX_VALUE_CHARS: Final = 200
_MAX_REASON_CHARS: Final = 300
_OVERRIDES: Final = "env_option_overrides"  # options that are given to one compilation
_SIMPLE: Final = (bool, int, float, str)


def main() -> None:
    """Answer every line of stdin."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as replies:
        os.dup2(2, 1)  # output of libraries goes to stderr
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        import jax  # noqa: F401
        from jaxlib import version

        print(json.dumps({"jaxlib": version.__version__}), file=replies, flush=True)
        for line in sys.stdin:
            signal.alarm(int(sys.argv[1]))  # ends this process where its parent was killed
            answer = _answer(json.loads(line))
            signal.alarm(0)
            print(json.dumps(answer), file=replies, flush=True)
    os._exit(0)  # without JAX's own exit handlers, which may fail


def _answer(question: dict[str, str]) -> dict[str, str]:
    ((kind, data),) = question.items()
    turn: Callable[[bytes], str] = _module_text if kind == "module" else _options_text
    try:
        return {"text": turn(base64.b64decode(data)), "problem": ""}
    except MemoryError:
        return {"text": "", "problem": "it needs more memory than there is"}
    except Exception as error:  # noqa: BLE001  (jaxlib raises various errors)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"text": "", "problem": lines[0][:_MAX_REASON_CHARS]}


def _module_text(data: bytes) -> str:
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir  # type: ignore[attr-defined]

    with mlir.make_ir_context():
        module = ir.Module.parse(data)
        text = str(module.operation.get_asm(large_elements_limit=_MAX_ELEMENTS, enable_debug_info=False))
    if len(text) > _MAX_TEXT_CHARS:
        raise ValueError("its text is too long to be compared")
    return text


def _options_text(data: bytes) -> str:
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    options = xla_client.CompileOptions.ParseFromString(data)
    debug = options.executable_build_options.debug_options
    overrides = {f"{_OVERRIDES}.{name}": _shown(value) for name, value in options.env_option_overrides}
    return json.dumps(_fields(options, "") | _debug_fields(debug) | overrides)


def _fields(value: Any, prefix: str) -> dict[str, str]:  # noqa: ANN401  (classes of jaxlib)
    """Return the attributes of an object of XLA, and of the objects in it, as texts by their names."""
    found = {}
    for name in dir(value):
        if name.startswith("_") or name in ("debug_options", _OVERRIDES):
            continue
        attribute = None
        with suppress(Exception):
            attribute = getattr(value, name)
        if callable(attribute):
            continue
        if attribute is None or isinstance(attribute, (*_SIMPLE, list, tuple)):
            found[prefix + name] = _shown(attribute)
        elif type(attribute).__name__.endswith("Options"):
            found |= _fields(attribute, f"{prefix}{name}.")
        elif " object at 0x" not in (text := str(attribute)):
            found[prefix + name] = text[:_MAX_VALUE_CHARS]
    return found


def _shown(value: Any) -> str:  # noqa: ANN401
    return value[:_MAX_VALUE_CHARS] if isinstance(value, str) else str(value)[:_MAX_VALUE_CHARS]


def _debug_fields(options: Any) -> dict[str, str]:  # noqa: ANN401
    """Return XLA's debug options by name: their text lists each that is set, also those without an attribute."""
    try:
        text = repr(options)
    except TypeError:  # before jaxlib 0.4.32 or so
        return _fields(options, "")
    found: dict[str, str] = {}
    nested: list[str] = []
    for line in text.splitlines():
        name, colon, value = line.strip().partition(": ")
        if line.rstrip().endswith("{"):
            nested.append(line.strip().removesuffix("{").strip())
        elif line.strip() == "}" and nested:
            nested.pop()
        elif colon:
            field = ".".join([*nested, name])
            shown = value.strip().removeprefix('"').removesuffix('"')
            found[field] = f"{found[field]}, {shown}" if field in found else shown
    return found


if __name__ == "__main__":
    main()
