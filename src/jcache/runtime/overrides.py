"""Find settings that the environment, or the program in JAX's configuration, has made differently from `jcache.enable`.

An argument of `jcache.enable` wins over both, and both win over a preset. Each difference gives one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from jcache.jax_internals import config
from jcache.jax_internals.presets import (
    ENABLE_OPTION,
    FALSE_TEXTS,
    JAX_DEFAULTS,
    RUN_BOUND,
    RUN_CACHE,
    SETTINGS,
    Preset,
    is_off_by_run,
    overridden,
)
from jcache.runs import observers
from jcache.runtime.settings import EnableRequest
from jcache.store.roots import VARIABLES

DIRECTORY: Final = "jax_compilation_cache_dir"
BOUND: Final = "jax_compilation_cache_max_size"


def of_preset(preset: Preset) -> tuple[frozenset[str], list[str]]:
    """Return the options of a preset that the environment or the program has set, and a sentence on each difference."""
    by_environment = overridden(preset, os.environ)
    already_set, warnings = by_environment, []
    for option in sorted(SETTINGS[preset]):
        wanted, found = SETTINGS[preset][option], config.option(option)
        if option in by_environment and _means(os.environ[option.upper()], found):
            if found != wanted:
                warnings.append(
                    f"${option.upper()} in the environment makes {option} {found!r}, which is {wanted!r} in preset "
                    f"'{preset}': unset the variable to have the preset."
                )
        elif option == ENABLE_OPTION and is_off_by_run(os.environ) and not observers.has_cache_of_run():
            continue  # JAX's own cache would read unchecked bytes here; jcache's cache does not
        elif found is not None and found not in (wanted, JAX_DEFAULTS[option]):
            already_set |= {option}
            warnings.append(
                f"The program has set {option} to {found!r}, which is {wanted!r} in preset '{preset}': call "
                "jcache.enable() before, or do not set it."
            )
    return already_set, warnings


def _means(text: str, value: object) -> bool:
    """Return whether JAX reads this value from the text of an environment variable."""
    if isinstance(value, bool):
        return (text.lower() not in FALSE_TEXTS) == value
    try:
        return float(text) == value
    except ValueError:
        return text == str(value)


def by_arguments(request: EnableRequest, root: Path, directory: Path) -> Iterator[str]:
    """Yield a sentence on each argument that the environment or the program has set to another value.

    Args:
        request: the arguments of `jcache.enable`.
        root: path of the root.
        directory: path of its executables.
    """
    if request.root is not None:
        yield from _differing(DIRECTORY, request.root, VARIABLES, lambda text: _absolute(text) in (root, directory))
    if request.max_bytes is not None:
        known = {str(request.max_bytes), os.environ.get(RUN_BOUND)}
        yield from _differing(BOUND, request.max_bytes, (BOUND.upper(),), known.__contains__)


def _differing(
    option: str, given: str | int, variables: tuple[str, ...], agrees: Callable[[str], bool]
) -> Iterator[str]:
    """Yield a sentence for each other value of an argument, in the environment or in JAX's configuration."""
    used = f"but jcache.enable() was given {given}, which is used"
    texts = {name: os.environ.get(name) for name in variables}
    for name, text in texts.items():
        if text and not agrees(text):
            yield f"${name} in the environment is {text}, {used}: unset the variable, or do not give it."
    if (value := set_by_program(option)) is not None and not agrees(value):
        yield f"The program has set {option} to {value}, {used}: do not set it, or do not give it."


def set_by_program(option: str) -> str | None:
    """Return the text of what the program set a JAX option to; None if the environment or `jcache run` set it."""
    value = config.option(option)
    is_default = value in (None, "", -1) or str(value) in (os.environ.get(option.upper()), os.environ.get(RUN_CACHE))
    return None if is_default else str(value)


def _absolute(text: str) -> Path | None:
    """Return the path that a text stands for; None for the URL of a remote store."""
    return None if "://" in text else Path(os.path.abspath(os.path.expanduser(text)))


def bound() -> int:
    """Return the bound that JAX is configured with; -1 for no bound."""
    return max(int(config.option(BOUND)), -1)


def raises() -> bool:
    """Return whether JAX raises failures of its cache instead of warning."""
    return bool(config.option("jax_raise_persistent_cache_errors"))
