"""A circuit breaker: after failures in a row, a service that fails is left alone for a while."""

from __future__ import annotations

import threading
from typing import Final

from jcache import clock

MAX_FAILURES: Final = 2
PAUSE_S: Final = 30.0


class CircuitBreaker:
    """Counts the failures of a service; several threads may use it.

    After `MAX_FAILURES` in a row it is open: no request is allowed. Each `PAUSE_S` later, one request is, and the first
    that succeeds closes the breaker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the service has failed too often."""
        return self._failures >= MAX_FAILURES

    def allows(self) -> bool:
        """Return whether a request may be sent now."""
        if not self.is_open:
            return True
        with self._lock:
            now = clock.monotonic()
            if now - self._opened_at < PAUSE_S:
                return not self.is_open
            self._opened_at = now  # the next request must wait for what becomes of this one
            return True

    def succeeded(self) -> None:
        """Close the breaker after a request that was answered."""
        self._failures = 0

    def failed(self) -> None:
        """Count a request that has failed."""
        with self._lock:
            self._failures += 1
            self._opened_at = clock.monotonic()

    def open(self) -> None:
        """Open the breaker at once, after a failure that took long."""
        with self._lock:
            self._failures = max(self._failures, MAX_FAILURES)
            self._opened_at = clock.monotonic()
