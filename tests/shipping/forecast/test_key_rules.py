"""JAX hits an executable only where its key is made from the same jaxlib, compression and directory."""

from dataclasses import replace
from pathlib import Path

import pytest

from jcache.formats.inspection import inspect
from jcache.shipping.archive.manifest import Maker
from jcache.shipping.forecast.installation import JaxlibFacts
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import this_machine
from jcache.shipping.forecast.verdict import Hit, HitCondition, MissReason, ProgramKind
from tests.helpers.forecasts import CPU, MACHINE, NEW, OLD, WORDED, announce, item, judged, manifest
from tests.helpers.jax_entries import H200, JaxEntries, cpu_entries_fixture as cpu_entries_fixture


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
    """Executables with a path in their keys that leads here, or will, hit if JAX is configured with that path."""
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
    """A relative path that leads here hits for programs that start in the working directory, and the command
    says so.
    """
    monkeypatch.chdir(tmp_path)
    announced = judge(manifest(WORDED._replace(cache_path="cache")), MACHINE, tmp_path / "cache", {})
    assert announced.conditions == {HitCondition(ProgramKind.PLAIN, "cache"): 1}
    assert f"`cd {tmp_path} && export JAX_COMPILATION_CACHE_DIR=cache`" in announced.sentences[0]
    monkeypatch.chdir("/")
    assert judge(manifest(CPU._replace(cache_path="cache")), MACHINE, tmp_path / "cache", {}).count(Hit.CANNOT) == 1


@pytest.mark.parametrize(("portable", "directory"), [(False, str(NEW)), (True, None)])
def test_other_caches_of_xla(portable: bool, directory: str | None) -> None:
    """If JAX had a setting for XLA's caches, their paths are in the keys, so programs need the same setting."""
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
    """Entries that `jcache.enable()` hits anywhere and those of JAX alone name the same directory; only a
    record distinguishes them.
    """
    maker = CPU._replace(cache_path="/old/root/executables")
    items = (item(1), item(2))
    alone = judge(manifest(maker, items=items), MACHINE, NEW, {})
    assert alone.count(Hit.UNKNOWN) == 2 and not any(verdict.incompatible for verdict in alone.verdicts.values())
    assert "no record says which" in alone.sentences[0] and alone.other_directories == {"/old/root/executables": 2}
    recorded = (items[0]._replace(origin="program", portable=True), items[1])
    beside = judge(manifest(maker, items=recorded), MACHINE, NEW, {})
    assert [beside.count(hit) for hit in Hit] == [1, 1, 0]


def test_jaxlib() -> None:
    """An executable of another jaxlib never hits; one without a record and without a sign may hit or not."""
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
    """Without a record, XLA's options tell whether this jaxlib made an executable, since each release has
    other options.
    """
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
    """Two versions with the same XLA make the same executables; only the exporter's version distinguishes them."""
    machine = replace(MACHINE, jax=here_, jaxlib=here_, query_jaxlib=lambda: JaxlibFacts(OPTIONS))
    assert judged(WORDED._replace(jaxlib=None, xla_options=f"{OPTIONS:x}"), machine, jaxlib=there)[0] is expected


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
    """The compression that JAX uses decides which entries it looks up and reads; entries that it finds but
    cannot read are to be left out.
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
    """After the remedy, the compression is no obstacle any more."""
    machine = replace(MACHINE, python=python, zstandard=zstandard)
    whole = manifest(CPU._replace(compression=word), items=(item(codec=codec),))
    (verdict,) = judge(whole, machine, NEW, {}).verdicts.values()
    if verdict.reason in (MissReason.CODEC, MissReason.COMPRESSION) and verdict.remedy:
        assert verdict.remedy.endswith("install zstandard")
        (after,) = judge(whole, replace(machine, zstandard=True), NEW, {}).verdicts.values()
        assert after.hit is Hit.WILL


def test_a_word_that_nobody_knows() -> None:
    """Under Python 3.14, the hashed word for zstd may differ: the verdict says so, or promises nothing."""
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
    """If the exporter's JAX recorded its word for zstd, the verdict is known for each reader."""
    machine = replace(MACHINE, python=python, zstandard=zstandard)
    whole = manifest(CPU._replace(compression=word))
    (verdict,) = judge(whole, machine, NEW, {}).verdicts.values()
    assert (verdict.hit, verdict.reason) == expected


@pytest.mark.jax
def test_the_options_of_real_entries(cpu_entries: JaxEntries) -> None:
    """Real entries have the options and CPU features of their jaxlib; those of an H200 have other options."""
    mine, features = this_machine({}).query_jaxlib()
    assert mine
    entries = [inspect(path.read_bytes()) for path in cpu_entries.directory.glob("*-cache")]
    assert {entry.xla_options for entry in entries} == {mine}
    assert {entry.cpu_features for entry in entries} == {features}
    theirs = {inspect(path.read_bytes()).xla_options for path in H200.glob("*-cache")}
    assert len(theirs) == 1 and (theirs == {mine}) == (this_machine({}).jaxlib == "0.11.2")
