"""Judges whether executables will be hit here, as far as their keys and bodies tell. Traces and graphs go anywhere.

JAX (0.4.31 to 0.12) looks up an executable under a hash of its program, of XLA's flags and of what is judged here:

    jaxlib       its version. Where no record has it, XLA's options tell it: they are in the entry, and
                 each release has others (of 28 from 0.4.30 to 0.12 no two have the same but 0.12.0 and 0.12.0.1, and
                 those within 0.4, 0.5 and 0.6 are as little as one option apart).
    machine      platform, kind of GPU, CUDA's versions, and the CPU's features: for the CPU they are in every key, and
                 an entry names them from about jax 0.8 on; code for features that a CPU lacks would end the process.
    directory    for 0.4.36 <= jax < 0.11 the string that ``jax_compilation_cache_dir`` is set to, as `pathlib` writes
                 it, not where it leads. Not with ``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none``, which `jcache run`
                 and `jcache env` set, nor under `jcache.enable()`. So there are two kinds of programs (`ProgramKind`).
                 `jcache run` and `jcache.enable()` find what both have stored, JAX without jcache only its own.
    compression  a word, ``zstandard`` or ``zlib``. JAX compresses and reads one codec alone, by what can be imported,
                 whatever the bytes say:

                     reader                         word        codec   stored under "zlib" by another reader
                     zstandard installed            zstandard   zstd    is never looked up
                     no zstandard                   zlib        zlib    zstd (of the next line): found, not readable
                     Python >= 3.14, jax >= 0.7.1   zlib        zstd    zlib (of the line above): found, not readable

                 An entry that is found and not readable costs a warning and a compilation in every process, since JAX
                 never replaces it: it is better left out. An entry stored under ``zstandard`` is never looked up by
                 the other two readers, whatever its codec. Only the exporter knows the word of zstd bytes. Where it
                 did not say, they are taken for the first line's, which holds unless they come from Python >= 3.14.

`machine_rules` judges the machine, `key_rules` the rest. A verdict says what can be known without JAX: the program, its
flags and its jax may still differ.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from jcache.errors import DamagedEntry
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Maker, Manifest
from jcache.shipping.forecast import machine_rules, provenance
from jcache.shipping.forecast.key_rules import KeyRules
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import Hit, HitVerdict, MissReason, jax_spelling
from jcache.store import files
from jcache.store.store import Store

_UNKNOWN_MAKER: Final = Maker()


def judge(
    manifest: Manifest,
    machine: Machine,
    directory: Path,
    environment: Mapping[str, str],
    *,
    linked: Collection[str] = (),
) -> Forecast:
    """Return the forecast for an archive's executables.

    Args:
        manifest: the archive's.
        machine: this machine and its JAX.
        directory: directory of the executables after the import, as ``jax_compilation_cache_dir`` will name it.
        environment: environment of the process.
        linked: directories that will become links to this one; existing links need not be named.
    """
    judging = _Judge(manifest, machine, directory, linked={jax_spelling(path) for path in linked})
    return Forecast(directory=directory, machine=machine, environment=environment, judge=judging.verdicts)


def judge_root(store: Store, machine: Machine, environment: Mapping[str, str]) -> Forecast:
    """Return the forecast for the executables in a root, which may have been copied from elsewhere.

    An executable that does not name its CPU counts as made on this machine. One of a release that was repaired later
    counts as made by the installed version. Damaged entries are left out.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
    contents = provenance.load_contents(store)
    makers: dict[Maker, int] = {}
    items = []
    for entry in store.entries([Kind.EXECUTABLES]):
        record = known.get(entry.key)
        content = contents.get(record.digest or "") if record is not None and record.bytes == entry.bytes else None
        with suppress(DamagedEntry, OSError):
            found = (
                provenance.provenance_of_bytes(files.read(directory / entry.file_name), record)
                if content is None
                else provenance.provenance_of_content(content, record)
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
    """Applies the rules; each gives a verdict where something speaks against a hit."""

    def __init__(self, manifest: Manifest, machine: Machine, directory: Path, *, linked: Collection[str]) -> None:
        self._manifest = manifest
        self._machine = machine
        self._rules = KeyRules(manifest, machine, directory, linked=linked)

    def verdicts(self) -> dict[str, HitVerdict]:
        """Return the verdict on each executable, by its key."""
        known: dict[tuple[int | None, str | None, bool], HitVerdict] = {}  # few among thousands of items
        verdicts = {}
        for item in self._manifest.items:
            if item.kind is Kind.EXECUTABLES:
                alike = item.maker, item.codec, item.portable
                if alike not in known:
                    known[alike] = self._verdict(item)
                verdicts[item.key] = known[alike]
        return verdicts

    def _verdict(self, item: Item) -> HitVerdict:
        """Return the most important verdict: first what nothing can change, then what a link can, then the unknown."""
        maker = _UNKNOWN_MAKER if item.maker is None else self._manifest.makers[item.maker]
        word = self._rules.judge_compression(maker, item.codec)
        unless = "" if word is None else word.unless
        directory = self._rules.judge_directory(maker, portable=item.portable)._replace(unless=unless)
        found = [
            machine_rules.judge_platform(maker, self._machine),
            self._rules.judge_jaxlib(maker),
            machine_rules.judge_cpu(maker, self._manifest.host, self._machine),
            *machine_rules.judge_gpu(maker, self._manifest.host, self._machine),
            word,
            self._rules.judge_codec(maker, item.codec),
            directory,
        ]
        against = [verdict for verdict in found if verdict is not None and verdict.hit is not Hit.WILL]
        verdict = min(against, key=lambda verdict: verdict.hit is Hit.UNKNOWN, default=directory)
        helped = {verdict.reason, MissReason.CODEC} if verdict.reason is MissReason.COMPRESSION else {verdict.reason}
        more = any(other.hit is Hit.CANNOT and other.reason not in helped for other in against)
        is_helped = not more and self._rules.is_keyed_here(maker, portable=item.portable)
        return verdict._replace(remedy=verdict.remedy if is_helped else "", unless=unless)
