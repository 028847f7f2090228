"""A circuit breaker opens after two failures in a row, and lets one request through each half minute."""

import pytest

from jcache import clock
from jcache.runtime.circuit_breaker import PAUSE_S, CircuitBreaker


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the clock, which the test sets."""
    time = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: time[0])
    return time


def test_it_opens_after_two_failures_in_a_row(now: list[float]) -> None:
    """One failure, and a second one after a success, change nothing."""
    breaker = CircuitBreaker()
    for _ in range(3):
        breaker.failed()
        assert breaker.allows() and not breaker.is_open
        breaker.succeeded()
    breaker.failed()
    breaker.failed()
    assert breaker.is_open and not breaker.allows()
    now[0] += PAUSE_S - 1
    assert not breaker.allows()


def test_one_request_is_allowed_after_a_pause(now: list[float]) -> None:
    """The others wait for another pause, unless it succeeds."""
    breaker = CircuitBreaker()
    breaker.open()
    assert not breaker.allows()
    now[0] += PAUSE_S
    assert breaker.allows() and not breaker.allows()
    breaker.failed()
    now[0] += PAUSE_S - 1
    assert not breaker.allows()
    now[0] += 1
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows() and breaker.allows() and not breaker.is_open
