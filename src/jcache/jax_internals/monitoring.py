"""Listen to the events that JAX records with `jax.monitoring`.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from collections.abc import Callable
from contextlib import suppress
from typing import Any

Listener = Callable[[str, float | None, dict[str, Any]], None]  # the event, its seconds if it has any, its details


def listen(callback: Listener) -> Callable[[], None]:
    """Have a function called with every event that JAX records in any thread, until the returned function is called.

    An exception of the callback is raised in the program's own computation, so the callback should raise none.
    """
    from jax._src import monitoring

    listening = True

    def on_event(event: str, **details: Any) -> None:
        if listening:
            callback(event, None, details)

    def on_duration(event: str, duration_secs: float, **details: Any) -> None:
        if listening:
            callback(event, duration_secs, details)

    def stop() -> None:
        nonlocal listening
        listening = False  # for a JAX that cannot forget a listener
        for kind, listener in (("event", on_event), ("event_duration", on_duration)):
            old_name = f"_unregister_{kind}_listener_by_callback"
            forget = getattr(monitoring, f"unregister_{kind}_listener", getattr(monitoring, old_name, None))
            if forget is not None:
                with suppress(
                    AssertionError, ValueError
                ):  # the program has cleared all of them, or this is the second time
                    forget(listener)

    monitoring.register_event_listener(on_event)
    monitoring.register_event_duration_secs_listener(on_duration)
    return stop
