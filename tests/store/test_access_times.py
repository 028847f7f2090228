"""The last use of an entry if only the file system knows it: `jcache.store.access_times`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import jcache as api
from jcache.entry import Entry
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.store import unmoved_reads
from jcache.store.access_times import AHEAD, DAY_NS, NEVER, UNKNOWN, AccessTimes, access_times
from jcache.store.eviction import plan
from jcache.store.listing import SNAPSHOT_FROM
from jcache.store.lookup import find_entry
from jcache.store.policy import Policy, Reason
from jcache.store.store import Store
from tests.helpers.command_line import Jcache, entry_files, run_jax
from tests.helpers.entries import DAY, NOW, SECOND, add, executable, key, xla_program
from tests.helpers.file_systems import keeps_access_times

KIND = Kind.EXECUTABLES
HOUR = 3600 * SECOND
OLD_NS = time.time_ns() - 60 * DAY
PROGRAM = ("-c", "import sys, jax; f = {0}; jax.jit(f)(1.0)")
NOBODY = 65534


def mounts_allowed(place: Path, *options: str) -> bool:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=16m", *options)), "tmpfs", str(place)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[None]:
    """A small file system with options of mount(8)."""
    if not mounts_allowed(place, *options):
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


pytestmark = pytest.mark.usefixtures("access_times_kept")


def entry_of(root: Root, number: int) -> Entry:
    with Store(root) as store:
        return find_entry(store, key(number))


def use(path: Path) -> None:
    """Reads an entry as plain JAX does."""
    path.read_bytes()


def jax_program(cache: Path, name: str) -> set[str]:
    """Runs a JAX program, in whose cache there is one function of a name; returns the keys of that name."""
    program = f"import jax\ndef {name}(x): return x * 2 + 1\nprint(jax.jit({name})(1.0))"
    assert run_jax(cache, program=("-c", program)).code == 0
    return {file for file in entry_files(cache) if file.startswith(f"jit_{name}-")}


def age(cache: Path) -> None:
    for name in entry_files(cache):
        os.utime(cache / name, ns=(OLD_NS, OLD_NS))
        (cache / f"{name.removesuffix('-cache')}-atime").unlink(missing_ok=True)  # of jax <= 0.5.0


LOOKS: dict[str, Sequence[Sequence[str]]] = {
    "nothing": [],
    "looks": [
        ["verify"], ["verify", "--load"], ["ls"], ["ls", "--sort", "seconds"], ["info", "-v"], ["du", "--by", "device"],
        ["prune", "--max-size", "1GiB", "--order", "cost", "--dry-run"],
    ],
}  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("looks", LOOKS)
def test_what_plain_jax_hits_is_kept(jcache: Jcache, tmp_path: Path, looks: str) -> None:
    """`prune --older-than` keeps exactly the entries that an unbounded plain JAX has hit, whatever jcache has read."""
    cache = tmp_path / "cache"
    jax_program(cache, "hit")
    jax_program(cache, "idle")
    age(cache)
    before = {name: (cache / name).stat() for name in entry_files(cache)}
    hit = jax_program(cache, "hit")
    touched = {name for name in before if (cache / name).stat().st_atime_ns > OLD_NS}
    assert hit and hit <= touched < before.keys()
    for command in LOOKS[looks]:
        assert jcache(*command, "--root", cache).code == 0
    if looks != "nothing":
        for name in before:
            assert jcache("show", "--root", cache, name.removesuffix("-cache")).code == 0
        assert jcache("export", "--root", cache, "--output", tmp_path / "a.jca").code == 0
        export = jcache("export", "--root", cache, "--output", tmp_path / "b.jca")  # which knows all by now
        assert export.code == 0
    pruned = jcache("prune", "--root", cache, "--older-than", "30d", "--json")
    assert pruned.code == 0 and "unknown" not in pruned.err
    assert {one["key"] + "-cache" for one in pruned.json["removed"]} == before.keys() - touched
    assert {one["reason"] for one in pruned.json["removed"]} == {"age"}
    assert entry_files(cache).keys() == touched
    assert jcache("verify", "--root", cache).code == 0
    assert jcache("prune", "--root", cache, "--older-than", "30d", "--json").json["removed_entries"] == 0


@pytest.mark.jax
@pytest.mark.parametrize("how", ["run", "enable"])
def test_programs_of_jcache_record_use(jcache: Jcache, tmp_path: Path, how: str) -> None:
    """Under `jcache run` and `enable()`, a hit in an unbounded plain JAX directory is recorded, on noatime as well."""
    place = tmp_path / "mounted"
    with mounted(place, "noatime"):
        cache = place / "cache"
        env = {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        jax_program(cache, "hit")
        jax_program(cache, "idle")
        age(cache)
        enabled = "import jcache; jcache.enable()\n" if how == "enable" else ""
        program = f"{enabled}import jax\ndef hit(x): return x * 2 + 1\nprint(jax.jit(hit)(1.0))"
        command = [sys.executable, "-c", program]
        if how == "run":
            assert jcache("run", "--", *command, env=env).code == 0
        else:
            done = subprocess.run(command, env=os.environ | env | {"JAX_PLATFORMS": "cpu"}, check=False)
            assert done.returncode == 0
        pruned = jcache("prune", "--root", cache, "--older-than", "30d")
        left = entry_files(cache)
        assert any(name.startswith("jit_hit-") for name in left)
        assert not any(name.startswith("jit_idle-") for name in left)
        assert "last use unknown, counted from writing" in pruned.out


def test_of_a_mount_that_keeps_none_the_use_is_unknown(jcache: Jcache, tmp_path: Path) -> None:
    """Under noatime, an entry without a sidecar is counted from its writing, and all commands say so and why."""
    place = tmp_path / "mounted"
    with mounted(place, "noatime"):
        cache = place / "cache"
        path = add(cache, key(1), executable(), written_ns=OLD_NS)
        add(cache, key(2), executable(2), written_ns=OLD_NS, used_ns=OLD_NS + DAY)
        use(path)
        assert entry_of(Root(cache, plain=True), 1).unknown and not entry_of(Root(cache, plain=True), 2).unknown
        shown = jcache("show", "--root", cache, key(1))
        assert "unknown, counted from writing: the file system is mounted with noatime" in shown.out
        listed = jcache("ls", "--root", cache)
        assert "2mo*" in listed.out and "* last use unknown, counted from writing: the file" in listed.err
        assert [one["use_unknown"] for one in jcache("ls", "--root", cache, "--json", "--sort", "name").json["entries"]]
        info = jcache("info", "--root", cache)
        assert "* executables: the last use of 1 entry is unknown, and counted from writing" in info.err
        assert jcache("info", "--root", cache, "--json").json["kinds"]["executables"]["use_unknown"] == 1
        pruned = jcache("prune", "--root", cache, "--older-than", "30d", "--dry-run", "--json")
        assert {one["reason"] for one in pruned.json["removed"]} == {"written", "age"}
        assert "The last use of 1 of 2 entries is unknown, and counted from writing: the file system is" in pruned.err
        unasked = jcache("prune", "--root", cache, "--legacy", "--dry-run")
        assert "unknown" not in unasked.err


@pytest.mark.parametrize("options", [["relatime"], ["strictatime"]], ids=" ".join)
def test_what_the_mount_says(tmp_path: Path, options: list[str]) -> None:
    """Under relatime, the last use may be a day later than the access time; under strictatime, it is not."""
    place = tmp_path / "mounted"
    with mounted(place, *options):
        path = add(place / "cache", key(1), executable(), written_ns=OLD_NS)
        assert entry_of(Root(place / "cache", plain=True), 1).latest_ns == OLD_NS  # nobody has read it
        use(path)
        entry = entry_of(Root(place / "cache", plain=True), 1)
        assert entry.within_ns == (DAY_NS if options == ["relatime"] else 0) and not entry.unknown
        assert entry.recency_ns == path.stat().st_atime_ns > OLD_NS


def test_a_mount_of_another_kind_tells_nothing(tmp_path: Path) -> None:
    """A file system that is remote, unknown or read-only keeps no access times."""
    descriptor = os.open("/proc/self", os.O_RDONLY)
    try:
        times = access_times(descriptor)
    finally:
        os.close(descriptor)
    assert times.within_ns is None and times.why_unknown([UNKNOWN]).endswith(
        "this kind of file system (proc) keeps no reliable access times"
    )
    assert times.used_ns(os.stat(tmp_path)) == UNKNOWN
    with mounted(tmp_path / "mounted", "ro"):
        assert not keeps_access_times(tmp_path / "mounted")


@pytest.mark.parametrize(
    ("accessed", "expected"),
    [
        (NOW - HOUR, NEVER), (NOW, NEVER), (NOW + 1, UNKNOWN), (NOW + HOUR, UNKNOWN), (NOW + 2 * HOUR, None),
        (NOW + 2 * HOUR + 1, NOW + 2 * HOUR + 1), (NOW + DAY, NOW + DAY), (NOW + 400 * DAY, AHEAD),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("before", "known"), [(NOW, UNKNOWN), (NOW + 1, NOW + 1)])
def test_one_access_time(plain: Root, accessed: int, expected: int | None, before: int, known: int) -> None:
    """A time not after the writing is none; in place of one that we have set the one before counts."""
    expected = known if expected is None else expected
    path = add(plain.path, key(1))
    os.utime(path, ns=(accessed, NOW))
    moved = {0: unmoved_reads.Moved(NOW + HOUR, 0), path.stat().st_ino: unmoved_reads.Moved(NOW + 2 * HOUR, before)}
    times = AccessTimes(0, moved, latest_ns=NOW + 2 * DAY)
    assert times.used_ns(path.stat()) == expected


def test_the_reason_is_the_true_one(jcache: Jcache, plain: Root) -> None:
    """The reported reason is the true one, and both are reported if both are true."""
    for number in range(3):
        path = add(plain.path, key(number), executable(number), written_ns=OLD_NS)
        os.utime(path, ns=(time.time_ns() + 400 * DAY, OLD_NS))
    future = "access times lie in the future of this machine's clock"
    for command in (["prune", "--older-than", "1d", "--dry-run"], ["ls"], ["show", key(1)]):
        done = jcache(*command, "--root", plain.path)
        assert future in (done.out + done.err).replace("\n", " ") and "files of other users" not in done.out + done.err
    plain.state.mkdir(exist_ok=True)
    used_ns = time.time_ns() - DAY
    os.utime(path, ns=(used_ns, OLD_NS))
    plain.moved_mark.write_text(f"{path.stat().st_ino} {used_ns} {OLD_NS}\n")
    (notice,) = api.prune(root=plain.path, older_than="1d", dry_run=True).notices
    assert f"access times; {future}" in notice


@pytest.mark.parametrize(
    "text", [b"", b"1", b"a b", b"1 2 3 4", b"\xff" * 100, b"1 " + b"9" * 5000, b"1 2 3\n" * 100_000]
)
def test_what_was_moved_is_input(plain: Root, text: bytes) -> None:
    """Whatever the file of moved access times holds, no command fails."""
    add(plain.path, key(1), executable(), written_ns=OLD_NS)
    plain.state.mkdir()
    plain.moved_mark.write_bytes(text)
    assert len(api.prune(root=plain.path, older_than="30d", dry_run=True).removed) == 1


def test_a_directory_with_the_attribute_keeps_none(jcache: Jcache, tmp_path: Path) -> None:
    """With the attribute of chattr +A, no use is known, and `prune` says so."""
    with mounted(tmp_path / "mounted"):
        cache = tmp_path / "mounted" / "cache"
        cache.mkdir()
        if subprocess.run(["chattr", "+A", cache], capture_output=True, check=False).returncode:
            pytest.skip("chattr +A is not known here")
        add(cache, key(1), executable(), written_ns=OLD_NS)
        pruned = jcache("prune", "--root", cache, "--older-than", "30d", "--json")
        assert [one["reason"] for one in pruned.json["removed"]] == ["written"]
        assert "the directory has the attribute A (chattr)" in pruned.err.replace("\n", " ")


@pytest.mark.parametrize(("hours", "reason"), [(23, Reason.WITHIN), (25, Reason.AGE)])
def test_an_age_is_counted_from_the_latest_use_that_may_have_been(hours: int, reason: Reason) -> None:
    """An age is counted from the latest possible use: a file that was read a day ago may have been used since."""
    one = Entry(KIND, key(1), 10, NOW - 90 * DAY, NOW - 2 * HOUR - hours * HOUR, False, within_ns=DAY)
    decided = plan([one], Policy(max_age_ns=2 * HOUR), now_ns=NOW)
    assert [verdict.reason for verdict in (*decided.kept, *decided.victims)] == [reason]


def test_bounds_go_by_access_times(plain: Root) -> None:
    """The entry that was read last is evicted last, whatever was written last; `prune` and a bounded put agree."""
    for number in range(4):
        add(plain.path, key(number), executable(number), written_ns=OLD_NS + number)
    for number in (2, 0):
        use(plain.path / f"{key(number)}-cache")
        time.sleep(0.02)
    planned = api.prune(root=plain.path, max_entries=2, dry_run=True)
    assert [v.entry.key for v in planned.removed] == [key(1), key(3)]
    size = sum(entry_files(plain.path).values())
    with Store(plain, max_bytes=size) as store:
        store.put(KIND, key(9), executable(9))
    assert not (plain.path / f"{key(1)}-cache").exists() and (plain.path / f"{key(0)}-cache").exists()
    told = (plain.path / f"{key(0)}-atime").read_bytes()  # which a bounded JAX goes by
    assert int.from_bytes(told, "little") == (plain.path / f"{key(0)}-cache").stat().st_atime_ns


def test_what_is_used_meanwhile_stays(plain: Root) -> None:
    """An entry that plain JAX reads between the plan and its execution is kept."""
    path = add(plain.path, key(1), executable(), written_ns=OLD_NS)
    with Store(plain) as store:
        decided = plan(store.entries([KIND], uses=True), Policy(max_age_ns=DAY), now_ns=time.time_ns())
        use(path)
        removal = store.maintenance.execute(decided)
    assert [verdict.reason for verdict in removal.kept] == [Reason.USED_MEANWHILE] and path.exists()


def test_the_last_use_goes_with_an_archive(jcache: Jcache, plain: Root, tmp_path: Path) -> None:
    """An entry keeps its last use when it is exported and imported."""
    path = add(plain.path, key(1), executable(), written_ns=OLD_NS)
    use(path)
    used_ns = path.stat().st_atime_ns
    archive, other = tmp_path / "a.jca", tmp_path / "other"
    assert jcache("export", "--root", plain.path, "--output", archive).code == 0
    assert jcache("import", "--root", other, archive).code == 0
    assert path.stat().st_atime_ns == used_ns
    assert api.prune(root=other, older_than="30d").removed == ()


@pytest.mark.full
def test_a_large_directory_is_looked_at_again(plain: Root) -> None:
    """Uses after a snapshot count where they are needed, and `info` says when it read them."""
    for number in range(SNAPSHOT_FROM):
        add(plain.path, key(number), b"", written_ns=OLD_NS)
    os.utime(plain.path, ns=(OLD_NS, OLD_NS))
    with Store(plain) as store:
        assert store.listing(KIND).accessed_ns is None
        path = plain.path / f"{key(7)}-cache"
        path.write_bytes(executable(7))
        os.utime(path, ns=(OLD_NS, OLD_NS))
        use(path)
        remembered, fresh = store.listing(KIND), store.listing(KIND, uses=True)
        assert remembered.accessed_ns is not None and max(remembered.used()) == OLD_NS
        assert fresh.accessed_ns is None and max(fresh.used()) == path.stat().st_atime_ns
        assert find_entry(store, key(7)).recency_ns == path.stat().st_atime_ns
        assert max(store.listing(KIND).used()) == path.stat().st_atime_ns  # which is remembered now
    assert api.info(plain.path).kinds[KIND].accessed_ns is not None
    assert key(7) not in {v.entry.key for v in api.prune(root=plain.path, older_than="30d", dry_run=True).removed}


WITHOUT = """
import ctypes, os, sys
capabilities, *command = sys.argv[1:]
for capability in capabilities.split(","):
    assert ctypes.CDLL(None, use_errno=True).prctl(24, int(capability), 0, 0, 0) == 0  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "jcache", *command])
"""
FOWNER, DAC = "3", "1,2,3"  # CAP_FOWNER; CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH as well


def without(capabilities: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Runs a command as root who is not root in some things."""
    words = [sys.executable, "-c", WITHOUT, capabilities, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def others(plain: Root) -> Root:
    """Return a root of another user with two entries."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for number in range(2):
        add(plain.path, key(number), executable(number), written_ns=OLD_NS)
    give_away(plain)
    return plain


def give_away(root: Root) -> None:
    for path in (root.path, *root.path.iterdir()):
        os.chown(path, NOBODY, NOBODY)


@pytest.mark.full
@pytest.mark.parametrize("command", [["verify"], ["export"], ["show"], ["du", "--by", "device"]], ids=" ".join)
@pytest.mark.parametrize("many", [False, True], ids=["alone", "in processes"])
def test_where_reading_moves_them_the_root_says_so(others: Root, command: list[str], *, many: bool) -> None:
    """If reading moves access times, the root records until when they are not uses; later ones are."""
    for number in range(100, 190 * many):
        add(
            others.path,
            key(number),
            pack_executable(xla_program(os.urandom(100_000)), 1, Codec.ZLIB),
            written_ns=OLD_NS,
        )
    give_away(others)
    more: dict[str, list[object]] = {"show": [key(0)], "export": ["--output", others.path.with_name("a.jca")]}
    done = without(FOWNER, *command, "--root", others.path, *more.get(command[0], ()))
    assert "Traceback" not in done.stderr and "files of other users" not in done.stderr
    assert others.moved_mark.exists(), done
    looked_at = entry_of(others, 0)
    assert looked_at.unknown and looked_at.recency_ns == OLD_NS
    planned = api.prune(root=others.path, older_than="30d", dry_run=True)
    reasons = {v.entry.key: v.reason for v in planned.removed}
    assert reasons[key(0)] is Reason.WRITTEN
    assert reasons[key(1)] is (Reason.AGE if command == ["show"] else Reason.WRITTEN)
    assert any("jcache has read files of other users here" in notice for notice in planned.notices)
    time.sleep(0.02)
    os.utime(others.path / f"{key(0)}-cache", ns=(time.time_ns(), OLD_NS))  # as plain JAX does, a day later
    assert not entry_of(others, 0).unknown
    assert key(0) not in {v.entry.key for v in api.prune(root=others.path, older_than="30d", dry_run=True).removed}


@pytest.mark.parametrize("command", [["info"], ["info", "-v"], ["show", key(0)]], ids=" ".join)
def test_what_was_not_read_is_as_well_known_as_before(others: Root, command: list[str]) -> None:
    """A colleague's read of one entry says nothing about others, nor about an entry that was hit shortly before."""
    for number in range(2, 6):
        add(others.path, key(number), executable(number), written_ns=OLD_NS)
    for number in range(6):
        if number:
            use(others.path / f"{key(number)}-cache")
    give_away(others)
    done = without(FOWNER, *command, "--root", others.path)
    assert "Traceback" not in done.stderr, done
    planned = api.prune(root=others.path, older_than="30d", dry_run=True)
    assert {v.entry.key for v in planned.removed} == {key(0)}


def test_where_it_cannot_be_said_it_is_told(others: Root) -> None:
    """If the record cannot be written, a message at the end says what the reads did, and what to do instead."""
    done = without(DAC, "show", "--root", others.path, key(1))
    assert done.returncode == 0 and not others.state.exists(), done
    assert "files of other users" in done.stderr and "let the owner of the files run" in done.stderr
