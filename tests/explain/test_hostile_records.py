"""Records are untrusted input: whatever lies in their place is explained, or left out, without a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.cli.reports import explain_report
from jcache.errors import UnknownKey
from jcache.explain.baseline import History
from jcache.explain.comparison import compare_keys
from jcache.explain.diagnosis import diagnose
from jcache.explain.modules import canonical, compare_modules, side_by_side
from jcache.explain.ranks import agreements
from jcache.explain.root_evidence import RootEvidence
from jcache.explain.target import find_target
from jcache.layout import Root
from jcache.runs.record import record_from
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.records import TextPrograms, process, program, run

TEXT = st.text(max_size=8) | st.sampled_from(
    [
        "",
        "\ud800",
        "\x1b[31m",
        "../x",
        "f32[",
        "f32[64,61]{weak_type=True}",
        "--",
        "{}",
        "{name}",
        "step",
        "hit",
        "0x12345678",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """Return the JSON of a record in which some values are others: of the same type, mostly."""
    number = draw(st.integers(0, 3))
    made = run(
        number,
        process(program("step", f"m{draw(st.integers(0, 2))}"), program("loss")),
        process(program("step"), rank=1),
    )
    data = json.loads(json.dumps(made.to_json()))
    for _ in range(draw(st.integers(0, 4))):
        data = replaced(draw, data)
    return data if isinstance(data, dict) else {}


def replaced(draw: st.DrawFn, value: Any) -> Any:
    """Return a JSON value with one value in it replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: replaced(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        number = draw(st.integers(0, len(value) - 1))
        return [*value[:number], replaced(draw, value[number]), *value[number + 1 :]]
    if isinstance(value, str):
        return draw(TEXT)
    if isinstance(value, int | float):
        return draw(st.integers(-5, 2**70) | st.floats())
    return draw(JSON)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


@pytest.mark.full
@settings(max_examples=300)
@given(found=st.lists(records() | JSON, max_size=4))
def test_any_records_are_explained_without_a_traceback(found: list[Any], root: Root) -> None:
    """Whatever the records are, a diagnosis of what is well-formed among them is made, printed, and is JSON."""
    history = History(record for data in found if (record := record_from(data)) is not None)
    with Store(root) as store:
        evidence = RootEvidence(store, history.keys)
        for record in history.runs:
            programs = TextPrograms("m0", "m1")
            diagnosis = diagnose(history, record, programs, evidence)
            assert sum(cause.misses for cause in diagnosis.causes) == diagnosis.misses
            ranks = agreements(history, record, programs)
            json.dumps([diagnosis.to_json(), [explain_report.agreement_json(one) for one in ranks]])
            explain_report.render(diagnosis, ranks, verbose=True)
            explain_report.render_diff(diagnosis, programs)
        for key in sorted(history.keys)[:3]:
            explain_report.render_comparison(compare_keys(history, key, None, TextPrograms(), evidence))
            explain_report.render_comparison(compare_keys(history, key, min(history.keys), TextPrograms(), evidence))


@pytest.mark.full
@settings(max_examples=200)
@given(found=st.lists(records(), max_size=3), text=TEXT | st.sampled_from(["last", "jit_", "2026"]))
def test_any_text_stands_for_something_or_is_refused_in_a_sentence(found: list[Any], text: str) -> None:
    """Whatever somebody writes is a run, a function or a key, or unknown."""
    history = History(record for data in found if (record := record_from(data)) is not None)
    try:
        find_target(history, text, ["jit_step-" + "0" * 64], Path("/r"))
    except UnknownKey as error:
        print(error)


MODULE_LINES = st.lists(
    st.sampled_from(
        [
            "module @jit_a {",
            "  func.func private @f(%arg0: tensor<3x4xf32>) {",
            "  func.func private @g(%arg0: tensor<3xf32>) {",
            "    %0 = call @f(%arg0) : (tensor<3x4xf32>) -> tensor<3x4xf32>",
            "    %cst = stablehlo.constant dense<1.0> : tensor<f32>",
            "    %c = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi32>",
            '    %cst_0 = stablehlo.constant dense<"0x00ff"> : tensor<4xf32>',
            "    %1 = stablehlo.add %0, %cst",
            "}",
        ]
    )
    | st.text(alphabet="@%<>\"'x0af# =\\", max_size=12),
    max_size=12,
)


@settings(max_examples=300)
@given(MODULE_LINES, MODULE_LINES)
def test_any_two_modules_are_compared(ours: list[str], theirs: list[str]) -> None:
    """Two texts of modules have a difference of one kind, and their lines side by side are all there."""
    current, baseline = "\n".join(ours), "\n".join(theirs)
    compare_modules(current, baseline)
    assert canonical(canonical(current)) == canonical(current)
    shown = [line for line in side_by_side(baseline, current, context=10**6) if line is not None]
    assert [line.current for line in shown if line.mark != "<"] == current.splitlines()
    assert [line.baseline for line in shown if line.mark != ">"] == baseline.splitlines()
