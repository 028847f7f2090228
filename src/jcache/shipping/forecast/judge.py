"""Whether executables will be hit here, as far as their keys and bodies tell; traces and graphs go anywhere.

JAX (0.4.31 to 0.12) looks an executable up under a hash of its program, of XLA's flags and of what is judged here:

    jaxlib       its version. Of an entry that is on nobody's record, XLA's options tell it: they are in the entry, and
                 each release has others (of 28 from 0.4.30 to 0.12 no two have the same but 0.12.0 and 0.12.0.1, and
                 those within 0.4, 0.5 and 0.6 are as little as one option apart).
    machine      platform, kind of GPU, CUDA's versions, and the CPU's features: for the CPU they are in every key, and
                 an entry names them from about jax 0.8 on; code for features that a CPU lacks would end the process.
    directory    for 0.4.36 <= jax < 0.11 the string that ``jax_compilation_cache_dir`` is set to, as `pathlib` writes
                 it, not where it leads. Not with ``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none``, which `jcache run`
                 and `jcache env` set, nor under `jcache.enable()`. So there are two kinds of programs (`ProgramKind`).
                 `jcache run` and `jcache.enable()` find what both have stored, JAX by itself only its own.
    compression  a word, ``zstandard`` or ``zlib``. JAX compresses and reads one codec alone, by what can be imported,
                 whatever the bytes say:

                     reader                         word        codec   stored under "zlib" by another reader
                     zstandard installed            zstandard   zstd    is never looked up
                     no zstandard                   zlib        zlib    zstd (of the next line): found, not readable
                     Python >= 3.14, jax >= 0.7.1   zlib        zstd    zlib (of the line above): found, not readable

                 What is found and not readable costs a warning and a compilation in every process, since JAX never
                 replaces it: it is better left out. What is stored under ``zstandard`` is never looked up by the
                 other two, whatever its codec. Of zstd bytes nothing tells the word but who exported them; without
                 that they are taken for the first line's, which holds unless they come from Python >= 3.14.

A verdict says what can be known without JAX: the program, its flags and its jax may still be others.
"""

import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.compression import Codec
from jcache.jax_internals.path_keys import in_keys
from jcache.layout import DIRECTORY_NAMES, Kind
from jcache.shipping.archive.manifest import Item, Maker, Manifest
from jcache.shipping.forecast import cpu_features, provenance
from jcache.shipping.forecast.machine import FIRST_JAX_WITH_PYTHON_ZSTD, Machine
from jcache.shipping.forecast.provenance import key_directory
from jcache.shipping.forecast.report import (
    Forecast,
    Hit,
    HitCondition,
    HitVerdict,
    MissReason,
    ProgramKind,
    jax_spelling,
)
from jcache.store import files
from jcache.store.store import Store
from jcache.text import shown
from jcache.verify.path_keys import leads, numbers

__all__ = ["Forecast", "Hit", "HitCondition", "HitVerdict", "MissReason", "ProgramKind", "judge", "judge_root"]

_MAX_OPTIONS_APART: Final = 3  # options: two releases within 0.6 may differ by one, and so may what ``XLA_FLAGS`` adds
_RELEASE_NUMBERS: Final = 3  # numbers of a version; a fourth is of one that was mended, with the same XLA
_UNKNOWN_MAKER: Final = Maker()
_UNLESS_OLDER_PYTHON: Final = "they were made under Python 3.13 or older, which they do not tell"
_UNLESS_NEWER_PYTHON: Final = "they were made under Python 3.14 or later without zstandard, which they do not tell"


def judge(
    manifest: Manifest,
    machine: Machine,
    directory: Path,
    environment: Mapping[str, str],
    *,
    linked: Collection[str] = (),
) -> Forecast:
    """What is to be expected of an archive's executables.

    Args:
        manifest: the archive's.
        machine: this machine and its JAX.
        directory: where the executables are to lie, as ``jax_compilation_cache_dir`` will have it.
        environment: of the process.
        linked: directories that are to become links to this one; those that are links already need not be named.
    """
    judging = _Judge(manifest, machine, directory, linked={jax_spelling(path) for path in linked})
    return Forecast(directory=directory, machine=machine, environment=environment, judge=judging.verdicts)


def judge_root(store: Store, machine: Machine, environment: Mapping[str, str]) -> Forecast:
    """What is to be expected of the executables that lie in a root, one that was copied from elsewhere perhaps.

    Those that do not say for which CPU they were made are taken to be made on this machine, and those of a release that
    was mended later to be made by the one that is installed. Damaged ones are left out.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
    contents = provenance.load_contents(store)
    makers: dict[Maker, int] = {}
    items = []
    for entry in store.entries([Kind.EXECUTABLES]):
        record = known.get(entry.key)
        content = contents.get(record.digest or "") if record is not None and record.bytes == entry.bytes else None
        with suppress(DamagedEntry, OSError):
            found = (
                provenance.of_bytes(files.read(directory / entry.file_name), record)
                if content is None
                else provenance.of_content(content, record)
            )
            items.append(
                Item(
                    Kind.EXECUTABLES, entry.key, entry.bytes, "", entry.created_ns, entry.recency_ns,
                    origin=None if record is None else record.origin,
                    codec=found.codec, portable=found.portable, maker=makers.setdefault(found.maker, len(makers)),
                )
            )  # fmt: skip
    manifest = Manifest(
        jcache="", root=str(store.root.path), directory=str(directory), jaxlib=machine.jaxlib, host=machine.host,
        makers=tuple(makers), items=tuple(items),
    )  # fmt: skip
    return judge(manifest, machine, directory, environment)


class _Judge:
    """The rules, each of which gives a verdict where it has something against an executable."""

    def __init__(self, manifest: Manifest, machine: Machine, directory: Path, *, linked: Collection[str]) -> None:
        self.manifest = manifest
        self.machine = machine
        self.directory = jax_spelling(directory)
        self.linked = linked
        self.is_recorded = any(item.origin is not None for item in manifest.items)

    def verdicts(self) -> dict[str, HitVerdict]:
        """The verdict on each executable, by its key."""
        known: dict[tuple[int | None, str | None, bool], HitVerdict] = {}  # thousands of items have a few among them
        verdicts = {}
        for item in self.manifest.items:
            if item.kind is Kind.EXECUTABLES:
                alike = item.maker, item.codec, item.portable
                if alike not in known:
                    known[alike] = self.verdict(item)
                verdicts[item.key] = known[alike]
        return verdicts

    def verdict(self, item: Item) -> HitVerdict:
        """What can never be helped comes first, what a link can help comes last, and what is not known after that."""
        maker = _UNKNOWN_MAKER if item.maker is None else self.manifest.makers[item.maker]
        machine = [self._platform(maker), self._jaxlib(maker), self._cpu(maker), *self._gpu(maker)]
        word = self._word(maker, item.codec)
        unless = "" if word is None else word.unless
        way = self._directory(maker, portable=item.portable)._replace(unless=unless)
        found = [*machine, word, self._codec(maker, item.codec), way]
        against = [verdict for verdict in found if verdict is not None and verdict.hit is not Hit.WILL]
        verdict = min(against, key=lambda verdict: verdict.hit is Hit.UNKNOWN, default=way)
        helped = {verdict.reason, MissReason.CODEC} if verdict.reason is MissReason.COMPRESSION else {verdict.reason}
        more = any(other.hit is Hit.CANNOT and other.reason not in helped for other in against)
        remedy = "" if more or not self._is_here(maker, item) else verdict.remedy
        return verdict._replace(remedy=remedy, unless=unless)

    def _is_here(self, maker: Maker, item: Item) -> bool:
        """Whether the directory is no other than that which the maker's jax has in the key, if it has any."""
        keyed = key_directory(maker, portable=item.portable)
        return keyed is None or self._leads_here(jax_spelling(keyed))

    def _leads_here(self, path: str) -> bool:
        """Whether a path is the directory, or a link to it, or will be one."""
        return path == self.directory or path in self.linked or leads(path, self.directory)

    def _version(self, maker: Maker) -> str | None:
        """The jax whose recipe for keys counts: what reads must be what wrote."""
        return self.machine.jax or self.machine.jaxlib or maker.jaxlib

    def _platform(self, maker: Maker) -> HitVerdict | None:
        if maker.platform is None or maker.platform in self.machine.platforms:
            return None
        there = ", ".join(sorted(self.machine.platforms))
        return _cannot(MissReason.PLATFORM, f"they are made for {maker.platform}, and JAX has only {there} here")

    def _jaxlib(self, maker: Maker) -> HitVerdict | None:
        mine = self.machine.jaxlib
        if mine is None:
            return _unknown(MissReason.NO_JAX, f"{self.machine.interpreter or 'the interpreter'} has no jaxlib")
        if maker.jaxlib is not None:
            if numbers(maker.jaxlib) == numbers(mine):
                return None
            detail = f"jaxlib {maker.jaxlib} made them, and {mine} is installed here"
            return _cannot(MissReason.JAXLIB, detail, self._installing(*_pip_versions(maker)))
        theirs = int(maker.xla_options or "0", 16)
        ours = (self.machine.query_jaxlib().xla_options if theirs else None) or 0
        apart = (theirs ^ ours).bit_count()
        if theirs and ours and apart > _MAX_OPTIONS_APART:
            age = "an older" if theirs.bit_length() < ours.bit_length() else "another"
            age = "a newer" if theirs.bit_length() > ours.bit_length() else age
            return _cannot(MissReason.JAXLIB, f"{age} jaxlib than the {mine} that is installed here made them")
        if not theirs or not ours or apart or self._is_mended(mine):
            where = f"they come from where {self.manifest.jaxlib} is installed, and " if self.manifest.jaxlib else ""
            return _unknown(MissReason.JAXLIB, f"which jaxlib made them is not on record: {where}{mine} is here")
        return None

    def _is_mended(self, mine: str) -> bool:
        """Whether there is another version with the same XLA that may have made what has no record."""
        here, there = numbers(mine), numbers(self.manifest.jaxlib or "")
        if here == there:
            return False
        return len(here) > _RELEASE_NUMBERS or (len(there) > _RELEASE_NUMBERS and there[:_RELEASE_NUMBERS] == here)

    def _cpu(self, maker: Maker) -> HitVerdict | None:
        if maker.platform != "cpu":
            return None
        made_for = maker.cpu_name or "another CPU"
        if maker.cpu_features is None:
            if self.manifest.host.cpu is not None and self.manifest.host.cpu == self.machine.cpu:
                return None
            there, mine = self.manifest.host.cpu or "one that is not known", self.machine.cpu or "not known either"
            return _unknown(MissReason.CPU, f"they do not name their CPU, which may be {there}; this one is {mine}")
        if not self.machine.cpu_features:
            return _unknown(MissReason.CPU, "this system does not tell the features of its CPU")
        features = self.machine.cpu_features
        missing, extra, unknown = cpu_features.compare_features(maker.cpu_features, features)
        if unknown:
            jaxlib = cpu_features.parse_signs(self.machine.query_jaxlib().cpu_features or ())
            features = {**features, **{name: jaxlib[name] for name in unknown if name in jaxlib}}
            missing, extra, unknown = cpu_features.compare_features(maker.cpu_features, features)
        if missing:
            danger = "were they loaded, they could kill the program"
            return _cannot(
                MissReason.CPU,
                f"they are made for {made_for} with {_first_names(missing)}, which this CPU has not; {danger}",
            )
        if extra:
            return _cannot(
                MissReason.CPU, f"they are made for {made_for} without {_first_names(extra)}, which this CPU has"
            )
        if unknown and (self.manifest.host.cpu is None or self.manifest.host.cpu != self.machine.cpu):
            return _unknown(
                MissReason.CPU,
                f"they are made for {made_for} with {_first_names(unknown)}, which this CPU may have or not",
            )
        return None

    def _gpu(self, maker: Maker) -> list[HitVerdict]:
        if maker.platform not in ("cuda", "rocm") or maker.platform not in self.machine.platforms:
            return []
        return [verdict for verdict in (self._device(maker), *self._toolkit(maker)) if verdict is not None]

    def _device(self, maker: Maker) -> HitVerdict | None:
        wanted, models = maker.compute_capability, ", ".join(sorted({gpu.model for gpu in self.machine.gpus}))
        known = {gpu.compute_capability for gpu in self.machine.gpus}
        if wanted is None or not known or None in known:
            return _unknown(
                MissReason.GPU, f"whether they are made for the GPUs here ({models or 'unknown'}) is not known"
            )
        if wanted not in known:
            mine = ", ".join(sorted(filter(None, known)))
            return _cannot(
                MissReason.GPU, f"they are made for compute capability {wanted}, and here is {mine} ({models})"
            )
        theirs = set(self.manifest.host.gpus)
        if theirs and not theirs & {gpu.model for gpu in self.machine.gpus}:
            return _unknown(MissReason.GPU, f"they come from {', '.join(sorted(theirs))}, and here is {models}")
        return None

    def _toolkit(self, maker: Maker) -> list[HitVerdict]:
        """CUDA's versions: another major one is another build of JAX's plugin; less may be in the key or not."""
        found = []
        abi = dict(maker.abi_version or ())
        for name, title, mine in (("toolkit", "CUDA", self.machine.toolkit), ("cudnn", "cuDNN", self.machine.cudnn)):
            theirs = abi.get(name)
            if theirs is None:
                continue
            if mine is None:
                found.append(
                    _unknown(MissReason.TOOLKIT, f"they are made with {title} {theirs}, and none is known here")
                )
                continue
            count = 2 if name == "toolkit" else 3  # wheels of a toolkit have patch numbers of their own
            if numbers(theirs)[:count] != numbers(mine)[:count]:
                detail = f"they are made with {title} {theirs}, and here is {mine}"
                alike = numbers(theirs)[:1] == numbers(mine)[:1]
                found.append((_unknown if alike else _cannot)(MissReason.TOOLKIT, detail))
        return found

    def _word(self, maker: Maker, codec: str | None) -> HitVerdict | None:
        """The word for the codec that is in the key."""
        version = self._version(maker)
        if codec is None or version is None or self.machine.jaxlib is None:
            return None
        mine, theirs = self.machine.compression(version).word, "zlib" if codec == Codec.ZLIB else maker.compression
        if theirs is None and numbers(version) < FIRST_JAX_WITH_PYTHON_ZSTD:
            theirs = "zstandard"
        if theirs is not None:
            if theirs == mine:
                return None
            if theirs != "zstandard":
                return _cannot(
                    MissReason.COMPRESSION, "they are keyed for JAX without zstandard, which is installed here"
                )
            if self.machine.compression(version).codec is Codec.ZSTD:
                return _cannot(
                    MissReason.COMPRESSION, "they are keyed for JAX under Python 3.13 or older, with zstandard"
                )
            detail = "they are keyed for JAX with zstandard, which is not installed here"
            return _cannot(MissReason.COMPRESSION, detail, self._installing("zstandard"))
        if mine == "zlib":
            detail = "JAX looks for them here only if they were made under Python 3.14 or later, which they do not tell"
            unless = (
                _UNLESS_NEWER_PYTHON if self.machine.compression(version).codec is Codec.ZLIB else _UNLESS_OLDER_PYTHON
            )
            return _unknown(MissReason.COMPRESSION, detail)._replace(unless=unless)
        if not self.manifest.jcache:  # a directory that is here
            return None
        if self.manifest.jaxlib is not None:  # who exported them has not made them: that JAX writes zlib
            detail = "JAX looks for them here only if zstandard was installed where they were made, which is not known"
            return _unknown(MissReason.COMPRESSION, detail)
        return HitVerdict(Hit.WILL, unless=_UNLESS_NEWER_PYTHON)

    def _installing(self, *packages: str) -> str:
        """The command that installs packages for the interpreter here."""
        return shlex.join([self.machine.interpreter or "python3", "-m", "pip", "install", *packages])

    def _codec(self, maker: Maker, codec: str | None) -> HitVerdict | None:
        """The codec itself, of what is looked up."""
        version = self.machine.jax or self.machine.jaxlib
        if codec is None or version is None or codec == self.machine.compression(version).codec:
            return None
        if codec == Codec.ZLIB:
            detail = "they are zlib, which JAX reads under Python 3.13 or older without zstandard, and not here"
            return _cannot(MissReason.CODEC, detail)
        if maker.compression == "zlib":
            return _cannot(MissReason.CODEC, "they are zstd, which JAX reads under Python 3.14 or later, and not here")
        detail = "they are zstd, which JAX does not read here, without zstandard"
        return _cannot(MissReason.CODEC, detail, self._installing("zstandard"))

    def _directory(self, maker: Maker, *, portable: bool) -> HitVerdict:
        version, keyed = self._version(maker), key_directory(maker, portable=portable)
        if version is not None and not in_keys(version) and maker.xla_caches is None:
            return HitVerdict(Hit.WILL)
        keyed = None if keyed is None else jax_spelling(keyed)
        if keyed is None:
            return HitVerdict(
                Hit.WILL, HitCondition(None if version is None else ProgramKind.JCACHE, caches=maker.xla_caches)
            )
        way = HitCondition(ProgramKind.PLAIN, keyed, maker.xla_caches)
        if self._leads_here(keyed):
            return HitVerdict(Hit.WILL, way)
        if not self.is_recorded and Path(keyed).name == DIRECTORY_NAMES[Kind.EXECUTABLES]:
            detail = (
                f"`jcache.enable()` made them in {shown(keyed)} and hits them anywhere, or JAX alone, and they are"
                " keyed for that path; which of them is on nobody's record"
            )
            return HitVerdict(Hit.UNKNOWN, way, MissReason.DIRECTORY, detail)
        detail = f"they are keyed for {shown(keyed)} (jax <= 0.10.2 hashes the directory's path)"
        return HitVerdict(Hit.CANNOT, way, MissReason.DIRECTORY, detail)


def _cannot(reason: MissReason, detail: str, remedy: str = "") -> HitVerdict:
    return HitVerdict(Hit.CANNOT, HitCondition(), reason, detail, remedy=remedy)


def _pip_versions(maker: Maker) -> tuple[str, str]:
    """What pip is to be told to install a maker's jaxlib, and the jax of the same number."""
    toolkit = numbers(dict(maker.abi_version or ()).get("toolkit", ""))
    extra = f"[cuda{toolkit[0]}]" if maker.platform == "cuda" and toolkit else ""
    version = ".".join(map(str, numbers(maker.jaxlib or "")[:_RELEASE_NUMBERS]))
    return f"jax{extra}=={version}", f"jaxlib=={version}"


def _unknown(reason: MissReason, detail: str) -> HitVerdict:
    return HitVerdict(Hit.UNKNOWN, HitCondition(), reason, detail)


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
