"""JAX's configuration: options read, set, and put back as they were."""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Configured:
    """Options of JAX's configuration that have been set, until `restore`.

    Attributes:
        unknown: those that the JAX at hand does not have, or not with such a value.
    """

    def __init__(self, unknown: tuple[str, ...], became: dict[str, tuple[object, object]]) -> None:
        self.unknown = unknown
        self._set = became  # by their names, what each was, and what it became

    def restore(self) -> None:
        """Put back what was there, except where the program has set something else since."""
        while self._set:
            name, (before, ours) = self._set.popitem()
            if option(name) == ours:
                _config().update(name, before)


def option(name: str) -> Any:
    """What an option of JAX's configuration is for all threads, whatever a context manager says in this one.

    It is None where the JAX at hand has no such option.
    """
    holder = getattr(_config(), "_value_holders", {}).get(name)
    if holder is None:
        return _config().values.get(name)
    of_all_threads = getattr(holder, "get_global", None)
    return getattr(holder, "_value", holder.value) if of_all_threads is None else of_all_threads()


def directory() -> Path | str | None:
    """The directory that JAX's cache is configured with; a text if it is the address of a remote store."""
    path = option("jax_compilation_cache_dir")
    return (path if "://" in path else Path(path)) if path else None


def configure(values: Mapping[str, object]) -> Configured:
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
    return Configured(tuple(unknown), became)


def _config() -> Any:
    import jax

    return jax.config
