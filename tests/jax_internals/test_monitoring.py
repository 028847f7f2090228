"""Listening to the events that JAX records, in processes of their own with the JAX installed."""

from pathlib import Path

import pytest

from tests.jax_internals.test_cache_hook import said


@pytest.mark.jax
def test_events_are_heard_until_one_stops_listening(tmp_path: Path) -> None:
    """A listener receives JAX's events, with seconds and details, until it stops; stopping twice is no error."""
    program = """
use(base)
heard, others = [], []
stop = monitoring.listen(lambda *event: heard.append(event))
monitoring.listen(lambda *event: others.append(event))
compute(2)
assert heard == others
stop()
stop()
compute(3)
assert len(heard) < len(others)
print(json.dumps({event.rpartition("/")[2]: seconds is not None for event, seconds, details in heard}))
"""
    heard = said(program, tmp_path)
    assert heard["cache_misses"] is False
    assert heard["backend_compile_duration"] is True
