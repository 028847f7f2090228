"""Recorded runs by run, day and function, and how much they saved."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.admin.run_history import by_day, by_function, by_run, parse_since, started_since, usage_of
from jcache.errors import InvalidValue
from jcache.layout import Root
from jcache.runs.report import report_of
from jcache.runs.stored_reports import read_reports, totals
from jcache.store.store import Store
from tests.configuration.test_settings import TOML

BASE: dict[str, Any] = report_of([], run_id="x", command=["train.py"], started_ns=0, seconds=1.0).to_json()
COUNTS = st.integers(0, 50)
SECONDS = st.integers(0, 4000).map(lambda quarters: quarters / 4)  # sums of these are exact
REPORTS = st.lists(
    st.fixed_dictionaries(
        {
            "started": st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 9)).map(lambda t: t.isoformat() + "Z"),
            "hits": COUNTS, "stored": COUNTS, "not_stored": COUNTS, "bypassed": COUNTS, "saved_seconds": SECONDS,
            "compile_seconds": SECONDS, "retrieve_seconds": SECONDS, "trace_seconds": SECONDS, "lower_seconds": SECONDS,
        }
    ),
    max_size=12,
)  # fmt: skip
JSON = TOML.filter(lambda value: not _has_time(value))


def _has_time(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return True
    return False


def reports_from(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [BASE | report | {"id": f"run-{number}"} for number, report in enumerate(found)]


@given(REPORTS)
def test_groups_add_up_to_the_total(found: list[dict[str, Any]]) -> None:
    """No run counts twice or not at all, whatever the groups are."""
    reports = reports_from(found)
    total = usage_of("total", reports)
    for groups in (by_run(reports), by_day(reports)):
        assert sum(group.runs for group in groups) == len(reports)
        assert sum(group.executables.requests for group in groups) == total.executables.requests
        assert sum(group.saved_seconds for group in groups) == total.saved_seconds
        assert sum(group.spent_seconds for group in groups) == total.spent_seconds
    assert total.saved_seconds == totals(reports)["total_saved_seconds"]
    assert total.count_rate is None or 0 <= total.count_rate <= 1
    assert total.seconds_rate is None or 0 <= total.seconds_rate <= 1
    assert [group.name for group in by_day(reports)] == sorted({group.name for group in by_day(reports)}, reverse=True)


@given(st.dictionaries(st.sampled_from([*BASE, "graphs", "traces"]), JSON), st.lists(JSON, max_size=3))
def test_reports_are_input(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any], programs: list[Any]
) -> None:
    """Whatever stands in a ledger, the reports that are read are grouped without an error."""
    texts = [json.dumps(BASE | changes), json.dumps(BASE | {"programs": programs} | changes)]
    with Store(Root(tmp_path_factory.getbasetemp(), plain=True)) as store:
        reports = read_reports(texts)
        for groups in (by_run(reports), by_day(reports), by_function(reports, store)):
            assert len(groups) <= len(reports) + 10


PART = st.fixed_dictionaries(
    {"outcome": st.sampled_from(["hit", "stored", "not_stored", "bypassed"])},
    optional={"key": st.none() | st.text(max_size=9), "name": JSON, "seconds": JSON, "jax_build_seconds": JSON,
              "spared_seconds": JSON, "times": JSON},
)  # fmt: skip


@pytest.mark.full
@given(st.lists(PART, max_size=4), st.lists(PART | JSON, max_size=4), st.lists(PART | JSON, max_size=4))
def test_parts_of_reports_are_input(
    tmp_path_factory: pytest.TempPathFactory, programs: list[Any], traces: list[Any], graphs: list[Any]
) -> None:
    """Odd names, seconds and counts of single executables and calls raise nothing."""
    parts: dict[str, Any] = {"programs": programs}
    parts |= {name: BASE[name] | {"calls": calls} for name, calls in (("traces", traces), ("graphs", graphs))}
    with Store(Root(tmp_path_factory.getbasetemp(), plain=True)) as store:
        groups = by_function(read_reports([json.dumps(BASE | parts)]), store)
        assert all(0 <= group.lookups.hits <= group.lookups.requests for group in groups)


DAY_NS = 86400 * 10**9


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("7d", datetime(2026, 11, 17, tzinfo=UTC)), ("24h", datetime(2026, 11, 23, tzinfo=UTC)),
        ("2026-11-20T10:00:00Z", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("2026-11-20T10:00+02:00", datetime(2026, 11, 20, 8, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20)), (" 2026-11-20 10:30", datetime(2026, 11, 20, 10, 30)),
    ],
)  # fmt: skip
def test_times(text: str, time: datetime) -> None:
    """An age counts back from now; a date without an offset is local."""
    now = int(datetime(2026, 11, 24, tzinfo=UTC).timestamp()) * 10**9
    assert parse_since(text, now) == int(time.timestamp()) * 10**9


@given(st.text(max_size=20) | st.from_regex(r"\d{1,5}-\d\d-\d\d.{0,8}", fullmatch=True))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    """No text leads to another error."""
    try:
        time_ns = parse_since(text, 0)
    except InvalidValue:
        return
    assert isinstance(time_ns, int) and started_since([], time_ns) == []
