"""The diagnosis: each change alone is named as the one cause, with the right count, and no miss counts twice."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.explain.baseline import History, misses_of, program_of
from jcache.explain.change import Change
from jcache.explain.diagnosis import diagnose
from jcache.explain.result import Diagnosis
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED
from jcache.runs.record import Argument, ProcessRecord, ProgramRecord, RunRecord, record_from
from jcache.vocabulary import VOCABULARY, Item
from tests.helpers.records import (
    FLAGS,
    JAXLIB,
    OPTIONS,
    PLATFORM,
    TOPOLOGY,
    USUAL,
    TextPrograms,
    process,
    program,
    run,
    sha256,
)

FAST_MATH = "--xla_cpu_enable_fast_math=true"
OPS = {"source": "/x/site-packages/jax/_src/lax/lax.py:9"}


def module(
    *,
    name: str = "jit_step",
    helper: str = "helper",
    constant: str = "2.0",
    size: int = 64,
    dtype: str = "f32",
    swap: bool = False,
) -> str:
    """Return a module as JAX prints it, simplified."""
    operations = ["    %1 = stablehlo.sine %0", "    %2 = stablehlo.cosine %0"]
    lines = operations[::-1] if swap else operations
    return "\n".join(
        [
            f"module @{name} {{",
            f"  func.func public @main(%arg0: tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}> {{",
            f"    %0 = call @{helper}(%arg0) : (tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}>",
            *lines,
            "  }",
            f"  func.func private @{helper}(%arg0: tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}> {{",
            f"    %cst = stablehlo.constant dense<{constant}> : tensor<{dtype}>",
            "  }",
            "}",
        ]
    )


class Ledger:
    """What a root knows, as values."""

    def __init__(self, removed: dict[str, str] | None = None, damaged: dict[str, str] | None = None) -> None:
        self._removed, self._damaged = removed or {}, damaged or {}

    def damage(self, key: str) -> str | None:
        return self._damaged.get(key)

    def removal(self, key: str) -> str | None:
        return self._removed.get(key)

    def nearest_entry(self, program: ProgramRecord) -> Change | None:
        return None


def explained(*runs: RunRecord, texts: tuple[str, ...] = (), **options: Any) -> Diagnosis:
    """Return the diagnosis of the last run."""
    return diagnose(History(runs), runs[-1], TextPrograms(*texts), **options)


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


def argument(**fields: Any) -> tuple[Argument, ...]:
    return (Argument("batch", "f32[64,128]")._replace(**fields),)


NEW = "module @jit_step, changed"
CHANGES: dict[str, tuple[Item, Callable[[], tuple[ProcessRecord, int]], str, str]] = {
    "an XLA flag": (
        Item.XLA_FLAGS,
        lambda: all_changed({"flags": FAST_MATH}, flags=FAST_MATH),
        FAST_MATH,
        "",
    ),
    "jax and jaxlib": (
        Item.VERSION,
        lambda: all_changed({"jaxlib": "0.12.0"}, jaxlib="0.12.0", module="by another JAX"),
        "0.12.0, 0.12.0",
        "0.10.2, 0.10.2",
    ),
    "the number of devices": (
        Item.DEVICES,
        lambda: all_changed({"devices": ("8 x cpu",)}, topology="8 x cpu"),
        "8 x cpu",
        "1 x cpu",
    ),
    "CPU features": (Item.CPU, lambda: all_changed({"host": "there"}, topology="another CPU"), "there", "here"),
    "a version of the platform": (
        Item.PLATFORM,
        lambda: all_changed(with_value(PLATFORM, "cuda 13"), parts={PLATFORM: sha256("cuda 13")}),
        sha256("cuda 13")[:8],
        sha256("cpu")[:8],
    ),
    "x64": (
        Item.JAX_OPTION,
        lambda: all_changed(
            {"options": ({**USUAL, "jax_enable_x64": "True"},)}, module=NEW, arguments=argument(type="f64[64,128]")
        ),
        "True",
        "False",
    ),
    "matmul precision": (
        Item.JAX_OPTION,
        lambda: all_changed({"options": ({**USUAL, "jax_default_matmul_precision": "highest"},)}, module=NEW),
        "highest",
        "None",
    ),
    "a part of the key that is not known": (
        Item.KEY_PART,
        lambda: all_changed(parts={"custom_hook": sha256("mine")}),
        sha256("mine")[:8],
        "",
    ),
    "a static argument": (Item.STATIC, lambda: one_changed(module=NEW, static={"n": "3"}), "3", ""),
    "a shape": (
        Item.SHAPE,
        lambda: one_changed(module=NEW, arguments=argument(type="f32[61,128]")),
        "f32[61,128]",
        "f32[64,128]",
    ),
    "a dtype": (
        Item.DTYPE,
        lambda: one_changed(module=NEW, arguments=argument(type="bf16[64,128]")),
        "bf16[64,128]",
        "f32[64,128]",
    ),
    "a weak type": (
        Item.WEAK_TYPE,
        lambda: one_changed(module=NEW, arguments=argument(type="f32[64,128]{weak_type=True}")),
        "f32[64,128], weakly typed",
        "f32[64,128]",
    ),
    "a sharding": (
        Item.SHARDING,
        lambda: one_changed(
            module=NEW, parts={OPTIONS: sha256("8 partitions")}, arguments=argument(sharding="{'x': 8}")
        ),
        "{'x': 8}",
        "none",
    ),
    "donation": (
        Item.DONATION,
        lambda: one_changed(module=NEW, arguments=argument(donated=True)),
        "donated",
        "not donated",
    ),
    "the number of arguments": (
        Item.STRUCTURE,
        lambda: one_changed(module=NEW, arguments=(*argument(), Argument("mask", "bool[64]"))),
        "mask",
        "",
    ),
    "the type of a captured array": (
        Item.CONSTANT,
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


@pytest.mark.parametrize(
    ("item", "changed", "current", "baseline"),
    [
        (Item.NAMES, {"helper": "helper_v2"}, "@helper_v2", "@helper"),
        (Item.CONSTANT, {"constant": "3.0"}, "dense<3.0> : tensor<f32>", "dense<2.0> : tensor<f32>"),
        (Item.SHAPE, {"size": 61}, "tensor<61xf32>", "tensor<64xf32>"),
        (Item.DTYPE, {"dtype": "bf16"}, "tensor<64xbf16>", "tensor<64xf32>"),
        (Item.ORDER, {"swap": True}, "%2 = stablehlo.cosine %1", "%2 = stablehlo.sine %1"),
    ],
)
def test_what_differs_in_the_module_alone_is_read_from_it(
    item: Item, changed: dict[str, Any], current: str, baseline: str
) -> None:
    """Where no argument, option or flag differs, the two modules tell the cause."""
    old, new = module(), module(**changed)
    found = explained(run(1, process(program("step", old))), run(2, process(program("step", new))), texts=(old, new))
    (cause,) = found.causes
    assert (cause.item, cause.current, cause.baseline, cause.misses) == (item, current, baseline, 1)


def test_a_renamed_function_is_found_by_its_module() -> None:
    """A function that has another name, and the same program, is compared with what it was before."""
    old, new = module(), module(name="jit_train_step")
    found = explained(
        run(1, process(program("step", old), program("loss"))),
        run(2, process(program("train_step", new))),
        texts=(old, new),
    )
    (cause,) = found.causes
    assert (cause.item, cause.current, cause.baseline) == (Item.NAMES, "@train_step", "@step")


def test_one_size_that_changes_in_many_functions_is_one_cause() -> None:
    """A size that changes from 64 to 61 in the arguments of one function and in the module of another is one cause."""
    old, new = module(name="jit_ones"), module(name="jit_ones", size=61)
    before = process(program("step"), program("ones", old, arguments=()))
    step = program("step", NEW, arguments=argument(type="f32[61,128]"), compile_seconds=9.0)
    found = explained(run(1, before), run(2, process(step, program("ones", new, arguments=()))), texts=(old, new))
    (cause,) = found.causes
    assert (cause.item, cause.function, cause.misses) == (Item.SHAPE, "step", 2)


@pytest.mark.parametrize("item", [Item.JAX_OPTION, Item.DEVICES, Item.VERSION])
def test_operations_of_jax_that_a_setting_brings_belong_to_it(item: Item) -> None:
    """An operation of JAX that is new where x64, the devices or the version changed is no cause of its own."""
    fields: dict[Item, dict[str, Any]] = {
        Item.JAX_OPTION: {"options": ({**USUAL, "jax_enable_x64": "True"},)},
        Item.DEVICES: {"devices": ("8 x cpu",)},
        Item.VERSION: {"jaxlib": "0.12.0"},
    }
    new = process(program("step", NEW), program("convert_element_type", **OPS), **fields[item])
    found = explained(run(1, process(program("step"))), run(2, new))
    assert [(cause.item, cause.misses) for cause in found.causes] == [(item, 2)]


@pytest.mark.parametrize("part", ["function", "operation"])
def test_a_function_of_the_programs_own_that_is_new_is_a_cause(part: str) -> None:
    """A function of the program that is new is seen for the first time, whatever else changed; an operation is not."""
    added = program("extra") if part == "function" else program("iota", **OPS)
    new = process(program("step", NEW, arguments=argument(type="f32[61,128]")), added)
    found = explained(run(1, process(program("step"))), run(2, new))
    assert Counter(cause.item for cause in found.causes) == (
        {Item.SHAPE: 1, Item.FIRST_TIME: 1} if part == "function" else {Item.SHAPE: 1}
    )


def test_everything_is_seen_for_the_first_time_in_the_first_run() -> None:
    """The misses of a first run are one cause."""
    (cause,) = explained(run(1, process(*USUALLY))).causes
    assert (cause.item, cause.misses, cause.baseline) == (Item.FIRST_TIME, 3, "")
    assert "jcache warm -- python train.py" in cause.resolution


REMOVED = "removed 3h ago by jcache prune"


@pytest.mark.parametrize(
    ("item", "before", "now", "evidence", "reason"),
    [
        (Item.EVICTED, {}, {}, Ledger(), VOCABULARY[Item.EVICTED].reason),
        (Item.EVICTED, {"outcome": HIT}, {}, Ledger({program("step").key or "": REMOVED}), REMOVED),
        (Item.DAMAGED, {}, {}, Ledger(damaged={program("step").key or "": "its digest"}), "its digest"),
        (Item.DAMAGED, {}, {"reason": "the entry was damaged: bad"}, Ledger(), "the entry was damaged: bad"),
        (
            Item.UNREADABLE,
            {},
            {"reason": "the cache could not be read: EIO"},
            Ledger(),
            "the cache could not be read: EIO",
        ),
        *(
            (Item.NOT_STORED, {"outcome": NOT_STORED, "reason": reason}, {}, Ledger(), reason)
            for reason in ("compiled in less than 1 s", "smaller than 9 bytes", "it calls back to the host")
        ),
    ],
)
def test_a_key_that_was_seen_before_was_lost(
    item: Item, before: dict[str, Any], now: dict[str, Any], evidence: Ledger, reason: str
) -> None:
    """A miss of a key that was seen before says what became of its entry, and not what changed."""
    old, new = program("step", **before), program("step", **now)
    found = explained(run(1, process(old)), run(2, process(new)), evidence=evidence)
    (cause,) = found.causes
    assert (cause.item, cause.misses, cause.reason) == (item, 1, reason)


def test_a_removed_entry_that_no_run_has_recorded_was_evicted() -> None:
    """What the ledger knows of a removed entry suffices."""
    found = explained(run(1, process(program("step"))), evidence=Ledger({program("step").key or "": REMOVED}))
    assert [(cause.item, cause.reason) for cause in found.causes] == [(Item.EVICTED, REMOVED)]


def test_a_program_that_is_compiled_twice_in_a_run() -> None:
    """The second compilation in one process says why the first one did not help."""
    twice = program("step", outcome=NOT_STORED, reason="compiled in less than 1 s")
    found = explained(run(1, process(twice, twice)))
    assert Counter({cause.item: cause.misses for cause in found.causes}) == {Item.FIRST_TIME: 1, Item.NOT_STORED: 1}


def test_all_ranks_that_compile_the_same_have_the_same_cause() -> None:
    """Ranks that miss the same key at the same time miss it for the same reason, and all are counted."""
    others = {"outcome": NOT_STORED, "reason": "only process 0 writes"}
    programs = [program("step", flags=FAST_MATH, **(others if rank else {})) for rank in range(4)]
    ranks = [process(one, flags=FAST_MATH, rank=rank) for rank, one in enumerate(programs)]
    found = explained(run(1, process(program("step"))), run(2, *ranks))
    assert [(cause.item, cause.misses) for cause in found.causes] == [(Item.XLA_FLAGS, 4)]


def test_three_runs_with_three_keys_and_never_a_hit_are_churn() -> None:
    """A module that changes in every run of the same command is churn, with the line that differs."""
    texts = tuple(module(constant=f"{n}.0") for n in range(4))
    runs = [
        run(n, process(program("step", text), program("loss", outcome=HIT if n else STORED)))
        for n, text in enumerate(texts)
    ]
    for number, item in ((1, Item.CONSTANT), (2, Item.CHURN), (3, Item.CHURN)):
        (cause,) = explained(*runs[: number + 1], texts=texts).causes
        assert (cause.item, cause.current) == (item, f"dense<{number}.0> : tensor<f32>")


@pytest.mark.parametrize("other", ["hit", "command", "shape"])
def test_what_is_no_churn(other: str) -> None:
    """A hit in one of the three runs, another command, or a cause with a name of its own is no churn."""
    texts = tuple(module(constant=f"{n}.0") for n in range(3))
    programs = [program("step", text) for text in texts]
    if other == "hit":
        programs[1] = programs[1]._replace(outcome=HIT)
    if other == "shape":
        programs[2] = program("step", texts[2], arguments=argument(type="f32[61,128]"))
    commands = [("python", "train.py", *(["-n", str(n)] if other == "command" else [])) for n in range(3)]
    runs = [run(n, process(one), command=commands[n]) for n, one in enumerate(programs)]
    (cause,) = explained(*runs, texts=texts).causes
    assert cause.item is (Item.SHAPE if other == "shape" else Item.CONSTANT)


def test_the_hash_seed_explains_another_order() -> None:
    """Where Python's hash seed differs, it is the cause of another order."""
    old, new = module(), module(swap=True)
    runs = [
        run(n, process(program("step", text), digests={"PYTHONHASHSEED": f"digest{n}"}))
        for n, text in enumerate((old, new))
    ]
    (cause,) = explained(*runs, texts=(old, new)).causes
    assert (cause.item, cause.current, cause.baseline) == (Item.HASH_SEED, "digest1", "digest0")


def test_a_flag_that_is_also_a_compile_option_is_one_cause() -> None:
    """A flag of XLA changes a field of the compile options as well; an option of another name is a cause of its own."""
    options = {
        flags: json.dumps({"xla_cpu_enable_fast_math": flags or "false", "other": "1"}) for flags in ("", FAST_MATH)
    }

    def made(flags: str, other: str = "1") -> ProcessRecord:
        text = options[flags].replace('"1"', f'"{other}"')
        values = {FLAGS: {sha256(flags): flags}, OPTIONS: {sha256(text): text}}
        return process(program("step", flags=flags, parts={OPTIONS: sha256(text)}), flags=flags, values=values)

    assert [c.item for c in explained(run(1, made("")), run(2, made(FAST_MATH))).causes] == [Item.XLA_FLAGS]
    (cause,) = explained(run(1, made("")), run(2, made("", "2"))).causes
    assert (cause.item, cause.name, cause.current, cause.baseline) == (Item.COMPILE_OPTION, "other", "2", "1")


def test_the_cache_path_in_the_key_is_a_cause() -> None:
    """The directory's path in the compile options, as jax 0.10.2 has it, is named."""

    def made(path: str) -> ProcessRecord:
        text = json.dumps({"xla_gpu_per_fusion_autotune_cache_dir": path})
        values = {**process().values, OPTIONS: {sha256(text): text}}
        return process(program("step", parts={OPTIONS: sha256(text)}), values=values)

    (cause,) = explained(run(1, made("/a")), run(2, made("/b"))).causes
    assert (cause.item, cause.current, cause.baseline) == (Item.CACHE_PATH, "/b", "/a")


def test_sizes_that_vary_from_run_to_run_are_told() -> None:
    """The sizes of an argument over the runs are listed."""
    runs = [
        run(n, process(program("step", f"module {n}", arguments=argument(type=f"f32[{64 - n},128]")))) for n in range(4)
    ]
    (cause,) = explained(*runs).causes
    assert cause.reason == "the 4th size in 4 runs (64 63 62 61)"


def test_a_flag_that_is_new_is_told() -> None:
    """How many runs before had no such flag is told."""
    runs = [run(n, process(*USUALLY)) for n in range(4)]
    changed = process(*(program(one.function, flags=FAST_MATH) for one in USUALLY), flags=FAST_MATH)
    (cause,) = explained(*runs, run(9, changed)).causes
    assert cause.reason == "first in this run; the 4 runs before were without"


def test_bypassed_programs_are_told_with_their_reasons() -> None:
    """What was compiled without a look-up is no miss, and is listed with its reason."""
    log = ProgramRecord(None, "log", BYPASSED, "no key could be made: callbacks", compile_seconds=1.0)
    found = explained(run(1, process(log, log)))
    assert (found.misses, found.bypassed, found.causes) == (0, 2, ())
    assert [(one.function, one.reason, one.times) for one in found.bypasses] == [
        ("log", "no key could be made: callbacks", 2)
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "train.py", "--lr", "1"), ("train.py",)),
        (("/usr/bin/python3.11", "-u", "train.py"), ("train.py",)),
        (("python", "-m", "torax.run", "x"), ("-m", "torax.run")),
        (("python", "-c", "import jax"), ("-c", "import jax")),
        (("./train", "x"), ("./train",)),
        ((), ()),
    ],
)
def test_the_program_of_a_command(command: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """The program of a command is its script or module, whatever its arguments are."""
    assert program_of(command) == expected


def test_a_run_is_compared_with_the_latest_of_the_same_command() -> None:
    """The same command comes before the same program; a run without programs does not count."""
    runs = [
        run(1, process(*USUALLY)),
        run(2, process(*USUALLY), command=("python", "train.py", "-v")),
        run(3, process()),
        run(4, process(*USUALLY), command=("python", "eval.py")),
    ]
    history = History(runs)
    now = run(5, process(*USUALLY))
    assert history.previous(now) == runs[0]
    assert history.previous(now._replace(command=("python", "train.py", "-q"))) == runs[1]
    assert history.previous(now._replace(command=("python", "other.py"))) is None


# -- properties

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
            "module": st.sampled_from([module(constant="3.0"), module(swap=True), "something else"]),
            "jaxlib": st.just("0.12.0"),
            "parts": st.just({JAXLIB: sha256("x"), TOPOLOGY: sha256("y")}),
        },
    )
    runs = [run(n, process(*(program(name, module()) for name in names))) for n in range(earlier)]
    known = {program(name, module()).key for name in names} if earlier else set()
    seconds = st.floats(0, 100)
    programs = []
    for name in names:
        fields: dict[str, Any] = {"module": module()} | draw(changes)
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


@settings(max_examples=200, deadline=None)
@given(changed_runs())
def test_causes_add_up(made: tuple[list[RunRecord], set[str]]) -> None:
    """Misses of all causes add up to the misses; none is in two causes, no hit in one; the dearest come first."""
    runs, _ = made
    texts = (module(), module(constant="3.0"), module(swap=True))
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
