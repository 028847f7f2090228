"""Report on the entries that a run has got from a store (`jcache run --remote`, `jcache.enable(remote=…)`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from jcache.layout import Kind
from jcache.units import format_size


class FetchedEntries:
    """Counts the entries that come from a store; several threads may use it.

    Args:
        url: the URL of the store, without credentials; None if it is not known yet.

    Attributes:
        url: the URL.
        counts: number of the entries by kind.
        bytes: stored bytes of all.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = url
        self.counts = Counter[str]()
        self.bytes = 0
        self._lock = Lock()

    def add(self, kind: str, size: int, url: str) -> None:
        """Count an entry of a store."""
        with self._lock:
            self.url = self.url or url
            self.counts[kind] += 1
            self.bytes += max(size, 0)


class RemoteReport(NamedTuple):
    """The entries that a run has got from a store.

    Attributes:
        url: the URL of the store, without credentials; None if the run had none, or got nothing of it.
        executables: number of executables that came from there.
        traces: number of traces.
        graphs: number of graphs.
        bytes: stored bytes of all.
    """

    url: str | None = None
    executables: int = 0
    traces: int = 0
    graphs: int = 0
    bytes: int = 0

    def to_json(self) -> Mapping[str, object]:
        """Return the report as data for ``json.dumps``."""
        return self._asdict()


NO_STORE: Final = RemoteReport()


def fetched_in(each: Sequence[FetchedEntries]) -> RemoteReport:
    """Return the report on the entries that the processes of a run have got from a store."""
    counts = sum((one.counts for one in each), Counter[str]())
    url = next((one.url for one in each if one.url), None)
    size = sum(one.bytes for one in each)
    return RemoteReport(url, counts[Kind.EXECUTABLES], counts[Kind.TRACES], counts[Kind.GRAPHS], size)


def remote_lines(report: RemoteReport) -> list[str]:
    """Return a line of text on a report; none if the run had no store."""
    if report.url is None:
        return []
    numbers = {"executable": report.executables, "trace": report.traces, "graph": report.graphs}
    parts = [f"{number:,} {noun}{'' if number == 1 else 's'}" for noun, number in numbers.items() if number]
    return [f"from {report.url}: {', '.join([*parts, format_size(report.bytes)]) if parts else 'nothing'}"]
