"""phasic's cache: its entries, their facts, and each kind of damage; nothing is executed."""

import json
import os
import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import DamagedEntry
from jcache.findings import Damage
from jcache.layout import Kind
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.store.foreign.phasic import ADAPTER
from jcache.store.foreign.phasic_content import fault_of
from jcache.store.lookup import find_entry
from jcache.store.store import Store
from tests.helpers.entries import SECOND, tree
from tests.helpers.phasic_caches import (
    DATA,
    GRAPH,
    KEYS,
    KINDS,
    OLD_TAPE,
    SCC,
    TAPE,
    TRACE,
    findings,
    make_cache,
    open_cache,
    place,
    stream_of,
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return make_cache(tmp_path)


@pytest.fixture
def store(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    return open_cache(cache, monkeypatch)


def data_of(key: str) -> bytes:
    name = ADAPTER.file_name(KINDS[key], key)
    assert name is not None
    return (DATA / name).read_bytes()


def fault(key: str, data: bytes) -> tuple[Damage, str] | None:
    return fault_of(key, data, quick=False)


# -- names


def test_every_file_of_phasics_is_an_entry(store: Store) -> None:
    """Graphs, traces and tapes are listed, each with a key that leads back to its file's name."""
    assert {entry.key: entry.kind for entry in store.entries()} == KINDS
    for entry in store.entries():
        assert store.path(entry).is_file() and entry.bytes == store.path(entry).stat().st_size


@pytest.mark.parametrize(
    "name",
    [
        "graphs/46f61fbd197200ee2cb241b5bbb8638.json",
        "graphs/46F61FBD197200EE2CB241B5BBB86380.json",
        "graphs/46f61fbd197200ee2cb241b5bbb86380.json~",
        "graphs/sub/46f61fbd197200ee2cb241b5bbb86380.json",
        "46f61fbd197200ee2cb241b5bbb86380.json",
        f"traces/scc_{'0' * 64}.pkl",
        f"parameterized_reward_compute/{'0' * 64}.bin.tmp.12",
        f"../graphs/{'0' * 32}.json",
        "compiled_svgd_0123456789abcdef.pkl",
    ],
)
def test_other_names_are_no_entries(name: str) -> None:
    """A name is an entry's only if phasic itself would write it, in that directory."""
    assert ADAPTER.entry(name) is None


def test_other_files_are_listed_and_never_touched(cache: Path, store: Store) -> None:
    """Notes, work of other tools, links and directories with an entry's name stay through verify, repair and clear."""
    from jcache.store.eviction import everything
    from jcache.verify.repair import repair
    from jcache.verify.result import VerifyRequest
    from jcache.verify.verification import verify

    (cache / "notes.txt").write_text("mine")
    (cache / "pmap_work").mkdir()
    (cache / "compiled_svgd_0123456789abcdef.pkl").write_bytes(b"cos\nsystem\n")
    (cache / "graphs" / "README").write_text("mine")
    (cache / "graphs" / f"{'1' * 32}.json").mkdir()
    (cache / "traces" / "x-cache").write_text("no entry of JAX's")
    before = {path: row for path, row in tree(cache).items() if Path(path).name not in _file_names()}
    verification = verify(store, VerifyRequest(grace_ns=0))
    repaired = repair(store, [f for f in verification.findings if f.key is None], grace_ns=0)
    store.maintenance.execute(everything(store.entries()))
    after = tree(cache)
    assert not repaired and [f.damage for f in verification.findings] == [Damage.NOT_A_FILE]
    assert {path for path in before if Path(path).is_file()} == {path for path in after if Path(path).is_file()}
    names = {neighbour.name for neighbour in store.listing(Kind.GRAPHS).neighbours}
    assert {"notes.txt", "pmap_work", "graphs/README", "compiled_svgd_0123456789abcdef.pkl"} <= names


def _file_names() -> set[str]:
    return {(ADAPTER.file_name(KINDS[key], key) or "").rpartition("/")[2] for key in KEYS}


def test_nothing_of_ours_comes_into_the_tree(cache: Path, store: Store) -> None:
    """Ledger, lock and quarantine lie in the user's state directory, named by the tree's path."""
    names = {str(path.relative_to(cache)) for path in cache.rglob("*")}
    assert not findings(store)
    store.maintenance.remove([find_entry(store, GRAPH)])
    store.close()
    assert {str(path.relative_to(cache)) for path in cache.rglob("*")} == names - {f"graphs/{GRAPH[6:]}.json"}
    (state,) = (cache.parent / "state" / "jcache" / "roots").iterdir()
    assert store.root.state == state and "phasic-cache" in state.name and store.root.ledger.is_file()


# -- what is shown


def test_what_is_shown_of_each(store: Store) -> None:
    """Sizes and settings come from the files themselves."""
    told = {key: ADAPTER.facts(KINDS[key], key, data_of(key)) for key in KEYS}
    assert told[GRAPH]["vertices"] == 23 and told[GRAPH]["called with"] == "theta=2.0"
    assert told[TAPE] == {"format": "PTDPRMC3", "commands": 261, "doubles": 72, "inputs": 48}
    assert told[TRACE]["vertices"] == 23 and told[TRACE]["parameters"] == 2 and "reaches" not in told[TRACE]
    assert ADAPTER.facts(Kind.TRACES, TAPE, OLD_TAPE.read_bytes())["format"] == "PTDPRMC1"


@pytest.mark.parametrize("key", sorted(KEYS - {TRACE}))
def test_what_cannot_be_read_says_so(key: str) -> None:
    """Nonsense is damage, whatever it should have been, and however short."""
    for data in (b"", b"\x80", b"nonsense", b"[" * 200_000):
        assert fault(key, data) is not None
        with pytest.raises(DamagedEntry):
            ADAPTER.facts(KINDS[key], key, data)


def test_a_hostile_pickle_is_shown_by_what_it_reaches(store: Store) -> None:
    """The names in a pickle are shown, and never looked up."""
    facts = ADAPTER.facts(Kind.TRACES, TRACE, pickle.dumps(Calls(os.system, "touch owned"), protocol=5))
    assert facts["reaches"] == "posix.system" and not Path("owned").exists()
    with pytest.raises(DamagedEntry, match="ends before"):
        ADAPTER.facts(Kind.TRACES, TRACE, data_of(TRACE)[:-1])


# -- checks


def test_real_ones_are_sound(store: Store) -> None:
    """Files that phasic wrote, and a tape of the older kind, have no finding."""
    assert not findings(store) and not findings(store)
    assert fault(TAPE, OLD_TAPE.read_bytes()) is None


@pytest.mark.parametrize("key", [GRAPH, TRACE, TAPE, SCC])
def test_every_truncation_is_torn(key: str) -> None:
    """A file that ends too early is torn, wherever it ends."""
    data = data_of(key)
    for length in {*range(0, len(data) - 1, 97), len(data) - 2, len(data) - 1}:
        found = fault(key, data[:length])
        assert found is not None and found[0] is Damage.TORN, (length, found)


# -- pickles


class Calls:
    """Reduces to a call, as a hostile pickle does."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


# -- what only the ledger can tell


def edit(path: Path, old: bytes, new: bytes, *, aside: bool = False) -> None:
    """Change a file in place, or as editors do, which write another file and rename it."""
    data = path.read_bytes()
    assert old in data
    if aside:
        path.with_name("edited").write_bytes(data.replace(old, new, 1))
        os.replace(path.with_name("edited"), path)
    else:
        with path.open("r+b") as file:
            file.seek(data.index(old))
            file.write(new)


@pytest.mark.parametrize("aside", [False, True], ids=["in place", "by rename"])
def test_an_edited_digit_is_found(cache: Path, store: Store, aside: bool) -> None:
    """A number that is another one than at the first verify is found, however the file was edited."""
    assert not findings(store)
    edit(place(cache, GRAPH), b"19.0", b"18.0", aside=aside)
    assert findings(store) == {GRAPH: "changed"}


@pytest.mark.parametrize("aside", [False, True], ids=["in place", "by rename"])
@pytest.mark.parametrize("old_format", [False, True], ids=["pickle", "JSON"])
def test_an_edited_trace_is_found(cache: Path, store: Store, aside: bool, old_format: bool) -> None:
    """A trace as well, in both formats: of the same graph phasic makes the same one."""
    key = TRACE.replace("trace-", "trace_json-") if old_format else TRACE
    path = store.root.place(Kind.TRACES, key)
    if old_format:
        path.write_text('{"n_vertices": 23, "vertex_rates": [1.5, 2.5]}')
    assert not findings(store)
    edit(path, b"1.5" if old_format else b"K\x17", b"1.6" if old_format else b"K\x16", aside=aside)
    assert findings(store) == {key: "changed"}


@pytest.mark.parametrize("aside", [False, True], ids=["in place", "by rename"])
def test_a_flipped_bit_in_a_tape_is_found(cache: Path, store: Store, aside: bool) -> None:
    """A flipped bit in a tape is found even if the tape stays well-formed, or the file is newer: a graph has
    one tape.
    """
    assert not findings(store)
    data = bytearray(data_of(TAPE))
    old = bytes(data[-708:-692])
    data[-700] ^= 4
    assert fault(TAPE, bytes(data)) is None
    edit(place(cache, TAPE), old, bytes(data[-708:-692]), aside=aside)
    assert findings(store) == {TAPE: "changed"}


def test_a_graph_that_phasic_wrote_anew_is_no_damage(cache: Path, store: Store) -> None:
    """A graph that phasic wrote again is no damage: its own time is later than that of the recorded digest."""
    from datetime import datetime

    assert not findings(store)
    path = place(cache, GRAPH)
    value = json.loads(path.read_bytes())
    for behind_ns in (0, 10_000_000):  # a file's time is that of the last tick of the system's clock
        value["created_at"] = datetime.now().isoformat()
        path.write_text(json.dumps(value, indent=2))
        os.utime(path, ns=(0, int(datetime.fromisoformat(value["created_at"]).timestamp() * 1e9) - behind_ns))
        assert not findings(store) and not findings(store)
    edit(path, b"19.0", b"18.0")
    assert findings(store) == {GRAPH: "changed"}


def test_damage_goes_to_quarantine_and_comes_back(cache: Path, store: Store) -> None:
    """Out of phasic's way, by a rename, to the state directory; restored, it is where it was."""
    from jcache.store.quarantine import Quarantine
    from jcache.verify.repair import repair
    from jcache.verify.result import VerifyRequest
    from jcache.verify.verification import verify

    path = place(cache, TAPE)
    torn = path.read_bytes()[:-8]
    path.write_bytes(torn)
    long_ago = path.stat().st_mtime_ns - 3600 * SECOND
    os.utime(path, ns=(long_ago, long_ago))
    (one,) = repair(store, verify(store, VerifyRequest()).findings, grace_ns=60 * SECOND)
    assert one.mended and not path.exists() and not (cache / ".jcache").exists()
    quarantine = Quarantine(store.root)
    (record,) = quarantine.records()
    assert record.key == TAPE and record.file_name == f"parameterized_reward_compute/{TAPE[12:]}.bin"
    store.maintenance.restore(quarantine, record)
    assert path.read_bytes() == torn and path.stat().st_mtime_ns == long_ago


def test_leftovers_of_phasics_own_are_temporary_files(cache: Path, store: Store) -> None:
    """Old temporary files of a killed phasic are found; other files with such endings are not."""
    for name in (f"traces/{'1' * 64}.tmp", f"parameterized_reward_compute/{'2' * 64}.bin.tmp.77", "traces/x.tmp"):
        (cache / name).write_bytes(b"half")
    assert findings(store) == {f"{'1' * 64}.tmp": "temporary", f"{'2' * 64}.bin.tmp.77": "temporary"}


# -- archives


def test_members_have_phasics_own_names() -> None:
    """Members have phasic's own names, so that any tar can list and unpack an archive."""
    data = {key: data_of(key) for key in KEYS}
    reader = open_archive(BytesIO(stream_of(data)))
    assert isinstance(reader, ArchiveReader)
    names = {member.name for member in reader.members()}
    assert names == {ADAPTER.file_name(KINDS[key], key) for key in KEYS}
