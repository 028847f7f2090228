"""Directories of other programs: a second adapter is one more class, and every engine and command works with it."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from jcache.admin.api import clear, info, prune
from jcache.errors import DamagedEntry, InvalidValue, NoCacheHere
from jcache.findings import Damage, Fault
from jcache.layout import Kind, Root
from jcache.store import foreign
from jcache.store.foreign import Adapter, adapter_of, state_of
from jcache.store.lookup import find_entry
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from jcache.verify.repair import repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import NOW, tree

HOUR: Final = 3600 * 10**9


class Toy(Adapter):
    """A toy adapter: notes, each a text file that begins with its own name."""

    name = "toy"
    title = "a box of notes"
    directories = ("notes",)

    def places(self, environment: Mapping[str, str]) -> list[str]:
        return [environment.get("TOY_DIR", "~/.toy")]

    def recognises(self, path: Path) -> bool:
        return (path / "notes").is_dir()

    def entry(self, file_name: str) -> tuple[Kind, str] | None:
        stem = file_name.removeprefix("notes/").removesuffix(".note")
        whole = file_name == f"notes/{stem}.note" and len(stem) == 8 and not stem.strip("0123456789abcdef")
        return (Kind.GRAPHS, f"note-{stem}") if whole else None

    def file_name(self, kind: Kind, key: str) -> str | None:
        name = f"notes/{key.removeprefix('note-')}.note"
        return name if self.entry(name) == (kind, key) else None

    def is_temporary(self, file_name: str) -> bool:
        return file_name.endswith(".part")

    def fault(self, kind: Kind, key: str, data: bytes, *, quick: bool) -> Fault | None:
        if data.startswith(key.encode()):
            return None
        return Fault(Damage.NAME, "It is somebody else's.")

    def facts(self, kind: Kind, key: str, data: bytes) -> dict[str, object]:
        if not data:
            raise DamagedEntry("Nothing is noted.")
        return {"words": len(data.split())}

    def written_ns(self, kind: Kind, key: str, data: bytes) -> int | None:
        return None

    def is_code(self, kind: Kind, key: str) -> bool:
        return False


ADAPTER = Toy()
KEYS: Final = [f"note-{number:08x}" for number in range(4)]


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The toy is one more module in the table."""
    monkeypatch.setattr(foreign, "MODULES", [*foreign.MODULES, __name__])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def fill(path: Path) -> Path:
    (path / "notes").mkdir(parents=True, exist_ok=True)
    for number, key in enumerate(KEYS):
        note = path / "notes" / f"{key[5:]}.note"
        note.write_text(f"{key}: buy milk" + "!" * 100 * number)
        os.utime(note, ns=(NOW, NOW + number * HOUR))
    (path / "notes" / "shopping list.txt").write_text("foreign")
    (path / "README").write_text("foreign")
    return path


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return fill(tmp_path / "box")


@pytest.fixture
def store(box: Path) -> Iterator[Store]:
    with Store(open_root(box)) as store:
        yield store


def test_an_adapter_makes_a_root(box: Path, tmp_path: Path) -> None:
    """A directory that an adapter recognises is a root, whose state lies elsewhere; other directories are
    unaffected.
    """
    root = open_root(box)
    assert adapter_of(box) is ADAPTER and root.adapter is ADAPTER and root.layout.name == "toy"
    assert root.state == state_of(box) and not root.state.is_relative_to(box)
    assert root.place(Kind.GRAPHS, KEYS[0]) == box / "notes" / "00000000.note"
    assert (
        create_root(tmp_path / "native").adapter is None and create_root(tmp_path / "jax", plain=True).adapter is None
    )
    with pytest.raises(InvalidValue, match="none of a box of notes's graphs"):
        root.place(Kind.GRAPHS, "note-../../x")


def test_two_trees_have_two_states(box: Path, tmp_path: Path) -> None:
    """The state of a directory is found by its path, with links followed."""
    (tmp_path / "link").symlink_to(box)
    assert state_of(tmp_path / "link") == state_of(box) != state_of(tmp_path / "box2")


def test_nothing_of_jaxs_goes_there(box: Path) -> None:
    """A program's cache cannot be put into another program's directory."""
    before = tree(box)
    with pytest.raises(NoCacheHere, match="is a box of notes: jcache administers it"):
        create_root(box)
    assert tree(box) == before


def test_info_counts_it(box: Path) -> None:
    """Entries, bytes and foreign files are counted, and nothing is changed."""
    before = tree(box)
    census = info(box)
    assert census.kinds[Kind.GRAPHS].entries == 4 and census.kinds[Kind.TRACES].entries == 0
    assert set(census.neighbours["unknown"].names) == {"README", "notes/shopping list.txt"}
    assert census.total_bytes == sum(path.stat().st_size for path in box.rglob("*") if path.is_file())
    assert census.health.startswith("ok (") and tree(box) == before


def test_find_by_beginnings_and_file_names(store: Store) -> None:
    """An entry is found by its key, its hash, or its file's name."""
    for text in (KEYS[3], "00000003", "00000003.note", "notes/00000003.note"):
        assert find_entry(store, text).key == KEYS[3]


def test_verify_repair_and_restore(box: Path, store: Store) -> None:
    """Damage is found by the adapter, goes out of the tree, and comes back; foreign files stay as they are."""
    note, others = box / "notes" / "00000001.note", tree(box / "notes" / "shopping list.txt")
    assert not verify(store, VerifyRequest()).findings
    note.write_text("somebody else's")
    os.utime(note, ns=(NOW, NOW))
    (finding,) = verify(store, VerifyRequest()).findings
    assert finding.damage is Damage.NAME
    (one,) = repair(store, [finding], grace_ns=0)
    assert one.mended and not note.exists() and tree(box / "notes" / "shopping list.txt") == others
    (record,) = Quarantine(store.root).records()
    store.maintenance.restore(Quarantine(store.root), record)
    assert note.read_text() == "somebody else's" and not Quarantine(store.root).records()


def test_quarantine_on_another_file_system(
    box: Path, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If a rename cannot reach quarantine, the bytes are copied, and then the name is removed."""
    rename = os.rename

    def far(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        places = [Path(os.readlink(f"/proc/self/fd/{directory}")) for directory in (src_dir_fd, dst_dir_fd)]
        if places[0].is_relative_to(box) is not places[1].is_relative_to(box):
            raise OSError(18, "Invalid cross-device link")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    note = box / "notes" / "00000002.note"
    note.write_text("somebody else's")
    os.utime(note, ns=(NOW, NOW))
    monkeypatch.setattr(os, "rename", far)
    (one,) = repair(store, verify(store, VerifyRequest()).findings, grace_ns=0)
    assert one.mended and not note.exists()
    (record,) = Quarantine(store.root).records()
    store.maintenance.restore(Quarantine(store.root), record)
    assert note.read_text() == "somebody else's" and note.stat().st_mtime_ns == NOW


def test_prune_and_clear_unlink_and_no_more(box: Path, store: Store) -> None:
    """The least recently written go first; pinned ones, foreign files and directories stay; who reads one reads on."""
    with (box / "notes" / "00000000.note").open() as reader:
        removed = prune(root=box, max_entries=2)
        assert [verdict.entry.key for verdict in removed.removed] == KEYS[:2]
        assert reader.read().startswith(KEYS[0])
    assert not clear(root=box).failed
    assert sorted(path.name for path in box.rglob("*")) == ["README", "notes", "shopping list.txt"]


def test_what_was_written_meanwhile_stays(box: Path, store: Store) -> None:
    """An entry that its program wrote after the plan was made is in use."""
    from jcache.store.eviction import plan
    from jcache.store.policy import Policy

    entries = store.entries()
    made = plan(entries, Policy(max_entries=0), now_ns=NOW)
    (box / "notes" / "00000000.note").write_text(KEYS[0])
    removal = store.maintenance.execute(made)
    assert [verdict.entry.key for verdict in removal.kept] == [KEYS[0]]


def test_a_lock_of_ours_lies_elsewhere(box: Path, store: Store) -> None:
    """Two processes of jcache wait for each other, and the other program sees no file of jcache."""
    before = {path.name for path in box.rglob("*")}
    store.maintenance.remove([find_entry(store, KEYS[0])])
    assert {path.name for path in box.rglob("*")} == before - {"00000000.note"}
    assert store.root.locks(Kind.GRAPHS) == store.root.state


def test_links_and_specials_are_no_entries(box: Path, store: Store, beyond: Path) -> None:
    """A link with an entry's name is a finding, which is renamed and never followed."""
    (box / "notes" / "0000000a.note").symlink_to(beyond / "precious")
    assert "note-0000000a" not in {entry.key for entry in store.entries()}
    (finding,) = verify(store, VerifyRequest()).findings
    assert finding.damage is Damage.NOT_A_FILE and finding.key == "note-0000000a"


def test_a_linked_directory_is_not_entered(tmp_path: Path, beyond: Path) -> None:
    """The target of a link in the tree is no part of the tree."""
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "notes").symlink_to(fill(tmp_path / "other") / "notes")
    assert not Store(Root(tmp_path / "linked", plain=True, adapter=ADAPTER, state_path=tmp_path / "s")).entries()


def test_the_overview_finds_it(box: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`jcache info --all` has a line for each place that an adapter names."""
    from jcache.cli.app import run

    monkeypatch.setenv("TOY_DIR", str(box))
    monkeypatch.setenv("HOME", str(box.parent))
    for name in ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert run(["info", "--all", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["caches"]
    assert found["layout"] == "toy" and found["root"] == str(box) and found["kinds"]["graphs"]["entries"] == 4


def test_commands_work_with_it(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command works on a foreign directory without knowing its program."""
    from jcache.cli.app import run

    assert run(["ls", "--root", str(box), "-q", "--sort", "name"]) == 0
    assert sorted(capsys.readouterr().out.split()) == KEYS
    assert run(["show", "--root", str(box), "note-00000000"]) == 0
    assert "words" in capsys.readouterr().out
    for command in (["du"], ["verify"], ["stats"], ["info"], ["pin", KEYS[0]], ["prune", "--max-entries", "1"]):
        assert run([*command, "--root", str(box)]) == 0, command
    assert run(["clear", "--yes", "--root", str(box)]) == 0
    assert [path.name for path in (box / "notes").glob("*.note")] == ["00000000.note"]


def pin_as_before(root: Root, *keys: str) -> None:
    """Pins entries as jcache did when it kept them in the user's state directory."""
    for key in keys:
        place = root.state / "pins" / Kind.GRAPHS
        place.mkdir(parents=True, exist_ok=True)
        (place / key).touch()


STEPS = st.lists(
    st.sampled_from(["pin", "pin as before", "unpin", "unpin all", "elsewhere", "move", "copy", "prune", "look"]),
    max_size=9,
)


@pytest.mark.full
@given(STEPS, st.integers(0, 3))
@settings(max_examples=60)
def test_pins_go_where_the_directory_goes(steps: list[str], number: int) -> None:
    """Pins stay, wherever the state directory is, and wherever the directory is moved."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(foreign, "MODULES", [__name__])
        patch.setenv("XDG_STATE_HOME", f"{place}/state")
        path, pinned = Path(place, "box"), set[str]()
        fill(path)
        for at, step in enumerate([*steps, "prune"]):
            root, key = open_root(path), KEYS[(at + number) % len(KEYS)]
            with Store(root) as store:
                if step == "pin" and store.path(find_entry(store, key)).exists():
                    store.pins.add([(Kind.GRAPHS, key)])
                    pinned.add(key)
                elif step == "pin as before":
                    pin_as_before(root, key)
                    pinned.add(key)
                    store.pins.copy()
                elif step == "unpin":
                    store.pins.remove([(Kind.GRAPHS, key)])
                    pinned.discard(key)
                elif step == "unpin all":
                    assert {each for _, each in store.pins.clear()} == pinned
                    pinned.clear()
                elif step == "look":
                    assert not {n.name for n in store.listing(Kind.GRAPHS).neighbours} & {".jcache", ".jcache/pins"}
                assert {each for _, each in store.pins.known(sure=True)} == pinned
            if step == "elsewhere":
                patch.setenv("XDG_STATE_HOME", f"{place}/state {at}")
            elif step in ("move", "copy"):
                (os.rename if step == "move" else shutil.copytree)(path, Path(place, f"box {at}"))
                path = Path(place, f"box {at}")
            elif step == "prune":
                prune(root=path, keep_last=0)
                with Store(open_root(path)) as store:
                    assert {entry.key for entry in store.entries()} == pinned
                fill(path)


def test_pins_of_before_are_copied_at_first_sight(box: Path) -> None:
    """Older pins are copied by the first writer; readers know them as well."""
    root = open_root(box)
    pin_as_before(root, KEYS[1])
    assert info(box).kinds[Kind.GRAPHS].pinned == 1 and not root.pins.exists()
    prune(root=box, keep_last=0)
    assert (root.pins / Kind.GRAPHS / KEYS[1]).exists() and not list((root.state / "pins").rglob("note-*"))
