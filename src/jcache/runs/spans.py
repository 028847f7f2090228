"""Tell the seconds of nested spans of one thread apart."""

from typing import Final

_MAX_SPANS: Final = 4096


class Spans:
    """The spans of a thread that have ended; none of them contains another."""

    def __init__(self) -> None:
        self._ended: list[tuple[float, float]] = []  # (end, seconds)

    def own_seconds(self, end: float, seconds: float) -> float:
        """Return the seconds of a span without the spans inside it, which ended before it on the same thread."""
        begin, own = end - seconds, seconds
        # A span is inside if its middle is: clocks are read late.
        while self._ended and self._ended[-1][0] - self._ended[-1][1] / 2 > begin:
            own -= self._ended.pop()[1]
        self._ended.append((end, seconds))
        if len(self._ended) > _MAX_SPANS:
            self._halve()
        return max(0.0, own)

    def _halve(self) -> None:
        """Merge each two neighbouring spans into one with the same sum, so that memory stays bounded."""
        spans = self._ended
        if len(spans) % 2:
            spans.insert(0, (spans[0][0] - spans[0][1], 0.0))
        spans[:] = [(later[0], earlier[1] + later[1]) for earlier, later in zip(spans[::2], spans[1::2], strict=True)]
