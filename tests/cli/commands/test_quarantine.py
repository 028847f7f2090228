"""`jcache quarantine` as a user has it: list, restore, drop."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jcache.findings import Damage, Finding
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.store.quarantine import Quarantine
from tests.helpers.command_line import Jcache, call, powerless
from tests.helpers.entries import HOLD_LOCK, add, key, process, tree, xla_program

OLD = time.time_ns() - 86_400 * 10**9
SOUND = pack_executable(xla_program(b"an executable " * 99), 2, Codec.ZSTD)
TORN = SOUND[:-5]


@pytest.fixture
def root(tmp_path: Path, jcache: Jcache) -> Path:
    """A root with a sound entry, and three torn ones in quarantine."""
    root = tmp_path / "root"
    add(root, key(0), SOUND, used_ns=OLD, written_ns=OLD)
    for i in (1, 2, 3):
        add(root, key(i), TORN, used_ns=OLD, written_ns=OLD)
    assert jcache("verify", "--repair", "--root", root).code == 0
    return root


def listed(jcache: Jcache, root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = jcache("quarantine", "list", "--json", "--root", root).json["quarantine"]
    return found


def test_list(jcache: Jcache, root: Path) -> None:
    """A table with the ids, a sum, ids alone with -q, and everything that is known as JSON; `list` may be left out."""
    records = listed(jcache, root)
    assert {record["key"] for record in records} == {key(1), key(2), key(3)}
    for record in records:
        assert (record["kind"], record["damage"], record["bytes"]) == ("executables", "torn", len(TORN))
        assert record["digest"] == digest(TORN) and record["quarantined"].endswith("Z") and record["evidence"]
    assert jcache("quarantine", "-q", "--root", root).out.split() == [record["id"] for record in records]
    table = jcache("quarantine", "--root", root)
    assert table.code == 0 and "3 entries" in table.out and all(record["id"] in table.out for record in records)
    verbose = jcache("quarantine", "list", "-v", "--root", root).out
    assert all(record["key"] in verbose and record["evidence"][:20] in verbose for record in records)


def test_an_empty_quarantine(jcache: Jcache, cache: Path) -> None:
    """An empty quarantine is reported without making it, and restoring or dropping all succeeds."""
    before = tree(cache)
    assert jcache("quarantine", "--root", cache).out == "Nothing is in quarantine\n"
    assert jcache("quarantine", "--json", "--root", cache).json["quarantine"] == []
    for action in ("restore", "drop"):
        assert jcache("quarantine", action, "--all", "--root", cache).code == 0
    assert tree(cache) == before


@pytest.mark.parametrize("by", ["id", "key", "beginning"])
def test_restore(jcache: Jcache, root: Path, by: str) -> None:
    """The file is where it was, as it was, with its recency; verify finds it again."""
    record = next(record for record in listed(jcache, root) if record["key"] == key(2))
    which = {"id": record["id"], "key": key(2), "beginning": key(2)[:15]}[by]
    result = jcache("quarantine", "restore", which, "--root", root)
    assert result.code == 0 and f"restored {key(2)}" in result.out
    path = root / f"{key(2)}-cache"
    assert path.read_bytes() == TORN and path.stat().st_mtime_ns == OLD
    assert (root / f"{key(2)}-atime").read_bytes() == OLD.to_bytes(8, "little")
    assert len(listed(jcache, root)) == 2
    assert [f["damage"] for f in jcache("verify", "--json", "--root", root).json["findings"]] == ["torn"]


def test_restore_does_not_overwrite(jcache: Jcache, root: Path) -> None:
    """If JAX has written one entry again, the others are restored with exit 3; if it is the only one, the
    exit code is 1.
    """
    add(root, key(1), SOUND, written_ns=OLD)
    result = jcache("quarantine", "restore", *map(key, (1, 2, 3)), "--root", root)
    assert result.code == 3 and result.out.count("restored") == 2
    assert "exists again" in result.err and len(result.err.splitlines()) == 3  # and that the two are damaged
    assert (root / f"{key(1)}-cache").read_bytes() == SOUND
    alone = jcache("quarantine", "restore", key(1), "--json", "--root", root)
    assert alone.code == 1 and alone.json["restored"] == [] and len(alone.json["failed"]) == 1


@pytest.mark.parametrize("which", [("--all",), ("--older-than", "0s")], ids=" ".join)
def test_what_is_damaged_is_put_back_by_name_only(jcache: Jcache, root: Path, which: tuple[str, ...]) -> None:
    """--all restores sound entries, and names the command that restores a damaged one, with a warning."""
    add(root, key(4), SOUND, used_ns=OLD, written_ns=OLD)
    quarantine = Quarantine(Root(root, plain=True))
    for number, data in ((4, SOUND), (5, TORN)):  # what was replaced may be damaged as well
        path = add(root, key(number), data, used_ns=OLD, written_ns=OLD)
        finding = Finding(
            damage=Damage.REPLACED, path=path, evidence="Other bytes came.", kind=Kind.EXECUTABLES, key=key(number)
        )
        quarantine.take(finding, time.time_ns())
    result = jcache("quarantine", "restore", *which, "--root", root)
    assert result.code == 3 and result.out == f"restored {key(4)}, {len(SOUND)} B\n"
    told = result.err.splitlines()
    assert len(told) == 4 and all("stays in quarantine, since it is damaged: " in line for line in told)
    assert {path.name for path in root.glob("*-cache")} == {f"{key(number)}-cache" for number in (0, 4)}
    again = next(line for line in told if key(2) in line).split("`")[1]
    named = call([sys.executable, "-m", *shlex.split(again)])
    assert named.code == 0 and named.out.startswith(f"restored {key(2)}")
    assert f"warning: {key(2)} was restored although it is damaged: " in named.err
    assert [f["damage"] for f in jcache("verify", "--json", "--root", root).json["findings"]] == ["torn"]
    alone = jcache("quarantine", "restore", *which, "--json", "--root", root)
    assert alone.code == 1 and alone.json["restored"] == [] and len(alone.json["failed"]) == 3


def test_the_size_is_the_file_s(jcache: Jcache, root: Path) -> None:
    """The printed size is that of the file, not the recorded one."""
    place = root / ".jcache" / "quarantine"
    (record,) = [path for path in place.glob("*.json") if key(1) in path.read_text()]
    record.with_suffix(".entry").write_bytes(b"x" * 2048)
    listed = jcache("quarantine", "list", "--json", "--root", root).json["quarantine"]
    assert {one["key"]: one["bytes"] for one in listed}[key(1)] == 2048
    assert jcache("quarantine", "drop", key(1), "--root", root).out == f"dropped {key(1)}, 2.0 KiB\n"


def test_drop(jcache: Jcache, root: Path) -> None:
    """A dropped entry is removed for good; entries in the cache stay."""
    before = {path: what for path, what in tree(root).items() if "/.jcache" not in path}
    value = jcache("quarantine", "drop", key(1), key(1)[:15], "--json", "--root", root).json
    assert [record["key"] for record in value["dropped"]] == [key(1)]
    assert jcache("quarantine", "drop", "--older-than", "1d", "--root", root).out == ""
    assert jcache("quarantine", "drop", "--older-than", "0s", "-q", "--root", root).out == ""
    assert listed(jcache, root) == [] and not os.listdir(root / ".jcache" / "quarantine")
    assert {path: what for path, what in tree(root).items() if "/.jcache" not in path} == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["burn"], 2, "list, restore, drop"),
        (["drop"], 2, "--all"),
        (["restore"], 2, "--older-than"),
        (["drop", "--older-than", "3m"], 2, "3min"),
        (["list", "--older-than", "soon"], 2, "'soon'"),
        (["drop", "jit_nothing"], 1, "jcache quarantine list"),
        (["drop", ""], 1, "jcache quarantine list"),
        (["drop", "jit_"], 1, "3 entries"),
        (["restore", key(1), "jit_nothing"], 1, "jit_nothing"),
        (["drop", "--frobnicate"], 2, "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input(jcache: Jcache, root: Path, arguments: list[str], code: int, says: str) -> None:
    """Bad arguments are one sentence, and nothing is restored or dropped."""
    before = tree(root)
    result = jcache("quarantine", *arguments, "--root", root)
    assert (result.code, result.out, len(result.err.splitlines())) == (code, "", 1) and says in result.err
    assert tree(root) == before


def test_all_and_names_exclude_each_other(jcache: Jcache, root: Path) -> None:
    """Naming one and asking for all is not understood as the one, or as all, without a word."""
    result = jcache("quarantine", "drop", "--all", key(1), "--root", root)
    assert result.code == 2 and len(listed(jcache, root)) == 3


def test_a_held_lock(jcache: Jcache, root: Path) -> None:
    """Restoring waits for the lock and gives up with exit 11; dropping needs none."""
    with process(HOLD_LOCK, root):
        env = {"JCACHE_LOCK_TIMEOUT": "0.3s"}
        assert jcache("quarantine", "restore", key(1), "--root", root, env=env).code == 11
        assert jcache("quarantine", "drop", key(2), "--root", root, env=env).code == 0
    assert {record["key"] for record in listed(jcache, root)} == {key(1), key(3)}


def test_a_read_only_root(root: Path) -> None:
    """A quarantine in a read-only root can be listed; restoring and dropping say why they fail, and nothing is lost."""

    def content(path: Path) -> dict[str, tuple[int, int, bytes]]:  # without times: old filelock truncates what it locks
        return {name: (mode, inode, data) for name, (mode, inode, _, data) in tree(path).items()}

    prefix = powerless()
    places = [root, root / ".jcache", root / ".jcache" / "quarantine"]
    for place in places:
        place.chmod(0o555)
    try:
        before = content(root)
        command = [*prefix, sys.executable, "-m", "jcache", "quarantine"]
        assert call([*command, "list", "--root", str(root)]).code == 0
        for action, which in (("restore", [key(1)]), ("drop", ["--all"])):
            result = call([*command, action, *which, "--root", str(root)])
            assert result.code == 1 and "ermission denied" in result.err and "Traceback" not in result.err
        assert content(root) == before
    finally:
        for place in places:
            place.chmod(0o755)


def test_what_is_in_quarantine_is_counted(jcache: Jcache, root: Path) -> None:
    """`jcache info` shows how many there are, and that no JAX process is disturbed by them."""
    assert jcache("info", "--json", "--root", root).json["neighbours"]["quarantine"]["files"] == 3
    assert "quarantine" in jcache("info", "--root", root).out


@pytest.mark.full
def test_ids_of_drop_are_completed_by_xargs(root: Path) -> None:
    """`jcache quarantine -q | xargs jcache quarantine drop` empties it."""
    command = f"'{sys.executable}' -m jcache quarantine"
    line = f"{command} -q --root '{root}' | xargs {command} drop --root '{root}'"
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=False).returncode == 0
    assert not os.listdir(root / ".jcache" / "quarantine")


def test_replace_is_for_restore(jcache: Jcache, root: Path) -> None:
    """An entry whose key is there again changes places with it on request; nothing else replaces anything."""
    add(root, key(1), SOUND, written_ns=OLD)
    assert jcache("quarantine", "drop", key(1), "--replace", "--root", root).code == 2
    refused = jcache("quarantine", "restore", key(1), "--root", root)
    assert refused.code == 1 and "restore --replace" in refused.err
    assert jcache("quarantine", "restore", key(1), "--replace", "--root", root).code == 0
    assert (root / f"{key(1)}-cache").read_bytes() == TORN
    assert [r["bytes"] for r in listed(jcache, root) if r["key"] == key(1)] == [len(SOUND)]
