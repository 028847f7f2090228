"""What is known of a machine without JAX, and what is announced of executables by that."""

import os
import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import InvalidValue
from jcache.formats.compression import Codec
from jcache.formats.digest import digest
from jcache.formats.inspection import inspect
from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest import Host, Item, Maker, Manifest
from jcache.shipping.forecast.installation import JaxlibFacts, this_installation
from jcache.shipping.forecast.judge import judge, judge_root
from jcache.shipping.forecast.machine import Gpu, Machine, this_machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import XLA_CACHES, Hit, HitCondition, MissReason, ProgramKind
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from tests.helpers.entries import add, executable, key
from tests.helpers.jax_entries import H200, JaxEntries, cpu_entries_fixture as cpu_entries_fixture

NEW = Path("/no such place/new/executables")
OLD = "/no such place/old"
FEATURES = {"avx2": True, "avx512f": True, "amx-tile": False}
CPU = Maker(platform="cpu", jaxlib="0.10.2", cpu_name="znver4", cpu_features=("+avx2", "+avx512f", "-amx-tile"))
CUDA = Maker(
    platform="cuda", jaxlib="0.11.2", compute_capability="9.0", abi_version=(("cudnn", "9.19.0"), ("toolkit", "13.0.0"))
)
MACHINE = Machine(
    interpreter="/usr/bin/python3", python=(3, 12), jax="0.10.2", jaxlib="0.10.2", cpu="AMD EPYC", cpu_features=FEATURES
)
GPU_MACHINE = replace(
    MACHINE, jax="0.11.2", jaxlib="0.11.2", platforms=frozenset({"cpu", "cuda"}), gpus=(Gpu("NVIDIA H200", "9.0"),),
    toolkit="13.0.96", cudnn="9.19.0.56",
)  # fmt: skip


WORDED = CPU._replace(compression="zstandard")


def item(number: int = 1, *, maker: int | None = 0, kind: Kind = Kind.EXECUTABLES, **more: Any) -> Item:
    return Item(kind, key(number), 100, digest(b""), 1, 1, codec="zstd", maker=maker)._replace(**more)


def manifest(*makers: Maker, **more: Any) -> Manifest:
    """One executable of each maker."""
    items = tuple(item(number, maker=number) for number in range(len(makers)))
    whole = Manifest(jcache="1", root=OLD, directory=OLD, host=Host(cpu="AMD EPYC"), makers=makers, items=items)
    return replace(whole, **more)


def judged(maker: Maker, machine: Machine = MACHINE, **more: Any) -> tuple[Hit, MissReason | None, str]:
    """What is announced of one executable."""
    (verdict,) = judge(manifest(maker, **more), machine, NEW, {}).verdicts.values()
    return verdict.hit, verdict.reason, verdict.detail


def test_only_executables_are_judged() -> None:
    """Traces and graphs are served anywhere, so nothing is said of them."""
    items = tuple(item(number, kind=kind) for number, kind in enumerate(Kind))
    announced = judge(manifest(CPU, items=items), MACHINE, NEW, {})
    assert list(announced.verdicts) == [next(one.key for one in items if one.kind is Kind.EXECUTABLES)]
    nothing = judge(manifest(items=()), MACHINE, NEW, {})
    assert nothing.sentences == () and nothing.verdicts == {}


# -- the directory


@pytest.mark.parametrize(
    ("version", "cache_path", "portable", "expected"),
    [
        ("0.4.35", None, False, (Hit.WILL, HitCondition())),
        ("0.4.36", None, False, (Hit.WILL, HitCondition(ProgramKind.JCACHE))),
        ("0.10.2", None, False, (Hit.WILL, HitCondition(ProgramKind.JCACHE))),
        ("0.10.2", OLD, True, (Hit.WILL, HitCondition(ProgramKind.JCACHE))),
        ("0.10.2", str(NEW), False, (Hit.WILL, HitCondition(ProgramKind.PLAIN, str(NEW)))),
        ("0.10.2", OLD, False, (Hit.CANNOT, HitCondition(ProgramKind.PLAIN, OLD))),
        ("0.10.2", "cache", False, (Hit.CANNOT, HitCondition(ProgramKind.PLAIN, "cache"))),
        ("0.11.0", OLD, False, (Hit.WILL, HitCondition())),
        ("0.12.0.1", OLD, False, (Hit.WILL, HitCondition())),
    ],
)
def test_the_directory(
    version: str, cache_path: str | None, portable: bool, expected: tuple[Hit, HitCondition]
) -> None:
    """Keys have the directory's path in them from jax 0.4.36 to 0.10.2, unless they are portable."""
    machine = replace(MACHINE, jax=version, jaxlib=version)
    maker = Maker(platform="cpu", jaxlib=version, cache_path=cache_path)
    announced = judge(manifest(maker, items=(item(portable=portable),)), machine, NEW, {})
    (verdict,) = announced.verdicts.values()
    assert (verdict.hit, verdict.condition) == expected
    assert verdict.incompatible == (verdict.hit is Hit.CANNOT)


def test_links_that_are_planned_or_there(tmp_path: Path) -> None:
    """What is keyed for a path that leads here, or is about to, hits where JAX is told that path."""
    old, new = tmp_path / "old", tmp_path / "new"
    whole = manifest(CPU._replace(cache_path=str(old)))
    assert judge(whole, MACHINE, new, {}).other_directories == {str(old): 1}
    planned = judge(whole, MACHINE, new, {}, linked=[f"{old}/"])
    old.symlink_to(new)
    for announced in (planned, judge(whole, MACHINE, new, {})):
        assert (
            announced.conditions == {HitCondition(ProgramKind.PLAIN, str(old)): 1} and announced.other_directories == {}
        )
        assert announced.hits(ProgramKind.PLAIN, str(old)) == 1 and announced.hits(ProgramKind.PLAIN) == 0
        assert f"`export JAX_COMPILATION_CACHE_DIR={old}`" in announced.sentences[0]


def test_a_relative_path_that_leads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hits for programs that start where we are, and the command says so."""
    monkeypatch.chdir(tmp_path)
    announced = judge(manifest(WORDED._replace(cache_path="cache")), MACHINE, tmp_path / "cache", {})
    assert announced.conditions == {HitCondition(ProgramKind.PLAIN, "cache"): 1}
    assert f"`cd {tmp_path} && export JAX_COMPILATION_CACHE_DIR=cache`" in announced.sentences[0]
    monkeypatch.chdir("/")
    assert judge(manifest(CPU._replace(cache_path="cache")), MACHINE, tmp_path / "cache", {}).count(Hit.CANNOT) == 1


@pytest.mark.parametrize(("portable", "directory"), [(False, str(NEW)), (True, None)])
def test_other_caches_of_xla(portable: bool, directory: str | None) -> None:
    """Where JAX was told of XLA's caches, their places are in the keys, so that it must be told so again."""
    maker = CPU._replace(cache_path=str(NEW), xla_caches="all")
    announced = judge(manifest(maker, items=(item(portable=portable),)), MACHINE, NEW, {})
    assert list(announced.conditions) == [
        HitCondition(ProgramKind.JCACHE if portable else ProgramKind.PLAIN, directory, "all")
    ]
    assert (
        announced.hits(ProgramKind.PLAIN) == announced.hits(ProgramKind.JCACHE) == 0 and announced.count(Hit.WILL) == 1
    )
    command = "" if portable else f"export JAX_COMPILATION_CACHE_DIR='{NEW}' && "
    assert f"`{command}export JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=all`" in announced.sentences[0]
    moved = judge(manifest(maker._replace(cache_path=OLD)), MACHINE, NEW, {})
    assert "`mkdir -p" in moved.remedies[0] and "ENABLE_XLA_CACHES=all`" in moved.remedies[0]
    later = judge(manifest(maker._replace(jaxlib="0.12.0")), replace(MACHINE, jax="0.12.0", jaxlib="0.12.0"), NEW, {})
    assert list(later.conditions) == [HitCondition(ProgramKind.PLAIN, str(NEW), "all")]


def test_nobodys_record_of_a_roots_directory() -> None:
    """Both what `jcache.enable()` hits anywhere and what is keyed for JAX alone name it; a record tells them apart."""
    maker = CPU._replace(cache_path="/old/root/executables")
    items = (item(1), item(2))
    alone = judge(manifest(maker, items=items), MACHINE, NEW, {})
    assert alone.count(Hit.UNKNOWN) == 2 and not any(verdict.incompatible for verdict in alone.verdicts.values())
    assert "no record says which" in alone.sentences[0] and alone.other_directories == {"/old/root/executables": 2}
    recorded = (items[0]._replace(origin="program", portable=True), items[1])
    beside = judge(manifest(maker, items=recorded), MACHINE, NEW, {})
    assert [beside.count(hit) for hit in Hit] == [1, 1, 0]


# -- the machine


def test_jaxlib() -> None:
    """Another jaxlib never hits; one that is on nobody's record, and that nothing tells, may or may not."""
    assert judged(CPU)[0] is Hit.WILL
    assert judged(CPU._replace(jaxlib="0.10.1")) == (
        Hit.CANNOT, MissReason.JAXLIB, "jaxlib 0.10.1 made them, and 0.10.2 is installed here",
    )  # fmt: skip
    unknown = CPU._replace(jaxlib=None)
    for told in (None, "0.10.2", "0.9.0"):
        assert judged(unknown, jaxlib=told)[:2] == (Hit.UNKNOWN, MissReason.JAXLIB)
        assert "no record says" in judged(unknown, jaxlib=told)[2]


OPTIONS = (1 << 512) + (1 << 100) - 1


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (OPTIONS, Hit.WILL),
        (OPTIONS ^ 1, Hit.UNKNOWN),
        (OPTIONS | 7 << 200, Hit.UNKNOWN),
        (OPTIONS | 15 << 200, "another jaxlib than the 0.10.2 that is installed here made them"),
        (OPTIONS >> 20, "an older jaxlib than the 0.10.2 that is installed here made them"),
        (OPTIONS << 20, "a newer jaxlib than the 0.10.2 that is installed here made them"),
    ],
)
def test_the_options_of_a_jaxlib(theirs: int, expected: Hit | str) -> None:
    """Without a record XLA's options tell whether the jaxlib here made an executable: every release has its own."""
    machine = replace(MACHINE, query_jaxlib=lambda: JaxlibFacts(OPTIONS))
    hit, reason, detail = judged(WORDED._replace(jaxlib=None, xla_options=f"{theirs:x}"), machine, jaxlib="0.9.0")
    if not isinstance(expected, Hit):
        assert (hit, reason, detail) == (Hit.CANNOT, MissReason.JAXLIB, expected)
    else:
        assert hit is expected and reason == (None if hit is Hit.WILL else MissReason.JAXLIB)
    assert judged(CPU._replace(xla_options=f"{theirs:x}"), machine)[0] is Hit.WILL  # it is on record


@pytest.mark.parametrize(
    ("here_", "there", "expected"),
    [
        ("0.12.0", None, Hit.WILL),
        ("0.12.0", "0.12.0.1", Hit.UNKNOWN),
        ("0.12.0", "0.11.0.1", Hit.WILL),
        ("0.12.0.1", None, Hit.UNKNOWN),
        ("0.12.0.1", "0.12.0", Hit.UNKNOWN),
        ("0.12.0.1", "0.12.0.1", Hit.WILL),
    ],
)
def test_a_release_that_was_mended(here_: str, there: str | None, expected: Hit) -> None:
    """Two versions with the same XLA make the same executables, and only who exported them tells which it was."""
    machine = replace(MACHINE, jax=here_, jaxlib=here_, query_jaxlib=lambda: JaxlibFacts(OPTIONS))
    assert judged(WORDED._replace(jaxlib=None, xla_options=f"{OPTIONS:x}"), machine, jaxlib=there)[0] is expected


def test_no_jax() -> None:
    """Without a jaxlib nothing is known but what would be wrong with any; the way out names an interpreter."""
    machine = replace(MACHINE, jax=None, jaxlib=None)
    announced = judge(manifest(CPU, CPU._replace(cache_path=OLD), CUDA), machine, NEW, {})
    assert announced.reasons == {
        (Hit.UNKNOWN, MissReason.NO_JAX): 1,
        (Hit.CANNOT, MissReason.DIRECTORY): 1,
        (Hit.CANNOT, MissReason.PLATFORM): 1,
    }
    assert any("/usr/bin/python3 has no jaxlib" in sentence for sentence in announced.sentences)
    assert any("`export JCACHE_PYTHON=" in sentence for sentence in announced.sentences)
    nothing_known = judge(manifest(Maker()), machine, NEW, {})
    assert nothing_known.count(Hit.UNKNOWN) == 1


def test_platforms() -> None:
    """What is made for a platform that JAX has not here cannot hit."""
    assert judged(CUDA)[1:] == (MissReason.PLATFORM, "they are made for cuda, and JAX has only cpu here")
    assert judged(Maker(platform="tpu", jaxlib="0.10.2"))[:2] == (Hit.CANNOT, MissReason.PLATFORM)
    assert judged(Maker(jaxlib="0.10.2"))[0] is Hit.WILL


def test_features() -> None:
    """The CPU's features are in the keys: one more or one less is a miss, and one less would be dangerous besides."""
    missing = judged(CPU._replace(cpu_features=("+avx2", "+avx512f", "+amx-tile", "+prefer-no-gather")))
    assert missing == (
        Hit.CANNOT, MissReason.CPU,
        "they are made for znver4 with amx-tile, which this CPU lacks; loading them could kill the program",
    )  # fmt: skip
    extra = judged(CPU._replace(cpu_features=("+avx2", "-avx512f", "-amx-tile")))
    assert extra == (Hit.CANNOT, MissReason.CPU, "they are made for znver4 without avx512f, which this CPU has")
    newer = CPU._replace(cpu_features=("+avx2", "+avx512f", "+sha512", "+xsaves", "+prefer-no-scatter", "-movrs"))
    unknown = "they are made for znver4 with sha512, which this CPU may have or not"
    assert judged(newer, host=Host(cpu="A newer one")) == (Hit.UNKNOWN, MissReason.CPU, unknown)
    assert judged(newer)[0] is Hit.WILL  # the archive comes from a machine of the same model
    assert judged(CPU, replace(MACHINE, cpu_features={}))[:2] == (Hit.UNKNOWN, MissReason.CPU)
    middle = replace(MACHINE, jax="0.8.1", jaxlib="0.8.1")
    unsigned = CPU._replace(jaxlib="0.8.1")
    assert judged(unsigned._replace(cpu_features=("avx2", "avx512f")), middle)[0] is Hit.WILL
    assert judged(unsigned._replace(cpu_features=("avx2",)), middle)[:2] == (Hit.CANNOT, MissReason.CPU)


@pytest.mark.parametrize(("answer", "hit"), [("+sha512", Hit.WILL), ("-sha512", Hit.CANNOT), ("+sm3", Hit.UNKNOWN)])
def test_a_feature_that_the_kernel_does_not_show(answer: str, hit: Hit) -> None:
    """The jaxlib is asked whether it compiles for that feature, as on a CPU that is newer than the kernel's tables."""
    newer = CPU._replace(cpu_features=("+avx2", "+avx512f", "+sha512"))
    machine = replace(MACHINE, query_jaxlib=lambda: JaxlibFacts(cpu_features=("+avx2", answer)))
    assert judged(newer, machine, host=Host(cpu="A newer one"))[0] is hit


def test_entries_that_do_not_name_their_cpu() -> None:
    """Up to jax 0.6 the archive's machine is all there is to go by."""
    machine = replace(MACHINE, jax="0.6.2", jaxlib="0.6.2")
    old = Maker(platform="cpu", jaxlib="0.6.2")
    assert judged(old, machine)[0] is Hit.WILL
    assert judged(old, machine, host=Host(cpu="Intel Xeon"))[:2] == (Hit.UNKNOWN, MissReason.CPU)
    assert judged(old, machine, host=Host())[:2] == (Hit.UNKNOWN, MissReason.CPU)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (Hit.WILL, None)),
        ({"gpus": (Gpu("NVIDIA A100-SXM4-80GB", "8.0"),)}, (Hit.CANNOT, MissReason.GPU)),
        ({"gpus": (Gpu("NVIDIA A100-SXM4-80GB", "8.0"), Gpu("NVIDIA H200", "9.0"))}, (Hit.WILL, None)),
        ({"gpus": (Gpu("NVIDIA Next", None),)}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"gpus": ()}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"gpus": (Gpu("NVIDIA H100", "9.0"),)}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"toolkit": "12.9.79"}, (Hit.CANNOT, MissReason.TOOLKIT)),
        ({"toolkit": "13.1.0"}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"toolkit": None}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"cudnn": "9.20.0.1"}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"cudnn": "8.9.0"}, (Hit.CANNOT, MissReason.TOOLKIT)),
        ({"jaxlib": "0.12.0"}, (Hit.CANNOT, MissReason.JAXLIB)),
    ],
)
def test_gpus(changes: dict[str, Any], expected: tuple[Hit, MissReason | None]) -> None:
    """Compute capability and CUDA's versions must be those that an executable was made with."""
    machine = replace(GPU_MACHINE, **changes)
    assert judged(CUDA, machine, host=Host(gpus=("NVIDIA H200",)))[:2] == expected


# -- compression


@pytest.mark.parametrize(
    ("python", "zstandard", "codec", "expected"),
    [
        ((3, 12), True, "zstd", (Hit.WILL, None)),
        ((3, 12), True, "zlib", (Hit.CANNOT, MissReason.COMPRESSION)),
        ((3, 12), False, "zlib", (Hit.WILL, None)),
        ((3, 12), False, "zstd", (Hit.CANNOT, MissReason.CODEC)),
        ((3, 12), False, None, (Hit.WILL, None)),
        ((3, 14), True, "zlib", (Hit.CANNOT, MissReason.CODEC)),
        ((3, 14), True, "zstd", (Hit.UNKNOWN, MissReason.COMPRESSION)),
        ((3, 14), False, None, (Hit.WILL, None)),
    ],
)
def test_compression(
    python: tuple[int, ...], zstandard: bool, codec: str | None, expected: tuple[Hit, MissReason | None]
) -> None:
    """What JAX looks for and can read depends on what it compresses with itself; what it finds and cannot read is to
    be left out.
    """
    machine = replace(MACHINE, python=python, zstandard=zstandard)
    announced = judge(manifest(CPU, items=(item(codec=codec),)), machine, NEW, {})
    (verdict,) = announced.verdicts.values()
    assert (verdict.hit, verdict.reason) == expected
    assert any("--skip-incompatible" in way for way in announced.remedies) == (verdict.reason is MissReason.CODEC)


PYTHONS, WORDS = ((3, 12), (3, 14)), (None, "zstandard", "zlib")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("zstandard", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "zlib"])
@pytest.mark.parametrize("word", WORDS)
def test_a_remedy_works(python: tuple[int, ...], zstandard: bool, codec: str, word: str | None) -> None:
    """Whoever follows the remedy finds that nothing about compression is against the entries any more."""
    machine = replace(MACHINE, python=python, zstandard=zstandard)
    whole = manifest(CPU._replace(compression=word), items=(item(codec=codec),))
    (verdict,) = judge(whole, machine, NEW, {}).verdicts.values()
    if verdict.reason in (MissReason.CODEC, MissReason.COMPRESSION) and verdict.remedy:
        assert verdict.remedy.endswith("install zstandard")
        (after,) = judge(whole, replace(machine, zstandard=True), NEW, {}).verdicts.values()
        assert after.hit is Hit.WILL


def test_a_word_that_nobody_knows() -> None:
    """Python 3.14 may have hashed another word for zstd: that is said, or nothing is promised of such an exporter."""
    (sentence,) = announce(manifest(CPU)).sentences
    assert sentence.endswith(
        ", unless they were made under Python 3.14 or later without zstandard, which they do not record."
    )
    assert announce(manifest(WORDED)).sentences[0].count("unless") == 0
    assert judged(CPU, jaxlib="0.10.2")[:2] == (
        Hit.UNKNOWN,
        MissReason.COMPRESSION,
    )  # its JAX stores zlib, or would say
    older = replace(MACHINE, jax="0.7.0", jaxlib="0.7.0")
    (verdict,) = judge(manifest(CPU._replace(jaxlib="0.7.0")), older, NEW, {}).verdicts.values()
    assert verdict.hit is Hit.WILL and not verdict.unless


@pytest.mark.parametrize(
    ("word", "python", "zstandard", "expected"),
    [
        ("zstandard", (3, 12), True, (Hit.WILL, None)),
        ("zstandard", (3, 12), False, (Hit.CANNOT, MissReason.COMPRESSION)),
        ("zstandard", (3, 14), True, (Hit.CANNOT, MissReason.COMPRESSION)),
        ("zlib", (3, 12), True, (Hit.CANNOT, MissReason.COMPRESSION)),
        ("zlib", (3, 12), False, (Hit.CANNOT, MissReason.CODEC)),
        ("zlib", (3, 14), True, (Hit.WILL, None)),
    ],
)
def test_the_word_of_the_exporter(
    word: str, python: tuple[int, ...], zstandard: bool, expected: tuple[Hit, MissReason | None]
) -> None:
    """Where the exporter's JAX says what it hashes for zstd, it is known which readers look for such entries."""
    machine = replace(MACHINE, python=python, zstandard=zstandard)
    whole = manifest(CPU._replace(compression=word))
    (verdict,) = judge(whole, machine, NEW, {}).verdicts.values()
    assert (verdict.hit, verdict.reason) == expected


def test_what_a_jax_compresses_with() -> None:
    """Python's own zstd comes first from jax 0.7.1 on, and is hashed as zlib."""
    newest = replace(MACHINE, python=(3, 14))
    assert newest.compression("0.7.1") == (Codec.ZSTD, "zlib")
    assert newest.compression("0.7.0") == (Codec.ZSTD, "zstandard")
    assert replace(newest, zstandard=False).compression("0.7.0") == (Codec.ZLIB, "zlib")


# -- sentences


def announce(whole: Manifest, environment: dict[str, str] | None = None, directory: Path = NEW) -> Forecast:
    return judge(whole, MACHINE, directory, environment or {})


def test_the_path_guard() -> None:
    """What is keyed for another path is said in one sentence, with a link and an environment as the ways out."""
    first, link, env = announce(manifest(*[CPU._replace(cache_path=OLD)] * 214)).sentences
    assert first == (
        f"0 of 214 executables can hit at this path: they are keyed for {OLD}"
        " (jax <= 0.10.2 hashes the directory's path)."
    )
    command = f"mkdir -p '/no such place' && ln -s '{NEW}' '{OLD}' && export JAX_COMPILATION_CACHE_DIR='{OLD}'"
    assert f"`{command}`" in link and "lets 214 hit" in link
    assert "`eval \"$(jcache env --root '/no such place/new')\"`" in env


def test_what_can_be_installed() -> None:
    """Of another jaxlib, and of a reader without zstandard, the command is named, if nothing else is in the way."""
    here = replace(MACHINE, interpreter="/usr/bin/python 3")
    python = "'/usr/bin/python 3' -m pip install"

    def last(maker: Maker, machine: Machine = here) -> str:
        return judge(manifest(maker, maker), machine, NEW, {}).sentences[-1]

    older = CPU._replace(jaxlib="0.6.2")
    assert last(older) == f"2 of them can hit after: `{python} jax==0.6.2 jaxlib==0.6.2`."
    cuda = older._replace(platform="cuda", abi_version=(("toolkit", "12.9.0"),))
    assert last(cuda) == "0 of 2 executables can hit here: they are made for cuda, and JAX has only cpu here."
    made = last(cuda, replace(here, platforms=frozenset({"cuda"}), toolkit="12.9.0"))
    assert made == f"2 of them can hit after: `{python} 'jax[cuda12]==0.6.2' jaxlib==0.6.2`."
    without = replace(here, zstandard=False)
    assert last(CPU._replace(compression="zstandard"), without) == f"2 of them can hit after: `{python} zstandard`."
    for maker in (CPU, older._replace(cache_path=OLD), older._replace(compression="zlib")):
        assert "pip" not in " ".join(judge(manifest(maker), here, NEW, {}).sentences)


def test_several_paths_and_relative_ones(tmp_path: Path) -> None:
    """Each old path has a sentence of its own; only where a link can be is one proposed."""
    paths = [OLD, OLD, str(tmp_path), "cache", ".", "gs:/bucket/cache"]
    announced = announce(manifest(*[CPU._replace(cache_path=path) for path in paths], CPU))
    assert announced.other_directories == {OLD: 2, str(tmp_path): 1, ".": 1, "cache": 1, "gs:/bucket/cache": 1}
    sentences = announced.sentences
    assert sum("cannot hit at this path" in sentence for sentence in sentences) == 5
    assert sum("ln -s" in sentence for sentence in sentences) == 1
    assert f"No link can lead from {tmp_path}, where something else is." in sentences
    assert sum("cache is relative" in sentence or ". is relative" in sentence for sentence in sentences) == 2
    assert not any("gs:/bucket/cache is" in sentence for sentence in sentences)


def test_the_environment_counts() -> None:
    """What the environment says of XLA's caches is part of the commands, and unsaid where it is right already."""
    portable, keyed = manifest(WORDED), manifest(WORDED._replace(cache_path=str(NEW)))
    told = {XLA_CACHES: "none", "JAX_COMPILATION_CACHE_DIR": str(NEW)}
    assert announce(portable, told).sentences == ("1 of 1 executable will hit here.",)
    (where,) = announce(portable, {XLA_CACHES: "none"}).sentences
    assert where.startswith("1 of 1 executable will hit here by `jcache run --root '/") and where.endswith("/new')\"`.")
    assert f"`export {XLA_CACHES}=none && eval" in announce(portable, {XLA_CACHES: "all"}).sentences[0]
    assert f"' && unset {XLA_CACHES}`" in announce(keyed, {XLA_CACHES: "none"}).sentences[0]


def test_the_root_in_commands(tmp_path: Path) -> None:
    """The command names the root that the directory is part of, or the directory if it is a root itself."""
    root = create_root(tmp_path / "root")
    plain = tmp_path / "plain" / "executables"
    plain.mkdir(parents=True)
    for directory, named in [(root.directory(Kind.EXECUTABLES), root.path), (plain, plain)]:
        assert f'--root {named})"`' in announce(manifest(CPU), directory=directory).sentences[0]


# -- this machine


@pytest.mark.jax
def test_features_of_real_entries(cpu_entries: JaxEntries) -> None:
    """Every feature that an entry made here names is known to be there, or not, as the entry says."""
    found = inspect(cpu_entries.bytes("jit_named_step"))
    mine = this_machine({}).cpu_features
    if found.cpu_features is None:
        pytest.skip("this jaxlib does not name the features")
    told = {name.lstrip("+-"): not name.startswith("-") for name in found.cpu_features}
    both = told.keys() & mine.keys()
    assert {name: told[name] for name in both} == {name: mine[name] for name in both}
    assert len(both) > 20 or not mine


@pytest.mark.jax
def test_the_options_of_real_entries(cpu_entries: JaxEntries) -> None:
    """Every entry has the options and the CPU's features that jaxlib says, and an H200's has other options."""
    mine, features = this_machine({}).query_jaxlib()
    assert mine
    entries = [inspect(path.read_bytes()) for path in cpu_entries.directory.glob("*-cache")]
    assert {entry.xla_options for entry in entries} == {mine}
    assert {entry.cpu_features for entry in entries} == {features}
    theirs = {inspect(path.read_bytes()).xla_options for path in H200.glob("*-cache")}
    assert len(theirs) == 1 and (theirs == {mine}) == (this_machine({}).jaxlib == "0.11.2")


@pytest.mark.jax
def test_what_is_installed(cpu_entries: JaxEntries) -> None:
    """Versions are those that JAX has, and an entry made here will hit where it was made."""
    code = "import jax, jaxlib; print(jax.__version__, jaxlib.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    machine = this_machine(os.environ)
    assert f"{machine.jax} {machine.jaxlib}\n" == done.stdout
    assert "cpu" in machine.platforms and machine.interpreter == sys.executable
    with closing(Store(open_root(cpu_entries.directory))) as store:
        announced = judge_root(store, machine, {})
    assert announced.hits(ProgramKind.PLAIN) == len(announced.verdicts) > 2


def test_another_interpreter(tmp_path: Path) -> None:
    """The interpreter that is named is asked, without jcache and without importing JAX."""
    site = tmp_path / "site" / "jaxlib-0.6.2.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.6.2+cuda12.cudnn89\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    for machine in (this_machine({"JCACHE_PYTHON": str(python)}), this_installation({"JCACHE_PYTHON": str(python)})):
        assert (machine.jaxlib, machine.jax, machine.zstandard) == ("0.6.2", None, False)
        assert machine.python == tuple(sys.version_info[:3]) and machine.zstd_word is None
        assert machine.query_jaxlib() == JaxlibFacts()  # it has no jaxlib that could be asked


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        ("/no such python", "No such file or directory"),
        ("/etc/passwd", "Permission denied"),
        ("/bin/false", "it ended with exit code 1"),
        ("/bin/true", "it does not answer as one"),
        ("/bin/echo", "it does not answer as one"),
    ],
)
def test_no_interpreter(python: str, reason: str) -> None:
    """What is named and no Python is refused in one sentence, with the way out."""
    expected = f"JCACHE_PYTHON is {python}, which is no Python that can be asked for its JAX ({reason}): name the"
    with pytest.raises(InvalidValue, match=f"^{re.escape(expected)}.*`unset JCACHE_PYTHON`"):
        this_machine({"JCACHE_PYTHON": python})


def test_without_jax_or_numpy() -> None:
    """Judging a root imports neither JAX nor numpy."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom jcache.shipping.forecast.judge import judge_root\n"
        "from jcache.shipping.forecast.machine import this_machine\n"
        "from jcache.store.roots import open_root\nfrom jcache.store.store import Store\n"
        "print(*judge_root(Store(open_root(Path(sys.argv[1]))), this_machine({}), {}).sentences)\n"
        "assert not {'jax', 'jaxlib', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, H200], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 of 3 executables can hit here: they are made for cuda")


def test_damaged_entries_are_left_out(plain: Root) -> None:
    """Nothing is announced of an entry that cannot be read."""
    add(plain.path, key(1), executable())
    add(plain.path, key(2), b"nonsense")
    with closing(Store(plain)) as store:
        assert set(judge_root(store, MACHINE, {}).verdicts) == {key(1)}
