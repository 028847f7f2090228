"""What `jcache.enable` and somebody else set differently: the environment, or the program in JAX's configuration.

An argument of `jcache.enable` wins over both, and both win over a preset. Each difference is told as a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from jcache.jax_internals import config
from jcache.jax_internals.presets import (
    ENABLE_OPTION,
    JAX_DEFAULTS,
    RUN_CACHE,
    SETTINGS,
    Preset,
    is_off_by_run,
    overridden,
)
from jcache.runs import observers
from jcache.runtime.settings import Request
from jcache.store.roots import VARIABLES

DIRECTORY: Final = "jax_compilation_cache_dir"
BOUND: Final = "jax_compilation_cache_max_size"


def of_preset(preset: Preset) -> tuple[frozenset[str], list[str]]:
    """The options of a preset that somebody else has set, and a sentence on each that differs."""
    by_environment = overridden(preset, os.environ)
    theirs, told = by_environment, []
    for option in sorted(SETTINGS[preset]):
        wanted, found = SETTINGS[preset][option], config.option(option)
        if option in by_environment:
            if found != wanted:
                told.append(
                    f"${option.upper()} in the environment makes {option} {found!r}, which is {wanted!r} in preset "
                    f"'{preset}': unset the variable to have the preset."
                )
        elif option == ENABLE_OPTION and is_off_by_run(os.environ) and not observers.has_cache_of_run():
            continue  # nobody checks what JAX itself would read here; jcache's cache does
        elif found is not None and found not in (wanted, JAX_DEFAULTS[option]):
            theirs |= {option}
            told.append(
                f"The program has set {option} to {found!r}, which is {wanted!r} in preset '{preset}': call "
                "jcache.enable() before, or do not set it."
            )
    return theirs, told


def by_arguments(request: Request, root: Path, directory: Path) -> Iterator[str]:
    """A sentence on each argument in whose place somebody else has set another value.

    Args:
        request: the arguments.
        root: the path of the root.
        directory: of its executables.
    """
    if request.root is not None:
        yield from _differing(DIRECTORY, request.root, VARIABLES, lambda text: _absolute(text) in (root, directory))
    if request.max_bytes is not None:
        yield from _differing(BOUND, request.max_bytes, (BOUND.upper(),), lambda text: text == str(request.max_bytes))


def _differing(
    option: str, given: str | int, variables: tuple[str, ...], agrees: Callable[[str], bool]
) -> Iterator[str]:
    """Says that the environment, or the program in JAX's configuration, names another value than the argument."""
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
    """The path that a text means; None for the address of a remote store."""
    return None if "://" in text else Path(os.path.abspath(os.path.expanduser(text)))
