"""`jcache pull`: forecasts, selections, generations and exit codes."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from jcache.layout import Kind
from jcache.remote.client import open_remote
from jcache.remote.names import entry_name
from jcache.store.roots import create_root
from tests.helpers.command_line import PROGRAM, Jcache, clean_environment, keys
from tests.helpers.entries import key
from tests.helpers.imports import check_clean, facts, populated
from tests.helpers.remote_servers import web_server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return populated(tmp_path / "root", count=3).path


@pytest.fixture
def url(jcache: Jcache, root: Path, tmp_path: Path) -> str:
    """A store that a root was pushed to."""
    assert jcache("push", f"file://{tmp_path}/store", "--root", root).code == 0
    return f"file://{tmp_path}/store"


def test_what_it_says(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """A dry run tells what the pull then does, the forecast included, and makes nothing."""
    target = tmp_path / "target"
    dry = jcache("pull", url, "--root", target, "--dry-run")
    assert dry.code == 0 and dry.out.startswith("Would pull 9 entries") and not target.exists()
    assert "3 of 3 executables may hit here or not" in dry.out
    done = jcache("pull", url, "--root", target)
    assert done.code == 0 and done.err == ""
    assert sorted(done.out.splitlines()) == sorted(dry.out.replace("Would pull", "Pulled").splitlines())
    assert done.out.startswith("3 of 3 executables may hit here or not")  # before the first one came, and only once
    check_clean(jcache, target)
    again = jcache("pull", url, "--root", target, "--json")
    assert again.json["entries"]["present"] == 9 and again.json["remote"]["url"] == url


def test_selections(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """Kinds, filters and keys narrow what comes; a key that is not there is an error."""
    target = tmp_path / "target"
    assert jcache("pull", url, key(1), "--root", target, "--json").json["entries"]["new"] == 1
    assert jcache("pull", url, "--kind", "traces", "--root", target, "--json").json["entries"]["new"] == 3
    assert jcache("pull", url, "--filter", "jaxlib=9", "--root", target, "--json").json["entries"]["new"] == 0
    missing = jcache("pull", url, "nothing", "--root", target)
    assert missing.code == 1 and "No entry begins with 'nothing'" in missing.err.replace("\n", " ")
    unknown = jcache("pull", url, "--run", "last", "--root", target)
    assert unknown.code == 1 and "No run is recorded as 'last'" in unknown.err.replace("\n", " ")


def test_damage_in_the_store(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """A damaged object is refused, the rest comes, and the exit code says so."""
    file = tmp_path / "store" / entry_name(Kind.TRACES, "", key(1000))
    file.write_bytes(file.read_bytes()[:-1] + b"\x00\x01"[:1])
    done = jcache("pull", url, "--root", tmp_path / "target")
    assert done.code == 3 and "1 refused" in done.out and "Pulled 8 entries" in done.out


def test_a_generation(jcache: Jcache, root: Path, url: str, tmp_path: Path) -> None:
    """The name of a generation takes its archive, with its checks."""
    assert jcache("push", url, "--as", "night", "--root", root).code == 0
    target = tmp_path / "target"
    done = jcache("pull", "night", "--root", target, env={"JCACHE_REMOTE": url})
    assert done.code == 0 and done.out.startswith("Imported 9 entries")
    assert f"from night of {url}" in done.out.replace("\n", " ")
    some = jcache("pull", url, "night", "--kind", "traces", "--root", tmp_path / "some")
    assert some.code == 2 and "leave out --kind" in some.err.replace("\n", " ") and not (tmp_path / "some").exists()
    file = tmp_path / "store" / "v1" / "generations" / "night.jcache"
    file.write_bytes(file.read_bytes()[:-50])
    torn = jcache("pull", url, "night", "--root", tmp_path / "other")
    assert torn.code == 1 and torn.err.count("\n") <= 3


def test_another_programs_cache(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """A root of another layout takes no entries of JAX's."""
    (tmp_path / ".phasic_cache" / "graphs").mkdir(parents=True)
    (tmp_path / ".phasic_cache" / "graphs" / "x").write_text("x")
    done = jcache("pull", url, "--root", tmp_path / ".phasic_cache")
    assert done.code in (2, 10)


@pytest.mark.full
def test_killed_pullers(jcache: Jcache, tmp_path: Path, chance: Random, full: bool) -> None:
    """Whenever a pull is killed, the root verifies clean, and the next pull adds the rest."""
    root, url = populated(tmp_path / "root", count=60), f"file://{tmp_path}/store"
    assert jcache("push", url, "--root", root.path).code == 0
    for attempt in range(70 if full else 6):
        target = tmp_path / f"target{attempt}"
        command = [sys.executable, "-m", "jcache", "pull", url, "--root", str(target), "-q"]
        child = subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0.2, 1.2))
        child.kill()
        child.communicate()
        if target.exists():
            check_clean(jcache, target)
        assert jcache("pull", url, "--root", target).code == 0
        assert {name: fact.data for name, fact in facts(create_root(target)).items()} == {
            name: fact.data for name, fact in facts(root).items()
        }


@pytest.mark.full
@pytest.mark.jax
@pytest.mark.smoke
def test_a_warm_start_from_a_store(jcache: Jcache, tmp_path: Path) -> None:
    """What one host's run stored, another one pulls, is told that it hits, and hits."""
    here, there = tmp_path / "here", tmp_path / "there"
    with web_server(tmp_path / "web") as server:
        for url in (f"file://{tmp_path}/store", server.url):
            ran = jcache("run", "--root", here, "--", sys.executable, PROGRAM)
            assert ran.code == 0, ran.err
            assert jcache("push", url, "--run", "last", "--root", here).code == 0
        names = keys(here / "executables")
        (space,) = {one.namespace for one in open_remote(f"file://{tmp_path}/store").list(Kind.EXECUTABLES)}
        assert space.endswith("_cpu_cpu") and not space.startswith("unknown")
        pulled = jcache("pull", f"file://{tmp_path}/store", "--root", there)
        assert pulled.code == 0 and f"{len(names)} of {len(names)} executables will hit here" in pulled.out
        warm = jcache("run", "--root", there, "--", sys.executable, PROGRAM)
        assert f"{len(names)} hits, 0 misses" in warm.err
        cold = tmp_path / "cold"
        assert jcache("pull", server.url, *sorted(names), "--root", cold).code == 0
        assert keys(cold / "executables") == names


def test_run_last_pulls_what_it_missed(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """`--run` names a recorded run of the root; a root that is not there has none."""
    done = jcache("pull", f"file://{tmp_path}/store", "--run", "last", "--root", tmp_path / "none")
    assert done.code == 10
