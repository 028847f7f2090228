"""What `jcache.enable` is asked for, and what is in effect after it."""

from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from jcache.jax_internals.presets import Preset


class Write(StrEnum):
    """Which processes of a program of several store executables."""

    RANK0 = "rank0"
    ALL = "all"


class Request(NamedTuple):
    """What `jcache.enable` was asked for.

    Attributes:
        root: path of the root; None for the one that the environment names.
        max_bytes: bound of the executables together; None for the one that JAX is configured with.
        preset, read_only, copy_on_hit, write, callbacks: as `jcache.enable` has them.
    """

    root: str | None
    max_bytes: int | None
    preset: Preset
    read_only: tuple[str, ...]
    copy_on_hit: bool
    write: Write
    callbacks: bool


ANYTHING: Final = Request(None, None, Preset.BALANCED, (), copy_on_hit=False, write=Write.RANK0, callbacks=True)


class Enabled(NamedTuple):
    """What is in effect after `jcache.enable`.

    Attributes:
        root: the root that is read and written; None if there is none that could be, and JAX was left alone.
        directory: where its executables lie, as ``jax_compilation_cache_dir`` has it.
        max_bytes: bound of the executables together when `jcache.enable` returned; None for none. It does not follow
            what the program sets later: `jcache.enable` called again returns the bound of then.
        preset: of the settings.
        read_only: the roots that are read as well.
        store: ``"jcache"``; ``"jax"`` where jcache does not know this JAX and has only configured JAX's own cache;
            ``"none"`` without a root.
        warnings: what does not take effect, and what to do, as sentences.
        notes: what else is good to know.
    """

    root: Path | None
    directory: Path | None
    max_bytes: int | None
    preset: Preset
    read_only: tuple[Path, ...]
    store: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
