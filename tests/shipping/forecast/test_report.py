"""The sentences of a forecast say which executables will hit, why the others cannot, and which command helps."""

from dataclasses import replace
from pathlib import Path

from jcache.layout import Kind
from jcache.shipping.archive.manifest import Maker
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.verdict import XLA_CACHES, Hit, MissReason
from jcache.store.roots import create_root
from tests.helpers.forecasts import CPU, CUDA, MACHINE, NEW, OLD, WORDED, announce, manifest


def test_no_jax() -> None:
    """Without a jaxlib, only reasons that hold for any jaxlib are known; the remedy names an interpreter."""
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


def test_the_path_guard() -> None:
    """One sentence reports another path in the keys, with a link and an environment as remedies."""
    first, link, env = announce(manifest(*[CPU._replace(cache_path=OLD)] * 214)).sentences
    assert first == (
        f"0 of 214 executables can hit at this path: they are keyed for {OLD}"
        " (jax <= 0.10.2 hashes the directory's path)."
    )
    command = f"mkdir -p '/no such place' && ln -s '{NEW}' '{OLD}' && export JAX_COMPILATION_CACHE_DIR='{OLD}'"
    assert f"`{command}`" in link and "lets 214 hit" in link
    assert "`eval \"$(jcache env --root '/no such place/new')\"`" in env


def test_what_can_be_installed() -> None:
    """For another jaxlib, and for a missing zstandard, the command is named if nothing else is in the way."""
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
    """Each old path has its own sentence, and a link is proposed only where one is possible."""
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
    """Commands include the setting of XLA's caches, unless the environment already has the right one."""
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
