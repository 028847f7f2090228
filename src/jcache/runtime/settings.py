"""The arguments of `jcache.enable`, and the settings that are in effect after it."""

from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from jcache.jax_internals.presets import Preset


class Write(StrEnum):
    """Which processes of a multi-process program store executables."""

    RANK0 = "rank0"
    ALL = "all"


class EnableRequest(NamedTuple):
    """The arguments of `jcache.enable`.

    Attributes:
        root: path of the root; None for the one that the environment names.
        max_bytes: bound of the executables' total size; None for the one that JAX is configured with.
        preset: the preset; None for the one that is configured.
        read_only, copy_on_hit, write, callbacks, remote, remote_write, remote_signers: as in `jcache.enable`.
    """

    root: str | None
    max_bytes: int | None
    preset: Preset | None
    read_only: tuple[str, ...]
    copy_on_hit: bool
    write: Write
    callbacks: bool
    remote: str | None = None
    remote_write: bool = False
    remote_signers: str | None = None


ANYTHING: Final = EnableRequest(None, None, None, (), copy_on_hit=False, write=Write.RANK0, callbacks=True)


class Enabled(NamedTuple):
    """The settings in effect after `jcache.enable`.

    Attributes:
        root: the root that is read and written; None if no root is usable, and JAX was left alone.
        directory: the directory of its executables, as ``jax_compilation_cache_dir`` has it.
        max_bytes: bound of the executables' total size when `jcache.enable` returned; None for no bound. It does not
            follow a bound that the program sets later; another call of `jcache.enable` returns that.
        preset: the preset of settings.
        read_only: the read-only roots.
        store: ``"jcache"``; ``"jax"`` if jcache does not know this JAX and has only configured JAX's own cache;
            ``"none"`` without a root.
        warnings: sentences on what does not take effect, and what to do.
        notes: sentences on what else is good to know.
        remote: the URL of the store behind the roots, without credentials; None if there is none.
    """

    root: Path | None
    directory: Path | None
    max_bytes: int | None
    preset: Preset
    read_only: tuple[Path, ...]
    store: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    remote: str | None = None
