"""The record of a run is stored as JSON and is untrusted when it comes back."""

import json
from typing import Any

from hypothesis import given, strategies as st

from jcache.runs.record import Argument, ProcessRecord, ProgramRecord, RunRecord, record_from

TEXT = st.text(max_size=8)
BY_NAME = st.dictionaries(TEXT, TEXT, max_size=3)
SECONDS = st.floats(0, 1e6)
PROGRAMS = st.builds(
    ProgramRecord,
    key=st.none() | TEXT,
    name=st.none() | TEXT,
    outcome=TEXT,
    reason=st.none() | TEXT,
    function=TEXT,
    source=TEXT,
    parts=BY_NAME,
    arguments=st.lists(st.builds(Argument, TEXT, TEXT, st.booleans(), TEXT), max_size=3).map(tuple),
    static=BY_NAME,
    constants=st.lists(TEXT, max_size=2).map(tuple),
    options=st.none() | st.integers(0, 3),
    trace_seconds=SECONDS,
    lower_seconds=SECONDS,
    compile_seconds=st.none() | SECONDS,
    retrieve_seconds=st.none() | SECONDS,
)
PROCESSES = st.builds(
    ProcessRecord,
    pid=st.integers(0, 99),
    host=TEXT,
    rank=st.integers(0, 3),
    jax=TEXT,
    jaxlib=TEXT,
    platform=TEXT,
    devices=st.lists(TEXT, max_size=2).map(tuple),
    variables=BY_NAME,
    digests=BY_NAME,
    options=st.lists(BY_NAME, max_size=2).map(tuple),
    values=st.dictionaries(TEXT, BY_NAME, max_size=2),
    programs=st.lists(PROGRAMS, max_size=3).map(tuple),
)
RECORDS = st.builds(
    RunRecord, TEXT, st.lists(TEXT).map(tuple), st.integers(0, 2**62), st.lists(PROCESSES, max_size=2).map(tuple)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: RunRecord) -> None:
    """What is written as JSON is read as an equal record."""
    assert record_from(json.loads(json.dumps(record.to_json()))) == record


@given(RECORDS, JSON, st.randoms())
def test_a_hostile_record_is_no_record(record: RunRecord, value: Any, random: Any) -> None:
    """A record with a random value at a random place is a well-typed record or none; nothing is raised."""
    data: Any = json.loads(json.dumps(record.to_json()))
    place: Any = data
    while True:
        index: Any = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[index]
        if not inner or not isinstance(inner, dict | list) or random.random() < 0.3:
            break
        place = inner
    place[index] = value
    found = record_from(data)
    assert found is None or record_from(json.loads(json.dumps(found.to_json()))) == found


@given(JSON)
def test_anything_else_is_no_record(value: Any) -> None:
    """Other JSON is no record."""
    assert record_from(value) is None
