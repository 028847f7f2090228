"""What `jcache rm` removes: exactly what is named, whatever the root holds and whatever is written for a key."""

import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from jcache.admin.filters import parse_filter
from jcache.admin.named import plan_filters, plan_keys
from jcache.admin.removal import PruneLimits, execute, plan_prune
from jcache.admin.selection import Selection, select
from jcache.entry import Entry
from jcache.errors import InvalidValue, OutOfReach, UnknownKey
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root, hash_of, short_key
from jcache.store.ledger import Known
from jcache.store.lineage import read_lineage
from jcache.store.links import Links
from jcache.store.policy import Plan, Reason
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, add, digits, executable, key, tree
from tests.helpers.phasic_caches import make_cache

START: Final = time.time_ns()
NAMES: Final = ("jit_step", "jit_step_2", "jit_loss", "jit__lambda_", "s", "jit_a.b-c")
FILTERS: Final = (
    "size>{n}", "size<={n}00", "used>{n}d", "used<={n}d", "age>={n}d", "name=jit_step", "name!=s", "name~^jit_s",
    "step", "trace", "kind=traces", "kind!=executables", "kind~e", "seconds>={n}", "seconds<2", "hits=0", "hits>{n}",
    "pinned=yes", "pinned=no", "jaxlib<0.10", "jaxlib!=0.9", "run=b", "run~.", "platform=cpu", "key~[0-4]$", "graph",
)  # fmt: skip
HOSTILE: Final = (
    "", " ", ".", "..", "/", "../", "../beyond/precious", "*", "?", "[a-z]", "jit_*", "jit_step-*", "\n", "\0", "-",
    "…", "...", "…-", "jit…", "{jit_step}", "$HOME", "~", "-cache", ".jcache", "CACHEDIR.TAG", ".lockfile", "notes.txt",
    "executables", "traces-v1/", "\udcff", "%2e%2e", "graphs/..", "traces/../../beyond/precious",
)  # fmt: skip
_number = count()


class Made(NamedTuple):
    """A root that was made at random, beside a directory that is no part of it."""

    root: Root
    above: Path


def sealed(kind: Kind, a_key: str, parents: tuple[str, ...] = (), **parts: str) -> bytes:
    return seal(
        b"payload" * 9, kind=kind, name=a_key.rpartition("-")[0], key=a_key, key_parts=parts, build_seconds=2.0,
        created_ns=5, parents=parents, codec=Codec.NONE,
    )  # fmt: skip


def make(above: Path, layout: str, chance: random.Random) -> Made:
    """A root of a layout, with entries of all kinds, used and pinned at random, and with files of nobody's."""
    (above / "beyond").mkdir(parents=True)
    (above / "beyond" / "precious").write_text("kept")
    root = _phasic(above) if layout == "phasic" else _own(above, layout, chance)
    (root.path / "notes.txt").write_text("mine")
    (root.path / "link").symlink_to(above / "beyond")
    with Store(root) as store:
        entries = store.entries(legacy=True)
        some = [entry for entry in entries if chance.random() < 0.6]
        store.ledger.record(
            Known(
                e.kind,
                e.key,
                hits=chance.randrange(3),
                jaxlib=chance.choice([None, "0.9", "0.12"]),
                run=chance.choice("ab"),
            )
            for e in some
        )
        store.pins.add((e.kind, e.key) for e in entries if chance.random() < 0.15)
    return Made(root, above)


def _own(above: Path, layout: str, chance: random.Random) -> Root:
    root = create_root(above / layout, plain=layout == "jax")

    def put(kind: Kind, a_key: str, data: bytes) -> None:
        written = START - chance.randrange(1, 40) * DAY
        used = None if chance.random() < 0.3 else START - chance.randrange(1, 40) * DAY
        add(root.directory(kind), a_key, data, used_ns=used, written_ns=written)

    executables = [key(n, chance.choice(NAMES)) for n in range(chance.randrange(8))]
    for number, a_key in enumerate(executables):
        put(Kind.EXECUTABLES, a_key, executable(number % 4))
    for n in range(chance.randrange(3)):
        put(Kind.GRAPHS, key(100 + n, "graph"), sealed(Kind.GRAPHS, key(100 + n, "graph")))
    for n in range(chance.randrange(4)):
        trace = key(200 + n, chance.choice(["trace", "jit_step"]))
        put(Kind.TRACES, trace, sealed(Kind.TRACES, trace))
        for m in range(chance.randrange(3)):
            program = key(300 + 10 * n + m, "trace.stablehlo")
            needed = chance.choice(executables or [key(999, "jit_gone")])
            put(Kind.TRACES, program, sealed(Kind.TRACES, program, (trace,), trace="5", executable=needed))
    if executables and chance.random() < 0.3:
        (root.directory(Kind.EXECUTABLES) / executables[0]).write_bytes(executable(2))  # legacy, with the same key
    if chance.random() < 0.3:
        root.directory(Kind.EXECUTABLES).mkdir(exist_ok=True)
        (root.directory(Kind.EXECUTABLES) / digits(77)).write_bytes(executable(2))
    return root


def _phasic(above: Path) -> Root:
    return open_root(make_cache(above))


def name_of(entry: Entry) -> tuple[Kind, str, bool]:
    return entry.kind, entry.key, entry.legacy


def files_of(store: Store, entries: list[Entry]) -> set[str]:
    """The files of some entries."""
    found = {str(store.path(entry)) for entry in entries}
    own = [entry for entry in entries if not entry.legacy and store.root.layout.has_sidecars]
    return found | {str(store.root.directory(e.kind) / f"{e.key}-atime") for e in own}


def carried_out(made: Made, store: Store, plan: Plan) -> None:
    """Executes a plan, and proves that nothing else has changed and that the root is sound."""
    before = tree(made.above)
    victims = [verdict.entry for verdict in plan.victims]
    done = execute(store, plan, xla=False, dry_run=False)
    assert done.failed == () and [v.entry for v in done.removed] == victims
    after = tree(made.above)
    gone = before.keys() - after.keys()
    assert gone <= files_of(store, victims) and {str(store.path(entry)) for entry in victims} <= gone
    ours = str(made.root.state), str(made.root.path / ".jcache")
    changed = {path for path in before.keys() & after.keys() if before[path][3] != after[path][3]}
    assert all(path.startswith(ours) for path in changed)
    new = after.keys() - before.keys()
    assert all(path.startswith(ours) or path.endswith(("-atime", ".lockfile")) for path in new)
    with Store(made.root) as other:
        assert verify(other, VerifyRequest(processes=1)).findings == []


LAYOUTS = pytest.mark.parametrize("layout", ["jcache", "jax", "phasic"])
Place = Callable[[], Path]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Gives a new directory for each example."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda: tmp_path / str(next(_number))


def links_of(store: Store) -> Links:
    return read_lineage(store).links


@pytest.mark.full
@LAYOUTS
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    texts=st.lists(st.tuples(st.sampled_from(FILTERS), st.integers(0, 30)), min_size=1, max_size=2),
    legacy=st.booleans(),
)
def test_what_ls_lists_is_what_rm_removes(
    place: Place, layout: str, seed: int, texts: list[tuple[str, int]], legacy: bool
) -> None:
    """But pinned entries, and what these need; with a trace its programs; nothing else; the root is sound then."""
    made = make(place(), layout, random.Random(seed))
    filters = [parse_filter(text.format(n=n)) for text, n in texts]
    with Store(made.root) as store:
        listed = {name_of(e) for e in select(store, Selection(filters=tuple(filters), legacy=legacy), seconds=False)}
        links, pins = links_of(store), store.pins.known()
        plan = plan_filters(store, filters, legacy=legacy)
        victims = {name_of(verdict.entry) for verdict in plan.victims}
        with_traces = {
            (Kind.TRACES, program, False) for program, trace in links.trace_of.items()
            if (Kind.TRACES, trace, False) in listed
        }  # fmt: skip
        assert victims <= listed | with_traces
        kept = {name_of(verdict.entry): verdict.reason for verdict in plan.kept}
        assert victims | kept.keys() == listed | with_traces and not victims & kept.keys()
        assert set(kept.values()) <= {Reason.PINNED, Reason.NEEDED}
        assert {n for n, why in kept.items() if why is Reason.PINNED} == {
            n for n in listed | with_traces if n[:2] in pins
        }
        pinned_traces = {links.trace_of.get(a_key, a_key) for kind, a_key in pins if kind is Kind.TRACES}
        for kind, a_key, _ in victims:
            assert kind is not Kind.TRACES or links.trace_of.get(a_key, a_key) not in pinned_traces
            needing = {trace for trace, needed in links.executables.items() if a_key in needed}
            assert kind is not Kind.EXECUTABLES or not needing & pinned_traces
        for (kind, a_key, _), why in kept.items():
            if why is Reason.NEEDED:
                of = {links.trace_of.get(a_key, a_key)} if kind is Kind.TRACES else {
                    trace for trace, needed in links.executables.items() if a_key in needed
                }  # fmt: skip
                assert of & pinned_traces
        carried_out(made, store, plan)
        again = plan_filters(store, filters, legacy=legacy)
        assert again.victims == ()


def beginnings(keys: list[str], chance: random.Random) -> list[str]:
    """Texts made of keys, some of which stand for one of them, and some of which are traps."""
    texts = list(HOSTILE)
    for a_key in keys:
        cut = chance.randrange(1, len(a_key))
        hashed, short = hash_of(a_key), short_key(a_key)
        head, tail = short[: chance.randrange(1, 5)], short[-chance.randrange(6, 11) :]
        texts += [a_key, a_key[:cut], a_key[cut:], hashed[: chance.randrange(1, 12)], hashed[1:9], short, a_key.upper()]
        texts += [f"{head}…{tail}", f"{head}...{tail}", f"…{tail}", f"{head}…", f"{a_key}\n", f" {a_key}", f"{a_key}\0"]
        texts += [f"./{a_key}", f"{a_key}/..", f"../{a_key}", f"{a_key[:cut]}*", f"{a_key}-cache", f"{a_key}-atime"]
    return texts


@pytest.mark.full
@LAYOUTS
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), number=st.integers(1, 2))
def test_a_text_removes_one_entry_that_begins_like_it_or_none(
    place: Place, layout: str, seed: int, number: int
) -> None:
    """An ambiguous or empty text never does, nor a path, a pattern or a part in the middle of a key."""
    chance = random.Random(seed)
    made = make(place(), layout, chance)
    with Store(made.root) as store:
        entries = store.entries(legacy=True)
        texts = chance.choices(beginnings([entry.key for entry in entries], chance), k=number)
        before = tree(made.root.path)
        unknown = [text for text in texts if len({e.key for e in entries if stands_for(store, text, e.key)}) != 1]
        if unknown:
            with pytest.raises(UnknownKey, match=r"Nothing was removed\.$") as caught:
                plan_keys(store, texts)
            assert all(text in str(caught.value) for text in unknown)
            assert tree(made.root.path) == before
            return
        plan = plan_keys(store, texts)
        links = links_of(store)
        named = {e.key for text in texts for e in entries if stands_for(store, text, e.key)}
        with_traces = {program for program, trace in links.trace_of.items() if trace in named}
        considered = {v.entry.key for v in (*plan.victims, *plan.kept)}
        assert named <= considered <= named | with_traces
        carried_out(made, store, plan)


def stands_for(store: Store, text: str, a_key: str) -> bool:
    """Whether a text may stand for a key: the specification, by itself."""
    if text in (a_key, f"{a_key}-cache" if store.root.layout.follows_jax else a_key):
        return True
    if text and (a_key.startswith(text) or a_key.rsplit("-", 1)[-1].startswith(text)):
        return True
    for ellipsis in ("…", "..."):
        head, _, tail = text.partition(ellipsis)
        if head and tail and ellipsis in text:
            printed = [a_key[: -64 + 8] if len(hash_of(a_key)) == 64 else short_key(a_key), a_key]
            if any(one.startswith(head) and one.endswith(tail) and len(one) > len(head + tail) for one in printed):
                return True
    return False


@pytest.mark.full
@LAYOUTS
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    text=st.sampled_from(FILTERS),
    number=st.integers(0, 30),
    asked=st.sampled_from(
        [{"keep_last": 0}, {"keep_last": 2}, {"max_size": 500}, {"older_than": "9d"}, {"max_entries": 1}]
    ),
)
def test_prune_with_a_filter_removes_only_what_matches(
    place: Place, layout: str, seed: int, text: str, number: int, asked: dict[str, Any]
) -> None:
    """Whatever the criteria are; with none to keep, all that matches; the root stays sound."""
    made = make(place(), layout, random.Random(seed))
    filters = [parse_filter(text.format(n=number))]
    policy = PruneLimits(**asked, order="lru").policy()
    with Store(made.root) as store:
        listed = {name_of(entry) for entry in select(store, Selection(filters=tuple(filters)), seconds=False)}
        everything = store.entries(legacy=True)
        try:
            plan = plan_prune(store, policy, Kind, filters=filters)
        except OutOfReach:
            assert store.pins.known() & {name[:2] for name in listed} or links_of(store).executables
            return
        victims = {name_of(verdict.entry) for verdict in plan.victims}
        assert victims <= listed
        for program, trace in links_of(store).trace_of.items():
            assert ((Kind.TRACES, program, False) in victims) == ((Kind.TRACES, trace, False) in victims)
        if asked == {"keep_last": 0} and links_of(store) == Links():
            pinned = {name_of(entry) for entry in everything if entry.pinned}
            assert victims == listed - pinned
        carried_out(made, store, plan)


def test_one_unknown_key_among_others_removes_nothing(native: Root) -> None:
    """All keys are resolved before anything is removed, and each that cannot be is named with near ones."""
    for number, name in enumerate(["jit_train", "jit_eval", "jit_eval"]):
        add(native.directory(Kind.EXECUTABLES), key(number, name))
    with Store(native) as store, pytest.raises(UnknownKey) as caught:
        plan_keys(store, ["jit_train", "jit_trian", "jit_eval"])
    assert "'jit_trian'; did you mean 'jit_train'?" in str(caught.value)
    assert "'jit_eval' stands for 2 entries: jit_eval-" in str(caught.value)


def test_a_key_that_is_named_twice_counts_once(native: Root) -> None:
    """By its name, its hash and itself it is one entry."""
    add(native.directory(Kind.EXECUTABLES), key(1))
    with Store(native) as store:
        assert len(plan_keys(store, ["jit_step", key(1), hash_of(key(1))[:5]]).victims) == 1


@pytest.mark.parametrize("text", ["size", "pinned", "hits"])
def test_a_field_alone_is_no_filter(text: str) -> None:
    """Somebody who forgets the operator does not remove what has the field's name in its own."""
    with pytest.raises(InvalidValue, match="is not a filter, but a field"):
        parse_filter(text)
