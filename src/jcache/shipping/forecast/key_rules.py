"""Rules on the rest of the key: jaxlib's version, the word for the compression, and the cache directory."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final

from jcache.formats.compression import Codec
from jcache.jax_internals.path_keys import in_keys, version_numbers
from jcache.jax_internals.versions import ZSTD_OF_PYTHON
from jcache.layout import DIRECTORY_NAMES, Kind
from jcache.shipping.archive.manifest import Maker, Manifest
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.provenance import key_directory
from jcache.shipping.forecast.verdict import (
    Hit,
    HitCondition,
    HitVerdict,
    MissReason,
    ProgramKind,
    jax_spelling,
    miss,
    unsure,
)
from jcache.text import shown
from jcache.verify.path_keys import leads_to

_MAX_OPTIONS_APART: Final = 3  # two releases within 0.6 may differ by one, and ``XLA_FLAGS`` may add some
_RELEASE_NUMBERS: Final = 3  # numbers of a version; a fourth marks a repaired release with the same XLA
_UNLESS_OLDER_PYTHON: Final = "they were made under Python 3.13 or older, which they do not record"
_UNLESS_NEWER_PYTHON: Final = "they were made under Python 3.14 or later without zstandard, which they do not record"


class KeyRules:
    """Judges what JAX hashes besides the program, its flags and the machine.

    Args:
        manifest: lists the executables.
        machine: this machine and its JAX.
        directory: directory of the executables after the import, as ``jax_compilation_cache_dir`` will name it.
        linked: directories that will become links to this one.
    """

    def __init__(self, manifest: Manifest, machine: Machine, directory: Path, *, linked: Collection[str]) -> None:
        self._manifest = manifest
        self._machine = machine
        self._directory = jax_spelling(directory)
        self._linked = linked
        self._is_recorded = any(item.origin is not None for item in manifest.items)

    def is_keyed_here(self, maker: Maker, *, portable: bool) -> bool:
        """Return whether the keys of a maker's executables contain this directory or none."""
        directory = key_directory(maker, portable=portable)
        return directory is None or self._leads_here(jax_spelling(directory))

    def _leads_here(self, path: str) -> bool:
        """Return whether a path is the directory or a link to it, or will be such a link."""
        return path == self._directory or path in self._linked or leads_to(path, self._directory)

    def _version(self, maker: Maker) -> str | None:
        """Return the jax version whose way to make keys counts: a reader must be of the writer's version."""
        return self._machine.jax or self._machine.jaxlib or maker.jaxlib

    def _install_command(self, *packages: str) -> str:
        """Return the command that installs packages for the interpreter here."""
        return shlex.join([self._machine.interpreter or "python3", "-m", "pip", "install", *packages])

    # -- jaxlib

    def judge_jaxlib(self, maker: Maker) -> HitVerdict | None:
        """Return a verdict if another jaxlib made the executable, or may have made it."""
        ours = self._machine.jaxlib
        if ours is None:
            return unsure(MissReason.NO_JAX, f"{self._machine.interpreter or 'the interpreter'} has no jaxlib")
        if maker.jaxlib is None:
            return self._judge_options(maker, ours)
        if version_numbers(maker.jaxlib) == version_numbers(ours):
            return None
        detail = f"jaxlib {maker.jaxlib} made them, and {ours} is installed here"
        return miss(MissReason.JAXLIB, detail, self._install_command(*_pip_versions(maker)))

    def _judge_options(self, maker: Maker, ours: str) -> HitVerdict | None:
        """Compare XLA's options, where no record has the version of jaxlib."""
        their_options = int(maker.xla_options or "0", 16)
        our_options = (self._machine.query_jaxlib().xla_options if their_options else None) or 0
        apart = (their_options ^ our_options).bit_count()
        if their_options and our_options and apart > _MAX_OPTIONS_APART:
            age = "an older" if their_options.bit_length() < our_options.bit_length() else "another"
            age = "a newer" if their_options.bit_length() > our_options.bit_length() else age
            return miss(MissReason.JAXLIB, f"{age} jaxlib than the {ours} that is installed here made them")
        if not their_options or not our_options or apart or self._may_be_repaired_release(ours):
            theirs = self._manifest.jaxlib
            where = f"they come from where jaxlib {theirs} is installed, and {ours} is here" if theirs else ""
            return unsure(
                MissReason.JAXLIB, f"no record says which jaxlib made them: {where or f'{ours} is installed here'}"
            )
        return None

    def _may_be_repaired_release(self, ours: str) -> bool:
        """Return whether another version with the same XLA may have made an executable without a record."""
        here, there = version_numbers(ours), version_numbers(self._manifest.jaxlib or "")
        if here == there:
            return False
        return len(here) > _RELEASE_NUMBERS or (len(there) > _RELEASE_NUMBERS and there[:_RELEASE_NUMBERS] == here)

    # -- compression

    def judge_compression(self, maker: Maker, codec: str | None) -> HitVerdict | None:
        """Return a verdict on the word for the compression, which keys contain; None if it is the same here."""
        version = self._version(maker)
        if codec is None or version is None or self._machine.jaxlib is None:
            return None
        ours, theirs = self._machine.compression(version), "zlib" if codec == Codec.ZLIB else maker.compression
        if theirs is None and version_numbers(version) < ZSTD_OF_PYTHON:
            theirs = "zstandard"
        if theirs is None:
            return self._judge_unknown_word(ours.word, ours.codec)
        if theirs == ours.word:
            return None
        if theirs != "zstandard":
            return miss(MissReason.COMPRESSION, "they are keyed for JAX without zstandard, which is installed here")
        if ours.codec is Codec.ZSTD:
            return miss(MissReason.COMPRESSION, "they are keyed for JAX under Python 3.13 or older, with zstandard")
        detail = "they are keyed for JAX with zstandard, which is not installed here"
        return miss(MissReason.COMPRESSION, detail, self._install_command("zstandard"))

    def _judge_unknown_word(self, our_word: str, our_codec: Codec) -> HitVerdict | None:
        if our_word == "zlib":
            detail = (
                "JAX looks for them here only if they were made under Python 3.14 or later, which they do not record"
            )
            unless = _UNLESS_NEWER_PYTHON if our_codec is Codec.ZLIB else _UNLESS_OLDER_PYTHON
            return unsure(MissReason.COMPRESSION, detail)._replace(unless=unless)
        if not self._manifest.jcache:  # a directory on this machine
            return None
        if self._manifest.jaxlib is not None:  # the exporter's JAX writes zlib, so another one made them
            detail = "JAX looks for them here only if zstandard was installed where they were made, which is not known"
            return unsure(MissReason.COMPRESSION, detail)
        return HitVerdict(Hit.WILL, unless=_UNLESS_NEWER_PYTHON)

    def judge_codec(self, maker: Maker, codec: str | None) -> HitVerdict | None:
        """Return a verdict if JAX finds the executable here and cannot decompress it."""
        version = self._machine.jax or self._machine.jaxlib
        if codec is None or version is None or codec == self._machine.compression(version).codec:
            return None
        if codec == Codec.ZLIB:
            detail = "they are zlib, which JAX reads under Python 3.13 or older without zstandard, and not here"
            return miss(MissReason.CODEC, detail)
        if maker.compression == "zlib":
            return miss(MissReason.CODEC, "they are zstd, which JAX reads under Python 3.14 or later, and not here")
        detail = "they are zstd, which JAX does not read here, without zstandard"
        return miss(MissReason.CODEC, detail, self._install_command("zstandard"))

    # -- the directory

    def judge_directory(self, maker: Maker, *, portable: bool) -> HitVerdict:
        """Return the verdict on the directory in the key, with the condition of a hit if nothing speaks against one."""
        version, keyed = self._version(maker), key_directory(maker, portable=portable)
        if version is not None and not in_keys(version) and maker.xla_caches is None:
            return HitVerdict(Hit.WILL)
        if keyed is None:
            programs = None if version is None else ProgramKind.JCACHE
            return HitVerdict(Hit.WILL, HitCondition(programs, xla_caches=maker.xla_caches))
        keyed = jax_spelling(keyed)
        condition = HitCondition(ProgramKind.PLAIN, keyed, maker.xla_caches)
        if self._leads_here(keyed):
            return HitVerdict(Hit.WILL, condition)
        if not self._is_recorded and Path(keyed).name == DIRECTORY_NAMES[Kind.EXECUTABLES]:
            detail = (
                f"either `jcache.enable()` made them in {shown(keyed)} and hits them anywhere, or JAX alone made them,"
                " and they are keyed for that path; no record says which"
            )
            return HitVerdict(Hit.UNKNOWN, condition, MissReason.DIRECTORY, detail)
        detail = f"they are keyed for {shown(keyed)} (jax <= 0.10.2 hashes the directory's path)"
        return HitVerdict(Hit.CANNOT, condition, MissReason.DIRECTORY, detail)


def _pip_versions(maker: Maker) -> tuple[str, str]:
    """Return pip's requirements for a maker's jaxlib and the jax of the same number."""
    toolkit = version_numbers(dict(maker.abi_version or ()).get("toolkit", ""))
    extra = f"[cuda{toolkit[0]}]" if maker.platform == "cuda" and toolkit else ""
    version = ".".join(map(str, version_numbers(maker.jaxlib or "")[:_RELEASE_NUMBERS]))
    return f"jax{extra}=={version}", f"jaxlib=={version}"
