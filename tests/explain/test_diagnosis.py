"""The diagnosis: each change alone is named as the one cause, with the right count, and no miss counts twice."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.explain.baseline import History, misses_of
from jcache.explain.diagnosis import diagnose
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED
from jcache.runs.log_messages import ABSENT_IN_ANOTHER
from jcache.runs.record import Argument, ProcessRecord, ProgramRecord, RunRecord, record_from
from jcache.vocabulary import VOCABULARY, CauseKind
from tests.helpers.records import (
    FAST_MATH,
    JAXLIB,
    OPTIONS,
    PLATFORM,
    SECOND,
    TOPOLOGY,
    USUAL,
    KnownEvidence,
    TextPrograms,
    argument,
    explained,
    module_text,
    process,
    program,
    run,
    sha256,
)

USUALLY = (program("init"), program("step"), program("loss"))


def one_changed(**fields: Any) -> tuple[ProcessRecord, int]:
    """Return a process whose program ``step`` has changed, and the number of misses that it explains."""
    others = [one._replace(outcome=HIT) for one in (USUALLY[0], USUALLY[2])]
    return process(others[0], program("step", **fields), others[1]), 1


def all_changed(process_fields: dict[str, Any] | None = None, **fields: Any) -> tuple[ProcessRecord, int]:
    programs = [program(one.function, **fields) for one in USUALLY]
    return process(*programs, **(process_fields or {})), 3


def with_value(part: str, value: str) -> dict[str, Any]:
    return {"values": {**process().values, part: {sha256(value): value}}}


NEW = "module @jit_step, changed"
CHANGES: dict[str, tuple[CauseKind, Callable[[], tuple[ProcessRecord, int]], str, str]] = {
    "an XLA flag": (
        CauseKind.XLA_FLAGS,
        lambda: all_changed({"flags": FAST_MATH}, flags=FAST_MATH),
        FAST_MATH,
        "",
    ),
    "jax and jaxlib": (
        CauseKind.VERSION,
        lambda: all_changed({"jaxlib": "0.12.0"}, jaxlib="0.12.0", module="by another JAX"),
        "0.12.0, 0.12.0",
        "0.10.2, 0.10.2",
    ),
    "the number of devices": (
        CauseKind.DEVICES,
        lambda: all_changed({"devices": ("8 x cpu",)}, topology="8 x cpu"),
        "8 x cpu",
        "1 x cpu",
    ),
    "CPU features": (CauseKind.CPU, lambda: all_changed({"host": "there"}, topology="another CPU"), "there", "here"),
    "a version of the platform": (
        CauseKind.PLATFORM,
        lambda: all_changed(with_value(PLATFORM, "cuda 13"), parts={PLATFORM: sha256("cuda 13")}),
        sha256("cuda 13")[:8],
        sha256("cpu")[:8],
    ),
    "x64": (
        CauseKind.JAX_OPTION,
        lambda: all_changed(
            {"options": ({**USUAL, "jax_enable_x64": "True"},)}, module=NEW, arguments=argument(type="f64[64,128]")
        ),
        "True",
        "False",
    ),
    "matmul precision": (
        CauseKind.JAX_OPTION,
        lambda: all_changed({"options": ({**USUAL, "jax_default_matmul_precision": "highest"},)}, module=NEW),
        "highest",
        "None",
    ),
    "a part of the key that is not known": (
        CauseKind.KEY_PART,
        lambda: all_changed(parts={"custom_hook": sha256("mine")}),
        sha256("mine")[:8],
        "",
    ),
    "a static argument": (CauseKind.STATIC, lambda: one_changed(module=NEW, static={"n": "3"}), "3", ""),
    "a shape": (
        CauseKind.SHAPE,
        lambda: one_changed(module=NEW, arguments=argument(type="f32[61,128]")),
        "f32[61,128]",
        "f32[64,128]",
    ),
    "a dtype": (
        CauseKind.DTYPE,
        lambda: one_changed(module=NEW, arguments=argument(type="bf16[64,128]")),
        "bf16[64,128]",
        "f32[64,128]",
    ),
    "a weak type": (
        CauseKind.WEAK_TYPE,
        lambda: one_changed(module=NEW, arguments=argument(type="f32[64,128]{weak_type=True}")),
        "f32[64,128], weakly typed",
        "f32[64,128]",
    ),
    "a sharding": (
        CauseKind.SHARDING,
        lambda: one_changed(
            module=NEW, parts={OPTIONS: sha256("8 partitions")}, arguments=argument(sharding="{'x': 8}")
        ),
        "{'x': 8}",
        "none",
    ),
    "donation": (
        CauseKind.DONATION,
        lambda: one_changed(module=NEW, arguments=argument(donated=True)),
        "donated",
        "not donated",
    ),
    "the number of arguments": (
        CauseKind.STRUCTURE,
        lambda: one_changed(module=NEW, arguments=(*argument(), Argument("mask", "bool[64]"))),
        "mask",
        "",
    ),
    "the type of a captured array": (
        CauseKind.CONSTANT,
        lambda: one_changed(module=NEW, constants=("f32[5]",)),
        "f32[5]",
        "",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_alone_is_the_one_cause(change: str) -> None:
    """A change alone is the one cause of all misses that follow from it, with both values."""
    item, make, current, baseline = CHANGES[change]
    changed, misses = make()
    found = explained(run(1, process(*USUALLY)), run(2, changed))
    assert [cause.item for cause in found.causes] == [item]
    (cause,) = found.causes
    assert (cause.current, cause.baseline, cause.misses) == (current, baseline, misses)
    assert cause.resolution and cause.reason
    assert found.hits == 3 - misses


def test_everything_is_seen_for_the_first_time_in_the_first_run() -> None:
    """The misses of a first run are one cause."""
    (cause,) = explained(run(1, process(*USUALLY))).causes
    assert (cause.item, cause.misses, cause.baseline) == (CauseKind.FIRST_TIME, 3, "")
    assert "jcache warm -- python train.py" in cause.resolution


REMOVED = "removed 3h ago by jcache prune"


@pytest.mark.parametrize(
    ("item", "before", "now", "evidence", "reason"),
    [
        (CauseKind.EVICTED, {}, {}, KnownEvidence(), VOCABULARY[CauseKind.EVICTED].reason),
        (CauseKind.EVICTED, {"outcome": HIT}, {}, KnownEvidence({program("step").key or "": REMOVED}), REMOVED),
        (CauseKind.DAMAGED, {}, {}, KnownEvidence(damaged={program("step").key or "": "its digest"}), "its digest"),
        (
            CauseKind.DAMAGED,
            {},
            {"reason": "the entry was damaged: bad"},
            KnownEvidence(),
            "the entry was damaged: bad",
        ),
        (
            CauseKind.UNREADABLE,
            {},
            {"reason": "the cache could not be read: EIO"},
            KnownEvidence(),
            "the cache could not be read: EIO",
        ),
        (CauseKind.ABSENT, {}, {"reason": ABSENT_IN_ANOTHER}, KnownEvidence(), VOCABULARY[CauseKind.ABSENT].reason),
        (
            CauseKind.EVICTED,
            {"outcome": NOT_STORED, "reason": ABSENT_IN_ANOTHER},
            {},
            KnownEvidence(),
            VOCABULARY[CauseKind.EVICTED].reason,
        ),
        *(
            (CauseKind.NOT_STORED, {"outcome": NOT_STORED, "reason": reason}, {}, KnownEvidence(), reason)
            for reason in ("compiled in less than 1 s", "smaller than 9 bytes", "it calls back to the host")
        ),
    ],
)
def test_a_key_that_was_seen_before_was_lost(
    item: CauseKind, before: dict[str, Any], now: dict[str, Any], evidence: KnownEvidence, reason: str
) -> None:
    """A miss of a key that was seen before says what became of its entry, and not what changed."""
    old, new = program("step", **before), program("step", **now)
    found = explained(run(1, process(old)), run(2, process(new)), evidence=evidence)
    (cause,) = found.causes
    assert (cause.item, cause.misses, cause.reason) == (item, 1, reason)


@pytest.mark.parametrize(
    ("at", "items"),
    [
        (1.5, [CauseKind.FIRST_TIME, CauseKind.DAMAGED, CauseKind.EVICTED]),
        (2.5, [CauseKind.FIRST_TIME, CauseKind.DAMAGED, CauseKind.DAMAGED]),
        (3.5, [CauseKind.FIRST_TIME, CauseKind.EVICTED, CauseKind.DAMAGED]),
    ],
)
def test_damage_that_a_run_finds_itself_explains_its_miss(at: float, items: list[CauseKind]) -> None:
    """Damage explains misses of runs that began later, and of the run that was under way, but of no other one."""
    step = program("step")
    evidence = KnownEvidence(damaged={step.key or "": "its digest"}, at_ns=run(0).started_ns + int(at * SECOND))
    runs = [run(number, process(step)) for number in (1, 2, 3)]
    history = History(runs)
    found = [diagnose(history, one, TextPrograms(), evidence).causes[0].item for one in runs]
    assert found == items


def test_a_removed_entry_that_no_run_has_recorded_was_evicted() -> None:
    """What the ledger knows of a removed entry suffices."""
    found = explained(run(9, process(program("step"))), evidence=KnownEvidence({program("step").key or "": REMOVED}))
    assert [(cause.item, cause.reason) for cause in found.causes] == [(CauseKind.EVICTED, REMOVED)]


def test_a_program_that_is_compiled_twice_in_a_run() -> None:
    """The second compilation in one process says why the first one did not help."""
    twice = program("step", outcome=NOT_STORED, reason="compiled in less than 1 s")
    found = explained(run(1, process(twice, twice)))
    assert Counter({cause.item: cause.misses for cause in found.causes}) == {
        CauseKind.FIRST_TIME: 1,
        CauseKind.NOT_STORED: 1,
    }


def test_all_ranks_that_compile_the_same_have_the_same_cause() -> None:
    """Ranks that miss the same key at the same time miss it for the same reason, and all are counted."""
    others = {"outcome": NOT_STORED, "reason": "only process 0 writes"}
    programs = [program("step", flags=FAST_MATH, **(others if rank else {})) for rank in range(4)]
    ranks = [process(one, flags=FAST_MATH, rank=rank) for rank, one in enumerate(programs)]
    found = explained(run(1, process(program("step"))), run(2, *ranks))
    assert [(cause.item, cause.misses) for cause in found.causes] == [(CauseKind.XLA_FLAGS, 4)]


def test_bypassed_programs_are_told_with_their_reasons() -> None:
    """What was compiled without a look-up is no miss, and is listed with its reason."""
    log = ProgramRecord(None, "log", BYPASSED, "no key could be made: callbacks", compile_seconds=1.0)
    found = explained(run(1, process(log, log)))
    assert (found.misses, found.bypassed, found.causes) == (0, 2, ())
    assert [(one.function, one.reason, one.times) for one in found.bypasses] == [
        ("log", "no key could be made: callbacks", 2)
    ]


NAMES = ["init", "step", "loss", "add"]


@st.composite
def changed_runs(draw: st.DrawFn) -> tuple[list[RunRecord], set[str]]:
    """Return some runs, of which the last has random changes, and the names of its programs that hit."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8))
    earlier = draw(st.integers(0, 2))
    flags = draw(st.sampled_from(["", FAST_MATH]))
    surroundings = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "jaxlib": st.just("0.12.0"),
                "devices": st.just(("8 x cpu",)),
                "options": st.just(({**USUAL, "jax_enable_x64": "True"},)),
            },
        )
    )
    changes = st.fixed_dictionaries(
        {},
        optional={
            "arguments": st.sampled_from(
                [argument(type="f32[61,128]"), argument(type="i32[64,128]"), argument(donated=True), ()]
            ),
            "static": st.just({"n": "3"}),
            "topology": st.just("8 x cpu"),
            "module": st.sampled_from([module_text(constant="3.0"), module_text(swap=True), "something else"]),
            "jaxlib": st.just("0.12.0"),
            "parts": st.just({JAXLIB: sha256("x"), TOPOLOGY: sha256("y")}),
        },
    )
    runs = [run(n, process(*(program(name, module_text()) for name in names))) for n in range(earlier)]
    known = {program(name, module_text()).key for name in names} if earlier else set()
    seconds = st.floats(0, 100)
    programs = []
    for name in names:
        fields: dict[str, Any] = {"module": module_text()} | draw(changes)
        made = program(name, flags=flags, **fields)
        outcome = HIT if made.key in known and draw(st.booleans()) else draw(st.sampled_from([STORED, NOT_STORED]))
        reason = (
            draw(st.sampled_from([None, "compiled in less than 1 s", "the entry was damaged: x"]))
            if outcome == NOT_STORED
            else None
        )
        programs.append(
            made._replace(outcome=outcome, reason=reason, compile_seconds=None if outcome == HIT else draw(seconds))
        )
    hits = {str(one.key) for one in programs if one.outcome == HIT}
    return [*runs, run(earlier, process(*programs, flags=flags, **surroundings))], hits


@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(changed_runs())
def test_causes_add_up(made: tuple[list[RunRecord], set[str]]) -> None:
    """Misses of all causes add up to the misses; none is in two causes, no hit in one; the dearest come first."""
    runs, _ = made
    texts = (module_text(), module_text(constant="3.0"), module_text(swap=True))
    found = explained(*runs, texts=texts)
    misses = [seen for _, seen in misses_of(runs[-1])]
    explained_ids = [id(seen.program) for cause in found.causes for seen in cause.programs]
    assert sum(cause.misses for cause in found.causes) == found.misses == len(misses)
    assert sorted(explained_ids) == sorted(id(seen.program) for seen in misses)
    assert all(cause.misses == len(cause.programs) for cause in found.causes)
    seconds = [cause.seconds for cause in found.causes]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) <= found.seconds + 1e-6
    assert json.loads(json.dumps(found.to_json())) == found.to_json()
    assert len({(c.item, c.name, c.current, c.baseline, c.function, c.reason) for c in found.causes}) == len(
        found.causes
    )
    for one in runs:
        assert record_from(json.loads(json.dumps(one.to_json()))) == one


X64 = {"jax_enable_x64": "True", "jax_default_matmul_precision": "None"}


@pytest.mark.parametrize("changed", ["shape", "static", "code"])
def test_an_option_of_the_run_before_is_no_cause_where_an_older_run_differs_in_less(changed: str) -> None:
    """After one run with another option of JAX, a later change is compared with the runs before that one."""
    changes: dict[str, dict[str, Any]] = {
        "shape": {"arguments": argument(type="f32[48,128]")},
        "static": {"static": {"n": "3"}},
        "code": {},
    }
    usual: dict[str, Any] = {"static": {"n": "2"}}
    first = run(1, process(program(**usual)))
    with_x64 = run(2, process(program(module="x64", **usual), options=(X64,)))
    last = run(3, process(program(module=changed, **(usual | changes[changed]))))
    (cause,) = explained(first, with_x64, last).causes
    assert cause.item is {"shape": CauseKind.SHAPE, "static": CauseKind.STATIC, "code": CauseKind.PROGRAM}[changed]


def test_many_sizes_of_an_argument_are_one_cause() -> None:
    """A loop over sizes is one cause with a miss for each."""
    sizes = [program(module=f"m{size}", arguments=argument(type=f"f32[{size}]")) for size in range(3, 9)]
    (cause,) = explained(run(1, process(sizes[0])), run(2, process(*sizes[1:]))).causes
    assert (cause.item, cause.misses) == (CauseKind.SHAPE, 5)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("train.py", "--lr", "1"), "jcache warm --root r -- python train.py --lr 1"),
        (("-m", "train"), "jcache warm --root r -- python -m train"),
        (("python3", "train.py"), "jcache warm --root r -- python3 train.py"),
    ],
)
def test_a_suggested_command_can_be_run(command: tuple[str, ...], words: str) -> None:
    """It names the root, the interpreter where the program did not know it, and variables that have changed."""
    flagged = process(program(flags=FAST_MATH), flags=FAST_MATH)
    runs = run(1, process(program()), command=command), run(2, flagged, command=command)
    (cause,) = explained(*runs, root="r").causes
    assert cause.resolution.endswith(f"XLA_FLAGS={FAST_MATH} {words}")


@pytest.mark.parametrize("remover", ["jcache rm", "jcache clear", "jcache prune", "train.py"])
def test_what_was_removed_by_hand_needs_no_larger_bound(remover: str) -> None:
    """After `jcache rm` or `clear` a pin is what keeps an entry, and not a larger bound."""
    one = program()
    evidence = KnownEvidence(removed={one.key or "": f"removed 3h ago by {remover}"})
    (cause,) = explained(run(1, process(one)), run(2, process(one)), evidence=evidence).causes
    assert cause.item is CauseKind.EVICTED
    assert ("bound" in cause.resolution) == (remover not in ("jcache rm", "jcache clear"))
