"""JAX's configuration: read options, set them, and restore them."""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ChangedOptions:
    """Options of JAX's configuration that stay set until `restore`.

    Attributes:
        unknown: options that the installed JAX does not have, or not with such a value.
    """

    def __init__(self, unknown: tuple[str, ...], became: dict[str, tuple[object, object]]) -> None:
        self.unknown = unknown
        self._set = became  # by name, the value before and the value set

    def restore(self) -> None:
        """Restore the values from before, except where the program has set another one since."""
        while self._set:
            name, (before, ours) = self._set.popitem()
            if option(name) == ours:
                _config().update(name, before)


def option(name: str) -> Any:
    """Return the value of an option of JAX's configuration for all threads, without this thread's context managers.

    It is None where the installed JAX has no such option.
    """
    holder = getattr(_config(), "_value_holders", {}).get(name)
    if holder is None:
        return _config().values.get(name)
    of_all_threads = getattr(holder, "get_global", None)
    return getattr(holder, "_value", holder.value) if of_all_threads is None else of_all_threads()


def directory() -> Path | str | None:
    """Return the configured directory of JAX's cache; as text where it is the address of a remote store."""
    path = option("jax_compilation_cache_dir")
    return (path if "://" in path else Path(path)) if path else None


def configure(values: Mapping[str, object]) -> ChangedOptions:
    """Set options of JAX's configuration, as the program itself would with `jax.config.update`."""
    unknown = []
    became = {}
    for name, value in values.items():
        try:
            before = option(name)
            _config().update(name, value)
        except (AttributeError, TypeError, ValueError):
            unknown.append(name)
        else:
            became[name] = before, option(name)
    return ChangedOptions(tuple(unknown), became)


def _config() -> Any:
    import jax

    return jax.config
