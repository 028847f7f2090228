"""phasic's cache by the command line: as it lies there, with real phasic processes where phasic is installed."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import Jcache, call, clean_environment
from tests.helpers.entries import tree
from tests.helpers.phasic_caches import GRAPH, KEYS, SCC, TAPE, TRACE, make_cache, place, stream_of
from tests.helpers.waiting import LIMIT_S

PROGRAM = Path(__file__).parent.parent / "programs" / "phasic_coalescent.py"
SAMPLES = 6
NEVER = ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "XDG_STATE_HOME", "PHASIC_CACHE_DIR")
needs_phasic = pytest.mark.skipif(importlib.util.find_spec("phasic") is None, reason="phasic is not installed")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a small cache of phasic's in it."""
    make_cache(tmp_path / "home")
    return tmp_path / "home"


def at(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def test_each_command_takes_it(home: Path, jcache: Jcache) -> None:
    """Listing, showing, counting, checking, pinning, pruning and clearing are the same commands with the same exits."""
    root, env = home / ".phasic_cache", at(home)
    info = jcache("info", "--root", root, "--json", env=env).json
    assert info["layout"] == "phasic" and info["kinds"]["traces"]["entries"] == 3
    assert set(jcache("ls", "--root", root, "-q", env=env).out.split()) == KEYS
    assert jcache("ls", "--root", root, "--filter", "name=scc", "-q", env=env).out.split() == [SCC]
    shown = jcache("show", "trace", "--root", root, "--json", env=env).json
    assert shown["content"]["facts"]["vertices"] == 23 and shown["digest_matches_ledger"] is None
    groups = jcache("du", "--root", root, "--json", env=env).json["groups"]
    assert {group["name"]: group["entries"] for group in groups} == {"graph": 2, "trace": 1, "elimination": 1, "scc": 1}
    assert jcache("verify", "--root", root, env=env).code == 0
    assert jcache("pin", GRAPH, "--root", root, env=env).code == 0
    assert jcache("prune", "--root", root, "--max-entries", "2", env=env).code == 0
    assert jcache("clear", "--yes", "--root", root, env=env).code == 0
    assert jcache("ls", "--root", root, "-q", env=env).out.split() == [GRAPH]
    assert {path.name for path in root.iterdir()} - {".jcache"} == {"graphs", "traces", "parameterized_reward_compute"}


def test_programs_of_jaxs_do_not_go_there(home: Path, jcache: Jcache) -> None:
    """`run` and `env` refuse phasic's directory in one sentence, and change nothing."""
    before = tree(home)
    for command in (["run", "--root", home / ".phasic_cache", "--", "true"], ["env", "--root", home / ".phasic_cache"]):
        result = jcache(*command, env=at(home))
        assert result.code == 10 and "is phasic's cache" in result.err and tree(home) == before


def test_a_stream_goes_to_another_home(home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A stream keeps names and bytes in another home; pickles are imported only on request."""
    root, other = home / ".phasic_cache", tmp_path / "other"
    other.mkdir()
    archive = tmp_path / "p.jca"
    assert jcache("export", "--root", root, "-o", archive, env=at(home)).code == 0
    without = jcache("import", archive, "--json", env=at(other))
    assert without.code == 3 and without.json["entries"]["code"] == 1 and without.json["entries"]["new"] == 4
    assert not list((other / ".phasic_cache").rglob("*.pkl"))
    told = jcache("import", archive, env=at(other))
    assert "--allow-pickle" in told.out and told.code == 3
    assert jcache("import", archive, "--allow-pickle", env=at(other)).code == 0
    theirs = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    ours = other / ".phasic_cache"
    assert {path.relative_to(ours): path.read_bytes() for path in ours.rglob("*") if path.is_file()} == theirs
    assert jcache("import", archive, env=at(other)).code == 0  # all is there, and equal
    assert jcache("verify", "--root", ours, env=at(other)).code == 0


def test_a_stream_for_several_places(home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """If phasic looks for its files in two places, the user must name one."""
    archive, elsewhere = tmp_path / "p.jca", tmp_path / "elsewhere"
    assert jcache("export", "--root", home / ".phasic_cache", "-o", archive, env=at(home)).code == 0
    env = at(tmp_path) | {"PHASIC_CACHE_DIR": str(elsewhere)}
    result = jcache("import", archive, env=env)
    assert result.code == 2 and str(elsewhere) in result.err and "with --root" in result.err
    assert jcache("import", archive, "--root", elsewhere, "--allow-pickle", env=env).code == 0
    assert jcache("info", "--json", env=env).json["caches"][0]["root"] == str(elsewhere)


def test_caches_of_two_programs_do_not_mix(home: Path, cache: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A stream of phasic's cache is not imported into a JAX cache, nor the reverse: one sentence, exit 2,
    nothing changed.
    """
    root, phasics, jaxs = home / ".phasic_cache", tmp_path / "p.jca", tmp_path / "j.jca"
    assert jcache("export", "--root", root, "-o", phasics, env=at(home)).code == 0
    assert jcache("export", "--root", cache, "-o", jaxs, env=at(home)).code == 0
    before = tree(root)
    for archive, target in ((phasics, cache), (jaxs, root)):
        result = jcache("import", archive, "--root", target, env=at(home))
        assert result.code == 2 and len(result.err.splitlines()) == 1 and "name another --root" in result.err
    assert tree(root) == before


def test_a_pipe_brings_two_homes_together(home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """Local caches of phasic's are brought together by a pipe, as roots are."""
    other = tmp_path / "other" / ".phasic_cache"
    jcache_here = f"{shlex.quote(sys.executable)} -m jcache"
    pipe = f"{jcache_here} export --root {home}/.phasic_cache | {jcache_here} import --root {other} --allow-pickle -"
    result = call(["bash", "-c", pipe], env=at(home))
    assert result.code == 0, result.err
    assert set(jcache("ls", "--root", other, "-q", env=at(home)).out.split()) == KEYS


def test_what_is_hostile_is_not_imported(home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A manifest may list digests of hostile content, so content is checked, and refused entry by entry."""
    hostile = {
        TRACE: b"\x80\x05\x8c\x02os\x94\x8c\x06system\x94\x93\x8c\x0atouch ownd\x85R.",
        GRAPH: json.dumps(
            {"version": "1", "callback_hash": GRAPH[6:], "graph_data": {"__type__": "os.system"}}
        ).encode(),
        TAPE: b"PTDPRMC3" + bytes(8),
    }
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "h.jca").write_bytes(stream_of(hostile))
    result = jcache("import", tmp_path / "h.jca", "--allow-pickle", "--root", other / ".phasic_cache", env=at(other))
    assert result.code == 1 and result.out.count("  refused ") == 3 and "os.system" in result.out
    assert not [path for path in other.rglob("*") if path.is_file() and ".phasic_cache" in str(path)]


def test_a_tar_of_phasics_is_taken(home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A tar that was packed by hand is checked and imported into phasic's cache, and into no other root."""
    (home / ".phasic_cache" / "notes.txt").write_text("foreign")
    archive, other = tmp_path / "home.tar.gz", tmp_path / "other" / ".phasic_cache"
    subprocess.run(["tar", "-czf", archive, "-C", home.parent, "home"], check=True)
    jaxs = jcache("import", archive, "--root", tmp_path / "native", env=at(home))
    assert jaxs.code == 1 and "they are of phasic's cache: name its directory with --root" in jaxs.err
    without = jcache("import", archive, "--root", other, env=at(home))
    assert without.code == 3 and "Skipped 1 file" in without.out and not list(other.rglob("*.pkl"))
    assert jcache("import", archive, "--root", other, "--allow-pickle", env=at(home)).code == 0
    assert jcache("import", archive, "--root", other, env=at(home)).code == 0  # all is there, and equal
    assert set(jcache("ls", "--root", other, "-q", env=at(home)).out.split()) == KEYS
    assert not (other / "notes.txt").exists()


@pytest.mark.parametrize("how", ["up", "link", "hostile"])
def test_a_hostile_tar_of_phasics_is_refused(how: str, home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """Paths out of the directory and links refuse the whole tar; damage refuses one entry."""
    import tarfile
    from io import BytesIO

    name = f".phasic_cache/traces/{TRACE[6:]}.pkl"
    info = tarfile.TarInfo(f"../{name}" if how == "up" else name)
    if how == "link":
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    data = b"" if how == "link" else b"\x80\x05\x8c\x02os\x94\x8c\x06system\x94\x93)R."
    info.size = len(data)
    with tarfile.open(tmp_path / "h.tar", "w") as tar:
        tar.addfile(info, BytesIO(data))
    other = tmp_path / "other" / ".phasic_cache"
    result = jcache("import", tmp_path / "h.tar", "--root", other, "--allow-pickle", env=at(home))
    assert result.code == 1 and not [path for path in tmp_path.joinpath("other").rglob("*") if path.is_file()]


# -- real phasic processes


def phasic_at(home: Path, *more: str) -> list[str]:
    return [sys.executable, str(PROGRAM), str(SAMPLES), *more]


def environment(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return clean_environment({"HOME": str(home), "PHASIC_REWARD_COMPUTE_CACHE": "1"})


def run_phasic(home: Path) -> dict[str, Any]:
    """Return the output of a phasic process, which must print no warning."""
    done = subprocess.run(phasic_at(home), env=environment(home), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and not done.stderr, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def stamps(home: Path) -> dict[str, tuple[int, int]]:
    """Return the stamps by which unchanged files are recognised."""
    root = home / ".phasic_cache"
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a home that a phasic process has filled, and its output; tests must not change it."""
    home = tmp_path_factory.mktemp("phasic") / "home"
    said = run_phasic(home)
    assert said["time"] == pytest.approx(2 * (1 - 1 / SAMPLES) / 2.0)
    return home, said


@needs_phasic
def test_phasic_hits_what_came_and_makes_what_went(
    filled: tuple[Path, dict[str, Any]], tmp_path: Path, jcache: Jcache
) -> None:
    """After an import into another home, phasic hits every file; files that prune or clear removes are made again."""
    home, said = filled
    there = tmp_path / "there"
    there.mkdir()
    assert jcache("verify", "--root", home / ".phasic_cache", env=at(home)).code == 0
    archive = tmp_path / "p.jca"
    assert jcache("export", "--root", home / ".phasic_cache", "-o", archive, env=at(home)).code == 0
    assert jcache("import", archive, "--allow-pickle", env=at(there)).code == 0
    before = stamps(there)
    assert before.keys() == stamps(home).keys() and len(before) == 3
    assert run_phasic(there) == said and stamps(there) == before
    assert jcache("clear", "graphs", "--yes", "--root", there / ".phasic_cache", env=at(there)).code == 0
    assert run_phasic(there) == said
    after = stamps(there)
    assert {name for name in before if after[name] != before[name]} == {name for name in before if "graphs/" in name}
    arguments = ["prune", "--root", there / ".phasic_cache", "--keep-last", "1"]
    assert jcache(*arguments, env=at(there)).code == 0
    (kept,) = stamps(there)
    assert "graphs/" in kept and run_phasic(there) == said and stamps(there)[kept] == after[kept]
    assert stamps(there).keys() == before.keys()
    assert jcache("verify", "--root", there / ".phasic_cache", env=at(there)).code == 0


@needs_phasic
def test_a_running_phasic_does_not_notice(filled: tuple[Path, dict[str, Any]], tmp_path: Path, jcache: Jcache) -> None:
    """A process that has mapped a tape computes on while verify, prune, import and clear are at work beside it."""
    home, said = filled
    here = tmp_path / "here"
    shutil.copytree(home, here)
    root = here / ".phasic_cache"
    archive = tmp_path / "p.jca"
    assert jcache("export", "--root", root, "-o", archive, env=at(here)).code == 0
    command = phasic_at(here, "wait")
    child = subprocess.Popen(
        command, env=environment(here), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None and json.loads(child.stdout.readline()) == said
        for words in (
            ["verify"], ["prune", "--max-entries", "1"], ["import", str(archive), "--allow-pickle"], ["clear", "--yes"]
        ):  # fmt: skip
            assert jcache(*words, "--root", root, env=at(here)).code == 0
        assert not stamps(here)
        out, err = child.communicate("on\n", timeout=LIMIT_S)
    later = json.loads(out)
    assert child.returncode == 0 and not err
    assert later["times"] == pytest.approx([2 * said["time"], said["time"] / 2])
    assert (later["time"], later["rates"]) == (said["time"], said["rates"])
    assert jcache("verify", "--root", root, env=at(here)).code == 0


@needs_phasic
def test_a_changed_number_is_found_before_phasic_believes_it(
    filled: tuple[Path, dict[str, Any]], tmp_path: Path, jcache: Jcache
) -> None:
    """phasic serves an edited graph; verify finds it, --repair takes it out, and phasic makes the right one again."""
    home, said = filled
    here = tmp_path / "here"
    shutil.copytree(home, here)
    root = here / ".phasic_cache"
    assert jcache("verify", "--root", root, env=at(here)).code == 0
    (graph,) = (root / "graphs").iterdir()
    text = graph.read_text()
    graph.write_text(text.replace("15.0", "55.0", 1))
    shutil.rmtree(root / "traces")
    shutil.rmtree(root / "parameterized_reward_compute")
    assert text != graph.read_text() and run_phasic(here)["time"] != said["time"]
    long_ago = graph.stat().st_mtime_ns - 3600 * 10**9
    os.utime(graph, ns=(long_ago, long_ago))
    assert jcache("verify", "--root", root, env=at(here)).code == 1
    assert jcache("verify", "--root", root, "--repair", "--grace", "0s", env=at(here)).code == 0
    shutil.rmtree(root / "traces")
    shutil.rmtree(root / "parameterized_reward_compute")
    assert run_phasic(here)["time"] == said["time"]


def test_the_file_of_a_key(home: Path) -> None:
    """Return the phasic file that stands for a key of the tests."""
    assert all(place(home / ".phasic_cache", key).is_file() for key in KEYS)
