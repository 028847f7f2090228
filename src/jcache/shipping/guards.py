"""Whether executables will be hit here, as far as their keys and bodies tell; traces and graphs go anywhere.

JAX (0.4.31 to 0.12) looks an executable up under a hash of its program, of XLA's flags and of what is judged here:

    jaxlib       its version.
    machine      platform, kind of GPU, CUDA's versions, and the CPU's features: for the CPU they are in every key, and
                 an entry names them from about jax 0.8 on; code for features that a CPU lacks would end the process.
    directory    for 0.4.36 <= jax < 0.11 the string that ``jax_compilation_cache_dir`` is set to, as `pathlib` writes
                 it, not where it leads. Not with ``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none``, which `jcache run`
                 and `jcache env` set, nor under `jcache.enable()`. So there are two kinds of programs (`Reader`), and
                 neither finds what the other has stored.
    compression  a word, ``zstandard`` or ``zlib``. JAX compresses and reads one codec alone, by what can be imported,
                 whatever the bytes say:

                     reader                         word        codec   stored under "zlib" by another reader
                     zstandard installed            zstandard   zstd    is never looked up
                     no zstandard                   zlib        zlib    zstd (of the next line): found, not readable
                     Python >= 3.14, jax >= 0.7.1   zlib        zstd    zlib (of the line above): found, not readable

                 What is found and not readable costs a warning and a compilation in every process, since JAX never
                 replaces it. There, and only there, another codec helps (`transcoding`). What is stored under
                 ``zstandard`` is never looked up by the other two, whatever its codec. Of zstd bytes nothing tells
                 the word: they are taken for the first line's, which holds unless they come from Python >= 3.14.

A verdict says what can be known without JAX: the program, its flags and its jax may still be others.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from jcache import files
from jcache.archive.manifest import Item, Maker, Manifest
from jcache.compression import Codec
from jcache.errors import DamagedEntry
from jcache.layout import Kind
from jcache.shipping import provenance
from jcache.shipping.forecast import Forecast, Hit, Reader, Reason, Verdict, Way, spelled
from jcache.shipping.here import Here, Version, numbers
from jcache.store import Store

__all__ = ["Forecast", "Hit", "Reader", "Reason", "Verdict", "Way", "judge", "judge_root"]

_PATH_IN_KEYS: Final = ((0, 4, 36), (0, 11))  # the first version of jax that has it, and the first that no longer has
_NO_FEATURES, _UNSIGNED, _SIGNED = (0, 6, 2), (0, 8, 1), (0, 10, 2)  # versions whose entries for the CPU were looked at
_NONE: Final = Maker()


def judge(
    manifest: Manifest,
    here: Here,
    directory: Path,
    environment: Mapping[str, str],
    *,
    linked: Collection[str] = (),
    transcoded: bool = False,
) -> Forecast:
    """What is to be expected of an archive's executables.

    Args:
        manifest: the archive's.
        here: this machine and its JAX.
        directory: where the executables are to lie, as ``jax_compilation_cache_dir`` will have it.
        environment: of the process.
        linked: directories that are to become links to this one; those that are links already need not be named.
        transcoded: whether those that cannot be read here are to be given another codec.
    """
    known: dict[tuple[int | None, str | None, bool], Verdict] = {}  # thousands of items have a few among them
    verdicts = {}
    judging = _Judging(manifest, here, directory, linked={spelled(path) for path in linked}, transcoded=transcoded)
    for item in manifest.items:
        if item.kind is Kind.EXECUTABLES:
            alike = item.maker, item.codec, item.portable
            if alike not in known:
                known[alike] = judging.verdict(item)
            verdicts[item.key] = known[alike]
    return Forecast(directory=directory, here=here, environment=environment, verdicts=verdicts)


def judge_root(store: Store, here: Here, environment: Mapping[str, str]) -> Forecast:
    """What is to be expected of the executables that lie in a root, one that was copied from elsewhere perhaps.

    Those that do not say for which CPU they were made are taken to be made on this machine. Damaged ones are left out.
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
                    codec=found.codec, portable=found.portable, maker=makers.setdefault(found.maker, len(makers)),
                )
            )  # fmt: skip
    manifest = Manifest(
        jcache="", root=str(store.root.path), directory=str(directory), host=here.host,
        makers=tuple(makers), items=tuple(items),
    )  # fmt: skip
    return judge(manifest, here, directory, environment)


class _Judging:
    """The rules, each of which gives a verdict where it has something against an executable."""

    def __init__(
        self, manifest: Manifest, here: Here, directory: Path, *, linked: Collection[str], transcoded: bool
    ) -> None:
        self.manifest = manifest
        self.here = here
        self.directory = spelled(directory)
        self.linked = linked
        self.transcoded = transcoded

    def verdict(self, item: Item) -> Verdict:
        """What can never be helped comes first, what a link can help comes last, and what is not known after that."""
        maker = _NONE if item.maker is None else self.manifest.makers[item.maker]
        found = [
            self._platform(maker),
            self._jaxlib(maker),
            self._cpu(maker),
            *self._gpu(maker),
            self._codec(maker, item.codec),
            way := self._directory(maker, portable=item.portable),
        ]
        against = [verdict for verdict in found if verdict is not None and verdict.hit is not Hit.WILL]
        return min(against, key=lambda verdict: verdict.hit is Hit.UNKNOWN, default=way)

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
        if maker.jaxlib is not None and numbers(maker.jaxlib) != numbers(mine):
            return _cannot(Reason.JAXLIB, f"jaxlib {maker.jaxlib} made them, and {mine} is installed here")
        if maker.jaxlib is None and (age := _age(maker, numbers(mine))):
            return _cannot(Reason.JAXLIB, f"{age} jaxlib than the {mine} that is installed here made them")
        theirs = self.manifest.jaxlib
        if maker.jaxlib is None and theirs is not None and numbers(theirs) != numbers(mine):
            where = f"they come from where jaxlib {theirs} is installed, and {mine} is here"
            return _unknown(Reason.JAXLIB, f"which jaxlib made them is not on record: {where}")
        return None

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
        lacking, extra = _compared(maker.cpu_features, self.here.cpu_features)
        if lacking:
            danger = "were they loaded, they could kill the program"
            return _cannot(
                Reason.CPU, f"they are made for {made_for} with {_few(lacking)}, which this CPU has not; {danger}"
            )
        if extra:
            return _cannot(Reason.CPU, f"they are made for {made_for} without {_few(extra)}, which this CPU has")
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

    def _codec(self, maker: Maker, codec: str | None) -> Verdict | None:
        version = self._version(maker)
        if codec is None or version is None or self.here.jaxlib is None:
            return None
        mine = self.here.compression(version)
        if codec == Codec.ZLIB:
            if mine.word != "zlib":
                return _cannot(Reason.COMPRESSION, "they are keyed for JAX without zstandard, which is installed here")
            if mine.codec is Codec.ZSTD and not self.transcoded:
                return _cannot(Reason.CODEC, "they are zlib, which JAX does not read here, under Python 3.14 or later")
            return None
        if mine.codec is Codec.ZLIB and not self.transcoded:
            detail = "they are zstd, which JAX cannot read here without zstandard"
            return _cannot(Reason.CODEC, f"{detail}, nor would it look for most such entries")
        if mine.word == "zlib":
            detail = "JAX looks for them here only if they were made under Python 3.14 or later, which they do not tell"
            return _unknown(Reason.COMPRESSION, detail)
        return None

    def _directory(self, maker: Maker, *, portable: bool) -> Verdict:
        version = self._version(maker)
        keyed = spelled(maker.cache_path) if maker.cache_path is not None and not portable else None
        if version is None:
            if keyed in (None, self.directory):
                return Verdict(Hit.WILL)
            return _unknown(Reason.DIRECTORY, f"if jax 0.10.2 or older made them, they are keyed for {keyed}")
        first, end = _PATH_IN_KEYS
        if not first <= numbers(version) < end:
            return Verdict(Hit.WILL)
        if keyed is None:
            return Verdict(Hit.WILL, Way(Reader.JCACHE))
        way = Way(Reader.PLAIN, keyed)
        if keyed == self.directory or keyed in self.linked or _leads(keyed, self.directory):
            return Verdict(Hit.WILL, way)
        detail = f"they are keyed for {keyed} (jax <= 0.10.2 hashes the directory's path)"
        return Verdict(Hit.CANNOT, way, Reason.DIRECTORY, detail)


def _cannot(reason: Reason, detail: str) -> Verdict:
    return Verdict(Hit.CANNOT, Way(), reason, detail)


def _unknown(reason: Reason, detail: str) -> Verdict:
    return Verdict(Hit.UNKNOWN, Way(), reason, detail)


def _age(maker: Maker, jaxlib: Version) -> str | None:
    """Whether an executable for the CPU has not the form that a jaxlib writes: without features, unsigned, signed."""
    if maker.platform != "cpu":
        return None
    features = maker.cpu_features
    if features is None:
        return "an older" if jaxlib >= _UNSIGNED else None
    if all(name[0] not in "+-" for name in features):
        return "an older" if jaxlib >= _SIGNED else "a newer" if jaxlib <= _NO_FEATURES else None
    return "a newer" if jaxlib <= _UNSIGNED else None


def _compared(made_for: Collection[str], here: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Features that an executable needs and this CPU lacks, and the other way round.

    Lists without any ``-`` are of jax <= 0.9 and have no signs: what is not in them was not there.
    """
    wanted = {name.lstrip("+-"): not name.startswith("-") for name in made_for}
    if all(wanted.values()):
        wanted = dict.fromkeys(here, False) | wanted
    differing = [name for name, has in wanted.items() if name in here and here[name] != has]
    return sorted(name for name in differing if wanted[name]), sorted(name for name in differing if not wanted[name])


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _leads(path: str, directory: str) -> bool:
    """Whether a path leads to a directory, by links; the directory need not exist yet."""
    return os.path.isabs(path) and os.path.realpath(path) == os.path.realpath(directory)
