"""Standard streams that are closed, full or narrow, and terminals of 80 columns."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

from jcache.layout import Kind
from jcache.store.ledger import Known, Ledger
from tests.helpers.command_line import Jcache, Result, call, clean_environment
from tests.helpers.waiting import LIMIT_S

JCACHE = f"'{sys.executable}' -m jcache"


def shell(command: str, **env: str) -> Result:
    result = call(["bash", "-c", command], env=env)
    assert "Traceback" not in result.err + result.out, result
    return result


@pytest.mark.parametrize("command", ["info", "ls", "ls -q", "du", "env", "stats", "completion bash", "--version"])
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(jax_cache: Path, command: str, streams: str) -> None:
    """A closed stream discards all output, and is no failure."""
    assert shell(f"{JCACHE} {command} {streams}", JCACHE_DIR=str(jax_cache)).code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["info", "ls --json", "ls -q", "--version"])
def test_output_that_cannot_be_written(jax_cache: Path, command: str) -> None:
    """Data that is lost is exit 1."""
    assert shell(f"{JCACHE} {command} > /dev/full", JCACHE_DIR=str(jax_cache)).code == 1


@pytest.mark.parametrize("streams", ["2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_the_program_s_exit_code_outlives_our_streams(tmp_path: Path, streams: str) -> None:
    """Whatever happens to the report, `run` returns the program's exit code."""
    assert shell(f"{JCACHE} run --root '{tmp_path}/root' -- sh -c 'exit 4' {streams}").code == 4


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_narrow_encodings(jax_cache: Path, encoding: str) -> None:
    """Characters that an encoding lacks are escaped."""
    for command in ("info", "ls", "du", "prune --keep-last 1 -n"):
        assert shell(f"{JCACHE} {command}", JCACHE_DIR=str(jax_cache), PYTHONIOENCODING=encoding).code == 0


def on_terminal(*arguments: str) -> list[str]:
    """The lines that a terminal of 80 columns shows."""
    import fcntl
    import struct
    import termios

    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    env = clean_environment({"TERM": "xterm", "NO_COLOR": "1"})
    del env["COLUMNS"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jcache", *arguments], stdout=secondary, stderr=secondary, env=env
    )
    os.close(secondary)
    shown = b""
    try:
        while chunk := os.read(primary, 65536):
            shown += chunk
    except OSError:
        pass  # Linux ends a pty with EIO
    os.close(primary)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize("command", [["info"], ["ls"], ["ls", "-v"], ["du"], ["prune", "-n", "--keep-last", "0"]])
def test_tables_keep_their_numbers_in_eighty_columns(jcache: Jcache, cache: Path, command: list[str]) -> None:
    """On 80 columns, only long names are shortened, never a number or a heading."""
    long = cache / ("jit_" + "a_long_name_" * 14 + "-" + "a" * 64 + "-cache")
    long.write_bytes(next(cache.glob("jit_train-*-cache")).read_bytes())
    for i in range(3):
        (cache / f"a file with quite a long name for a file {i}").touch()
    jcache("pin", "jit_convert_element_type", "--root", cache)
    lines = on_terminal(*command, "--root", str(cache))
    table = [line for line in lines if not line.startswith(str(cache)[:20])]
    assert max(map(len, table)) <= 80, table
    cut = [line for line in table if "…" in line and "more" not in line]
    assert all(line.split("…")[0].startswith(("jit_", "unknown files")) for line in cut), cut
    assert not any(line.rstrip().endswith("…") and not line.startswith("unknown files") for line in cut), cut


def test_stats_in_eighty_columns(jcache: Jcache, tmp_path: Path) -> None:
    """The run's name and all its counts are whole."""
    program = ["-c", "import jax, jax.numpy as jnp; jax.jit(jnp.sin)(1.0)"]
    jcache("run", "--root", tmp_path / "root", "--", sys.executable, *program)
    lines = on_terminal("stats", "--root", str(tmp_path / "root"))
    run = jcache("stats", "--root", tmp_path / "root", "--json").json["runs"][0]["id"]
    assert lines[0].split() == ["run", "command", "hits", "stored", "not", "bypassed", "saved"]
    assert lines[2].startswith(run) and len(lines[2]) <= 80


def test_the_ledger_s_damage_is_told_and_pins_are_not_lost_silently(jcache: Jcache, cache: Path) -> None:
    """Pins are kept beside the ledger; while those that it held are not known, nothing is removed."""
    jcache("pin", "jit_train", "--root", cache)
    ledger = cache / ".jcache" / "ledger.sqlite3"
    Ledger(ledger).record([Known(Kind.EXECUTABLES, "jit_f-" + 64 * "0", seconds=1.0)])
    os.truncate(ledger, 5000)
    assert "damaged" in jcache("info", "--root", cache).err
    for _ in range(2):
        assert jcache("prune", "--keep-last", "0", "--root", cache).code == 0
        assert len(list(cache.glob("*-cache"))) == 1
    shutil.rmtree(cache / ".jcache" / "pins")  # as if an older jcache had pinned it
    for _ in range(2):
        refused = jcache("prune", "--keep-last", "0", "--root", cache)
        assert refused.code == 1 and "jcache unpin --all" in refused.err and len(list(cache.glob("*-cache"))) == 1
    assert jcache("unpin", "--all", "--root", cache).code == 0
    assert jcache("prune", "--keep-last", "0", "--root", cache).code == 0
    assert not list(cache.glob("*-cache"))


def test_run_goes_on_without_a_cache(jcache: Jcache, tmp_path: Path) -> None:
    """A cache that the environment names and that cannot be used is a warning; the program runs."""
    for place in ("gs://bucket/x", "/dev/null/x"):
        result = jcache("run", "--", "sh", "-c", "exit 9", env={"JAX_COMPILATION_CACHE_DIR": place})
        assert result.code == 9 and "runs without jcache" in result.err


def test_run_goes_on_without_a_place_to_record(tmp_path: Path) -> None:
    """If no temporary directory can be made, the program runs without a cache and without a report."""
    tool = "import tempfile, sys; tempfile.tempdir = '/dev/null'; sys.argv[1:] = %r; import jcache.__main__"
    arguments = [
        "run",
        "--root",
        str(tmp_path / "root"),
        "--",
        "sh",
        "-c",
        "echo $JAX_ENABLE_COMPILATION_CACHE; exit 9",
    ]
    result = call([sys.executable, "-c", tool % arguments])
    assert (result.code, result.out) == (
        9,
        "false\n",
    ) and "cannot make a temporary directory to record the run" in result.err


def test_run_tells_of_a_cache_of_the_program_s_own(jcache: Jcache, tmp_path: Path) -> None:
    """A program that sets another cache directory is reported."""
    code = "import sys, jax; jax.config.update('jax_compilation_cache_dir', sys.argv[1]); jax.jit(jax.numpy.sin)(1.0)"
    result = jcache("run", "--root", tmp_path / "root", "--", sys.executable, "-c", code, tmp_path / "own")
    assert result.code == 0 and "a cache directory of its own" in result.err


def test_links_in_a_root_are_told_and_not_followed(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """Executables behind a symbolic link are not read, and a warning says so."""
    root = tmp_path / "root"
    jcache("run", "-q", "--root", root, "--", "true")
    (root / "executables").rmdir()
    (root / "executables").symlink_to(jax_cache)
    result = jcache("clear", "--yes", "--root", root)
    assert "symbolic link" in result.err and list(jax_cache.glob("*-cache"))


BAR = """
import os, sys
from jcache.cli import progress
progress._APPEARS_AFTER_S = -1.0  # a bar is for what takes longer than a second
with progress.Bar(sys.argv[1]) as bar:
    os.write(1, b"ready\\n")  # a bar takes what is printed to the terminal
    for line in sys.stdin:
        bar.show(1, 2)
        os.write(1, b"done\\n")
"""


def test_one_bar_on_a_terminal() -> None:
    """If two processes share a terminal, the first one draws its bar, and the other one after that."""
    primary, secondary = pty.openpty()
    env = clean_environment({"TERM": "xterm", "NO_COLOR": "1"})
    both = []
    for name in ("first", "second"):
        process = subprocess.Popen(
            [sys.executable, "-c", BAR, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=secondary,
            env=env, text=True,
        )  # fmt: skip
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
        both.append((process, process.stdin, process.stdout))
    shown = ""
    for (process, say, answer), name in ((both[1], ""), (both[0], "first"), (both[1], "second")):
        say.write("show\n")
        say.flush()
        assert answer.readline() == "done\n"
        while name not in shown:
            assert select([primary], [], [], LIMIT_S)[0], f"{name!r} is not in {shown!r}"
            shown += os.read(primary, 65536).decode()
        if name:
            say.close()
            answer.close()
            assert process.wait(LIMIT_S) == 0
    os.close(primary)
    os.close(secondary)
    assert list(dict.fromkeys(re.findall("first|second", shown))) == ["first", "second"]
