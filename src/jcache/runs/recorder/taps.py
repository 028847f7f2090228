"""Taps in front of the ``logger`` and ``warnings`` of JAX's modules: only their messages have keys and reasons.

No logger's level, handler or filter changes, so the user's output stays the same. This module imports nothing, as
`jcache.runs.recorder.listener`.
"""

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any

    Notify = Callable[[object, tuple[object, ...]], None]

TAPPED = ("jax._src.compiler", "jax._src.compilation_cache", "jax._src.lru_cache")  # JAX's modules


class LoggerTap:
    """A logger that reports each message and passes it on with its caller's line."""

    def __init__(self, original: object, notify: "Notify") -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_notify", notify)

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_original"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_original"), name, value)

    def log(self, level: int, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.log(level, message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    def debug(self, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.debug(message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    def error(self, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.error(message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    # isinstance(tap, logging.Logger) holds: unittest's assertLogs and others ask.
    __class__ = property(lambda self: object.__getattribute__(self, "_original").__class__)


class WarningsTap:
    """The module ``warnings`` in a JAX module: only warnings report failed reads and writes of the cache."""

    def __init__(self, original: object, notify: "Notify") -> None:
        self._original = original
        self._notify = notify

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_original"), name)

    def warn(
        self, message: object, category: object = None, stacklevel: int = 1, *arguments: object, **options: object
    ) -> None:
        self._notify(message, ())
        self._original.warn(message, category, stacklevel + 1, *arguments, **options)  # type: ignore[attr-defined]


def _with_callers_line(options: "dict[str, object]") -> "dict[str, object]":
    """Return the options of a log call, changed so that the record names the line in JAX and not one in this file."""
    options["stacklevel"] = int(options.get("stacklevel", 1)) + 1  # type: ignore[call-overload]
    return options


TAPS: "tuple[tuple[str, Any], ...]" = (("logger", LoggerTap), ("warnings", WarningsTap))
