"""The command line as a whole: help, imports, the table of commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache import __version__
from jcache.cli.app import COMMANDS
from tests.helpers.command_line import Jcache, clean_environment

RUNS = {
    "info": [], "stats": [], "ls": [], "show": ["jit_train"], "du": ["--by", "device"], "explain": ["jit_train"], "prune": ["--max-size", "50k"],
    "config": [],
    "clear": ["--yes"], "rm": ["jit_train", "--yes"], "pin": ["jit_train"], "unpin": ["jit_train"],
    "run": ["--", sys.executable, "-c", "pass"],
    "warm": ["--", sys.executable, "-c", "pass"],
    "env": [], "dir": [], "completion": ["bash"], "verify": [], "quarantine": [],
    "export": ["-o", os.devnull], "import": ["--help"],
}  # fmt: skip


def test_every_command_is_run_by_a_test() -> None:
    """The table below names every command."""
    assert set(RUNS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_imports_jax_or_numpy(cache: Path, command: str) -> None:
    """No command imports JAX or numpy in its own process."""
    arguments = [command, *RUNS[command]]
    if command != "completion":
        arguments[1:1] = ["--root", str(cache)]
    code = (
        "import sys; from jcache.cli.app import run; code = run(sys.argv[1:]);"
        "heavy = {'jax', 'jaxlib', 'numpy', 'scipy', 'pydantic'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr); sys.exit(bool(heavy) or code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_import_jcache_imports_next_to_nothing() -> None:
    """`import jcache` alone leaves JAX, numpy, typer and rich out."""
    code = "import sys, jcache; print([m for m in ('jax', 'jaxlib', 'numpy', 'typer', 'rich') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(jcache: Jcache, command: str) -> None:
    """Help says what a command does and shows an example of it."""
    result = jcache(command, "--help")
    assert result.code == 0 and "Example:" in result.out and f"jcache {command}" in result.out
    assert "Show this message" in result.out


def test_the_help_lists_all_commands(jcache: Jcache) -> None:
    """`jcache --help` names every command with a line on it."""
    out = jcache("--help").out
    assert all(f" {command} " in out for command in COMMANDS)


def test_version_and_module(jcache: Jcache) -> None:
    """`python -m jcache --version` prints the package's version."""
    assert jcache("--version").out == f"jcache {__version__}\n"


@pytest.mark.parametrize(
    ("shell", "line"), [("sh", "export {}={}"), ("fish", "set -gx {} '{}'"), ("powershell", "$env:{} = '{}'")]
)
def test_env_prints_assignments(jcache: Jcache, jax_cache: Path, shell: str, line: str) -> None:
    """`env` prints what each shell can evaluate."""
    lines = jcache("env", "--root", jax_cache, "--shell", shell).out.splitlines()
    assert line.format("JAX_COMPILATION_CACHE_DIR", jax_cache) in lines


def test_env_is_evaluated_by_a_shell(jcache: Jcache, tmp_path: Path) -> None:
    """A root with blanks and quotes in its path survives `eval "$(jcache env)"`."""
    root = tmp_path / "it's a root"
    command = f'eval "$(\'{sys.executable}\' -m jcache env)"; echo "$JAX_COMPILATION_CACHE_DIR"'
    env = clean_environment({"JCACHE_DIR": str(root)})
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{root}/executables\n"


def test_env_and_the_root_are_one(jcache: Jcache, tmp_path: Path) -> None:
    """In a shell that has evaluated `env`, every command uses the same root as outside, from the first one on."""
    root = tmp_path / "root"
    inside = jcache("env", "--root", root, "--json").json["environment"]
    assert inside["JAX_COMPILATION_CACHE_DIR"] == f"{root}/executables"
    assert jcache("dir", env=inside).out == f"{root}\n"
    (root / "CACHEDIR.TAG").unlink()
    (root / "executables" / ("jit_f-" + "0" * 64 + "-cache")).write_bytes(b"x")
    jcache("run", "-q", "--root", root, "--", "true")
    assert (root / "CACHEDIR.TAG").exists()


def test_dir_prints_a_bare_path(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """`dir` prints the root, or a kind's directory, whether or not it is there yet."""
    assert jcache("dir", "--root", jax_cache).out == f"{jax_cache}\n"
    assert jcache("dir", "executables", "--root", jax_cache).out == f"{jax_cache}\n"
    assert jcache("dir", "traces", "--root", jax_cache).out == f"{jax_cache}/traces-v1\n"
    assert jcache("dir", "executables", "--root", tmp_path / "none").out == f"{tmp_path}/none/executables\n"


def test_no_colour_where_none_is_wanted(jax_cache: Path) -> None:
    """On a terminal NO_COLOR is obeyed; without it there is colour."""
    import pty

    shown = {}
    for name, more in {"plain": {"NO_COLOR": "1"}, "coloured": {}}.items():
        primary, secondary = pty.openpty()
        env = clean_environment({"TERM": "xterm-256color", **more})
        process = subprocess.Popen(
            [sys.executable, "-m", "jcache", "info", "--root", str(jax_cache)], stdout=secondary, env=env
        )
        os.close(secondary)
        shown[name] = b""
        try:
            while chunk := os.read(primary, 4096):
                shown[name] += chunk
        except OSError:
            pass  # Linux ends a pty with EIO
        process.wait()
        os.close(primary)
    assert b"\x1b[3" not in shown["plain"] and b"\x1b[3" in shown["coloured"]
