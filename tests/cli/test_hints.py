"""Commands that messages suggest: each names the root that was given, and can be run as it is."""

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import jcache as package
from jcache.cli.app import COMMANDS
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.text import command
from tests.helpers.command_line import LEGACY, Jcache, clean_environment
from tests.helpers.entries import add, digits, executable, key

SOURCE = Path(package.__file__).parent
OLD = time.time_ns() - 86_400 * 10**9
SOUND = pack_executable(b"\x0aan executable " * 99, 2, Codec.ZSTD)
ROOTLESS = {"completion"}
SUGGESTED = re.compile(r"`(?:eval \"\$\()?(jcache [^`]*?)(?:\)\")?`")
PLACEHOLDERS = {
    "KEY": key(0),
    "SIZE": "1GiB",
    "CMD": "true",
    "python train.py --steps 1": "true",
    "python train.py": "true",
}
JCACHE = f'jcache() {{ "{sys.executable}" -m jcache "$@"; }}\n'


def filled(root: Path) -> None:
    """A plain root with entries that are sound, torn, empty, of old and unfinished, and a bound."""
    for number in range(3):
        add(root, key(number), SOUND, used_ns=OLD, written_ns=OLD)
    for number, data in ((3, SOUND[:-5]), (4, SOUND[:-6]), (5, b"")):
        add(root, key(number), data, written_ns=OLD)
    (root / digits(6)).write_bytes(LEGACY)
    os.utime(root / digits(6), ns=(OLD, OLD))
    (root / ".jcache-tmp-left").touch()
    os.utime(root / ".jcache-tmp-left", ns=(OLD, OLD))


def hints(jcache: Jcache, root: Path, other: Path) -> Iterator[str]:
    """Return the hints that commands print about a root of `filled`, and about a path that is no root."""
    archive, away = other / "archive", other / "away"
    add(other / "cache", key(9), SOUND, written_ns=OLD)
    for words in (
        ["info"], ["info", "--json"], ["info", "--all"], ["show", "nothing"], ["stats"], ["stats", "--run", "last"],
        ["prune"], ["run"], ["warm"], ["verify"], ["info"], ["export", "--run", "last", "-o", archive],
        ["export", "-o", archive], ["export", "-o", other / "none", "--filter", "name=nobody"],
        ["import", other / "cache"], ["verify", "--repair", "--json"],
        ["info"], ["quarantine", "drop", "nothing"], ["quarantine", "restore", "--all"],
        ["quarantine", "restore", key(3)],
    ):  # fmt: skip
        result = jcache(*words, "--root", root, env={"HOME": str(other)})
        yield result.out + result.err
    add(root, key(4), SOUND, written_ns=OLD)
    jcache("export", "-o", archive, "--root", root)
    yield jcache("quarantine", "restore", key(4), "--root", root).err
    add(root, key(0), executable(5), written_ns=OLD)
    add(root, key(1), SOUND[:-1], written_ns=OLD)
    for more in ([], ["--replace"]):
        result = jcache("import", archive, *more, "--root", root, env={"JAX_COMPILATION_CACHE_MAX_SIZE": "9"})
        yield result.out + result.err
    yield jcache("info", "--root", away).err
    away.mkdir()
    yield jcache("info", "--root", away).err


@pytest.mark.full
@pytest.mark.parametrize("name", ["root", "the team's $HOME root", "two\nlines"], ids=["plain", "quotes", "two lines"])
def test_each_hint_works_when_pasted(jcache: Jcache, tmp_path: Path, name: str) -> None:
    """For any directory name, each suggested command works, on the given root and no other."""
    root, other = tmp_path / name, tmp_path / f"other of {name}"
    root.mkdir()
    other.mkdir()
    filled(root)
    text = "\n".join(hints(jcache, root, other)).replace('\\"', '"').replace("\\\\", "\\")
    found = dict.fromkeys(SUGGESTED.findall(text))
    assert len(found) > 15, found
    env = clean_environment({"HOME": str(tmp_path / "home")})
    for suggested in found:
        if suggested.endswith("--help"):
            continue
        assert "--root" in suggested, suggested
        for placeholder, value in PLACEHOLDERS.items():
            suggested = suggested.replace(f" {placeholder}", f" {value}")
        yes = " --yes" if " clear " in suggested else ""
        done = subprocess.run(
            ["bash", "-c", f"{JCACHE}{suggested}{yes}"],
            env=env,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode in (0, 1, 3), (suggested, done.returncode, done.stderr)
        assert {path.name for path in tmp_path.iterdir()} <= {root.name, other.name, "home"}
        assert not (tmp_path / "home").exists(), suggested


def test_a_root_that_a_variable_names_is_made_as_that_says(jcache: Jcache, tmp_path: Path) -> None:
    """The hint for a directory that only JAX's variable names has no --root: by that it would become another kind."""
    env = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    assert "`jcache run -- CMD`" in jcache("info", env=env).err
    assert (
        f"`jcache run --root {tmp_path / 'other'} -- CMD`" in jcache("info", "--root", tmp_path / "other", env=env).err
    )


def test_commands_in_messages_are_made_in_one_place() -> None:
    """No message builds a command by hand: `jcache.text.command` names the root and quotes it."""
    names = "|".join(COMMANDS.keys() - ROOTLESS)
    spelled = re.compile(rf"`jcache (?:{names})\b|jcache (?:{names})\b.*--root")
    found = {
        f"{path.relative_to(SOURCE)}:{text.lineno}"
        for path in SOURCE.rglob("*.py")
        for text in _texts(ast.parse(path.read_text()))
        if spelled.search(str(text.value))
    }
    allowed = {"cli/commands/info.py", "admin/discovery.py"}  # where there is no root at all; and a root by ~
    assert {place for place in found if place.partition(":")[0] not in allowed} == set()


def _texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """The texts of a module but docstrings."""
    nodes = list(ast.walk(tree))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    yield from (n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs)


def test_a_command() -> None:
    """The root comes after the options and before the words of another command, quoted for a shell."""
    assert command("run", "/a b", "-- CMD") == "jcache run --root '/a b' -- CMD"
    assert command("verify --repair", Path("/a\n")) == r"jcache verify --repair --root $'/a\n'"
    assert command("ls", None) == "jcache ls"
