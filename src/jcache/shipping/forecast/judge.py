"""Whether executables will be hit here, as far as their keys and bodies tell; traces and graphs go anywhere.

JAX (0.4.31 to 0.12) looks an executable up under a hash of its program, of XLA's flags and of what is judged here:

    jaxlib       its version. Of an entry that is on nobody's record, XLA's options tell it: they are in the entry, and
                 each release has others (of 28 from 0.4.30 to 0.12 no two have the same but 0.12.0 and 0.12.0.1, and
                 those within 0.4, 0.5 and 0.6 are as little as one option apart).
    machine      platform, kind of GPU, CUDA's versions, and the CPU's features: for the CPU they are in every key, and
                 an entry names them from about jax 0.8 on; code for features that a CPU lacks would end the process.
    directory    for 0.4.36 <= jax < 0.11 the string that ``jax_compilation_cache_dir`` is set to, as `pathlib` writes
                 it, not where it leads. Not with ``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none``, which `jcache run`
                 and `jcache env` set, nor under `jcache.enable()`. So there are two kinds of programs (`Reader`).
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
from jcache.jax_internals.versions import ZSTD_OF_PYTHON
from jcache.layout import DIRECTORY_NAMES, Kind
from jcache.shipping.archive.manifest import Item, Maker, Manifest
from jcache.shipping.forecast import cpu_features, provenance
from jcache.shipping.forecast.machine import Here
from jcache.shipping.forecast.provenance import keyed_for
from jcache.shipping.forecast.report import Forecast, Hit, Reader, Reason, Verdict, Way, spelled
from jcache.store import files
from jcache.store.store import Store
from jcache.text import shown
from jcache.verify.path_keys import leads, numbers

__all__ = ["Forecast", "Hit", "Reader", "Reason", "Verdict", "Way", "judge", "judge_root"]

_CLOSE: Final = 3  # options: two releases within 0.6 may differ by one, and so may what ``XLA_FLAGS`` adds
_RELEASE: Final = 3  # numbers of a version; a fourth is of one that was mended, with the same XLA
_NONE: Final = Maker()
_OLDER: Final = "they were made under Python 3.13 or older, which they do not tell"
_UNLESS: Final = "they were made under Python 3.14 or later without zstandard, which they do not tell"


def judge(
    manifest: Manifest,
    here: Here,
    directory: Path,
    environment: Mapping[str, str],
    *,
    linked: Collection[str] = (),
) -> Forecast:
    """What is to be expected of an archive's executables.

    Args:
        manifest: the archive's.
        here: this machine and its JAX.
        directory: where the executables are to lie, as ``jax_compilation_cache_dir`` will have it.
        environment: of the process.
        linked: directories that are to become links to this one; those that are links already need not be named.
    """
    judging = _Judging(manifest, here, directory, linked={spelled(path) for path in linked})
    return Forecast(directory=directory, here=here, environment=environment, judge=judging.verdicts)


def judge_root(store: Store, here: Here, environment: Mapping[str, str]) -> Forecast:
    """What is to be expected of the executables that lie in a root, one that was copied from elsewhere perhaps.

    Those that do not say for which CPU they were made are taken to be made on this machine, and those of a release that
    was mended later to be made by the one that is installed. Damaged ones are left out.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
    contents = provenance.remembered(store)
    makers: dict[Maker, int] = {}
    items = []
    for entry in store.entries([Kind.EXECUTABLES]):
        record = known.get(entry.key)
        content = contents.get(record.digest or "") if record is not None and record.bytes == entry.bytes else None
        with suppress(DamagedEntry, OSError):
            found = (
                provenance.of(files.read(directory / entry.file_name), record)
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
        jcache="", root=str(store.root.path), directory=str(directory), jaxlib=here.jaxlib, host=here.host,
        makers=tuple(makers), items=tuple(items),
    )  # fmt: skip
    return judge(manifest, here, directory, environment)


class _Judging:
    """The rules, each of which gives a verdict where it has something against an executable."""

    def __init__(self, manifest: Manifest, here: Here, directory: Path, *, linked: Collection[str]) -> None:
        self.manifest = manifest
        self.here = here
        self.directory = spelled(directory)
        self.linked = linked
        self.is_recorded = any(item.origin is not None for item in manifest.items)

    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each executable, by its key."""
        known: dict[tuple[int | None, str | None, bool], Verdict] = {}  # thousands of items have a few among them
        verdicts = {}
        for item in self.manifest.items:
            if item.kind is Kind.EXECUTABLES:
                alike = item.maker, item.codec, item.portable
                if alike not in known:
                    known[alike] = self.verdict(item)
                verdicts[item.key] = known[alike]
        return verdicts

    def verdict(self, item: Item) -> Verdict:
        """What can never be helped comes first, what a link can help comes last, and what is not known after that."""
        maker = _NONE if item.maker is None else self.manifest.makers[item.maker]
        machine = [self._platform(maker), self._jaxlib(maker), self._cpu(maker), *self._gpu(maker)]
        word = self._word(maker, item.codec)
        unless = "" if word is None else word.unless
        way = self._directory(maker, portable=item.portable)._replace(unless=unless)
        found = [*machine, word, self._codec(maker, item.codec), way]
        against = [verdict for verdict in found if verdict is not None and verdict.hit is not Hit.WILL]
        verdict = min(against, key=lambda verdict: verdict.hit is Hit.UNKNOWN, default=way)
        helped = {verdict.reason, Reason.CODEC} if verdict.reason is Reason.COMPRESSION else {verdict.reason}
        more = any(other.hit is Hit.CANNOT and other.reason not in helped for other in against)
        remedy = "" if more or not self._is_here(maker, item) else verdict.remedy
        return verdict._replace(remedy=remedy, unless=unless)

    def _is_here(self, maker: Maker, item: Item) -> bool:
        """Whether the directory is no other than that which the maker's jax has in the key, if it has any."""
        keyed = keyed_for(maker, portable=item.portable)
        return keyed is None or self._leads_here(spelled(keyed))

    def _leads_here(self, path: str) -> bool:
        """Whether a path is the directory, or a link to it, or will be one."""
        return path == self.directory or path in self.linked or leads(path, self.directory)

    def _version(self, maker: Maker) -> str | None:
        """The jax whose recipe for keys counts: what reads must be what wrote."""
        return self.here.jax or self.here.jaxlib or maker.jaxlib

    def _platform(self, maker: Maker) -> Verdict | None:
        if maker.platform is None or maker.platform in self.here.platforms:
            return None
        there = ", ".join(sorted(self.here.platforms))
        return _cannot(Reason.PLATFORM, f"they are made for {maker.platform}, and JAX has only {there} here")

    def _jaxlib(self, maker: Maker) -> Verdict | None:
        mine = self.here.jaxlib
        if mine is None:
            return _unknown(Reason.NO_JAX, f"{self.here.interpreter or 'the interpreter'} has no jaxlib")
        if maker.jaxlib is not None:
            if numbers(maker.jaxlib) == numbers(mine):
                return None
            detail = f"jaxlib {maker.jaxlib} made them, and {mine} is installed here"
            return _cannot(Reason.JAXLIB, detail, self._installing(*_jax_of(maker)))
        theirs = int(maker.xla_options or "0", 16)
        ours = (self.here.ask_jaxlib().xla_options if theirs else None) or 0
        apart = (theirs ^ ours).bit_count()
        if theirs and ours and apart > _CLOSE:
            age = "an older" if theirs.bit_length() < ours.bit_length() else "another"
            age = "a newer" if theirs.bit_length() > ours.bit_length() else age
            return _cannot(Reason.JAXLIB, f"{age} jaxlib than the {mine} that is installed here made them")
        if not theirs or not ours or apart or self._is_mended(mine):
            where = f"they come from where {self.manifest.jaxlib} is installed, and " if self.manifest.jaxlib else ""
            return _unknown(Reason.JAXLIB, f"which jaxlib made them is not on record: {where}{mine} is here")
        return None

    def _is_mended(self, mine: str) -> bool:
        """Whether there is another version with the same XLA that may have made what has no record."""
        here, there = numbers(mine), numbers(self.manifest.jaxlib or "")
        if here == there:
            return False
        return len(here) > _RELEASE or (len(there) > _RELEASE and there[:_RELEASE] == here)

    def _cpu(self, maker: Maker) -> Verdict | None:
        if maker.platform != "cpu":
            return None
        made_for = maker.cpu_name or "another CPU"
        if maker.cpu_features is None:
            if self.manifest.host.cpu is not None and self.manifest.host.cpu == self.here.cpu:
                return None
            there, mine = self.manifest.host.cpu or "one that is not known", self.here.cpu or "not known either"
            return _unknown(Reason.CPU, f"they do not name their CPU, which may be {there}; this one is {mine}")
        if not self.here.cpu_features:
            return _unknown(Reason.CPU, "this system does not tell the features of its CPU")
        features = self.here.cpu_features
        lacking, extra, untold = cpu_features.compared(maker.cpu_features, features)
        if untold:
            jaxlib = cpu_features.signed(self.here.ask_jaxlib().cpu_features or ())
            features = {**features, **{name: jaxlib[name] for name in untold if name in jaxlib}}
            lacking, extra, untold = cpu_features.compared(maker.cpu_features, features)
        if lacking:
            danger = "were they loaded, they could kill the program"
            return _cannot(
                Reason.CPU, f"they are made for {made_for} with {_few(lacking)}, which this CPU has not; {danger}"
            )
        if extra:
            return _cannot(Reason.CPU, f"they are made for {made_for} without {_few(extra)}, which this CPU has")
        if untold and (self.manifest.host.cpu is None or self.manifest.host.cpu != self.here.cpu):
            return _unknown(
                Reason.CPU, f"they are made for {made_for} with {_few(untold)}, which this CPU may have or not"
            )
        return None

    def _gpu(self, maker: Maker) -> list[Verdict]:
        if maker.platform not in ("cuda", "rocm") or maker.platform not in self.here.platforms:
            return []
        return [verdict for verdict in (self._device(maker), *self._toolkit(maker)) if verdict is not None]

    def _device(self, maker: Maker) -> Verdict | None:
        wanted, models = maker.compute_capability, ", ".join(sorted({gpu.model for gpu in self.here.gpus}))
        known = {gpu.compute_capability for gpu in self.here.gpus}
        if wanted is None or not known or None in known:
            return _unknown(Reason.GPU, f"whether they are made for the GPUs here ({models or 'unknown'}) is not known")
        if wanted not in known:
            mine = ", ".join(sorted(filter(None, known)))
            return _cannot(Reason.GPU, f"they are made for compute capability {wanted}, and here is {mine} ({models})")
        theirs = set(self.manifest.host.gpus)
        if theirs and not theirs & {gpu.model for gpu in self.here.gpus}:
            return _unknown(Reason.GPU, f"they come from {', '.join(sorted(theirs))}, and here is {models}")
        return None

    def _toolkit(self, maker: Maker) -> list[Verdict]:
        """CUDA's versions: another major one is another build of JAX's plugin; less may be in the key or not."""
        found = []
        abi = dict(maker.abi_version or ())
        for name, title, mine in (("toolkit", "CUDA", self.here.toolkit), ("cudnn", "cuDNN", self.here.cudnn)):
            theirs = abi.get(name)
            if theirs is None:
                continue
            if mine is None:
                found.append(_unknown(Reason.TOOLKIT, f"they are made with {title} {theirs}, and none is known here"))
                continue
            count = 2 if name == "toolkit" else 3  # wheels of a toolkit have patch numbers of their own
            if numbers(theirs)[:count] != numbers(mine)[:count]:
                detail = f"they are made with {title} {theirs}, and here is {mine}"
                alike = numbers(theirs)[:1] == numbers(mine)[:1]
                found.append((_unknown if alike else _cannot)(Reason.TOOLKIT, detail))
        return found

    def _word(self, maker: Maker, codec: str | None) -> Verdict | None:
        """The word for the codec that is in the key."""
        version = self._version(maker)
        if codec is None or version is None or self.here.jaxlib is None:
            return None
        mine, theirs = self.here.compression(version).word, "zlib" if codec == Codec.ZLIB else maker.compression
        if theirs is None and numbers(version) < ZSTD_OF_PYTHON:
            theirs = "zstandard"
        if theirs is not None:
            if theirs == mine:
                return None
            if theirs != "zstandard":
                return _cannot(Reason.COMPRESSION, "they are keyed for JAX without zstandard, which is installed here")
            if self.here.compression(version).codec is Codec.ZSTD:
                return _cannot(Reason.COMPRESSION, "they are keyed for JAX under Python 3.13 or older, with zstandard")
            detail = "they are keyed for JAX with zstandard, which is not installed here"
            return _cannot(Reason.COMPRESSION, detail, self._installing("zstandard"))
        if mine == "zlib":
            detail = "JAX looks for them here only if they were made under Python 3.14 or later, which they do not tell"
            unless = _UNLESS if self.here.compression(version).codec is Codec.ZLIB else _OLDER
            return _unknown(Reason.COMPRESSION, detail)._replace(unless=unless)
        if not self.manifest.jcache:  # a directory that is here
            return None
        if self.manifest.jaxlib is not None:  # who exported them has not made them: that JAX writes zlib
            detail = "JAX looks for them here only if zstandard was installed where they were made, which is not known"
            return _unknown(Reason.COMPRESSION, detail)
        return Verdict(Hit.WILL, unless=_UNLESS)

    def _installing(self, *packages: str) -> str:
        """The command that installs packages for the interpreter here."""
        return shlex.join([self.here.interpreter or "python3", "-m", "pip", "install", *packages])

    def _codec(self, maker: Maker, codec: str | None) -> Verdict | None:
        """The codec itself, of what is looked up."""
        version = self.here.jax or self.here.jaxlib
        if codec is None or version is None or codec == self.here.compression(version).codec:
            return None
        if codec == Codec.ZLIB:
            detail = "they are zlib, which JAX reads under Python 3.13 or older without zstandard, and not here"
            return _cannot(Reason.CODEC, detail)
        if maker.compression == "zlib":
            return _cannot(Reason.CODEC, "they are zstd, which JAX reads under Python 3.14 or later, and not here")
        detail = "they are zstd, which JAX does not read here, without zstandard"
        return _cannot(Reason.CODEC, detail, self._installing("zstandard"))

    def _directory(self, maker: Maker, *, portable: bool) -> Verdict:
        version, keyed = self._version(maker), keyed_for(maker, portable=portable)
        if version is not None and not in_keys(version) and maker.xla_caches is None:
            return Verdict(Hit.WILL)
        keyed = None if keyed is None else spelled(keyed)
        if keyed is None:
            return Verdict(Hit.WILL, Way(None if version is None else Reader.JCACHE, caches=maker.xla_caches))
        way = Way(Reader.PLAIN, keyed, maker.xla_caches)
        if self._leads_here(keyed):
            return Verdict(Hit.WILL, way)
        if not self.is_recorded and Path(keyed).name == DIRECTORY_NAMES[Kind.EXECUTABLES]:
            detail = (
                f"`jcache.enable()` made them in {shown(keyed)} and hits them anywhere, or JAX alone, and they are"
                " keyed for that path; which of them is on nobody's record"
            )
            return Verdict(Hit.UNKNOWN, way, Reason.DIRECTORY, detail)
        detail = f"they are keyed for {shown(keyed)} (jax <= 0.10.2 hashes the directory's path)"
        return Verdict(Hit.CANNOT, way, Reason.DIRECTORY, detail)


def _cannot(reason: Reason, detail: str, remedy: str = "") -> Verdict:
    return Verdict(Hit.CANNOT, Way(), reason, detail, remedy=remedy)


def _jax_of(maker: Maker) -> tuple[str, str]:
    """What pip is to be told to install a maker's jaxlib, and the jax of the same number."""
    toolkit = numbers(dict(maker.abi_version or ()).get("toolkit", ""))
    extra = f"[cuda{toolkit[0]}]" if maker.platform == "cuda" and toolkit else ""
    version = ".".join(map(str, numbers(maker.jaxlib or "")[:_RELEASE]))
    return f"jax{extra}=={version}", f"jaxlib=={version}"


def _unknown(reason: Reason, detail: str) -> Verdict:
    return Verdict(Hit.UNKNOWN, Way(), reason, detail)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
