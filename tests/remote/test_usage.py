"""Batches of uses: each is an object of its own, and input like any other."""

from pathlib import Path

import pytest

from jcache import clock
from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from jcache.remote.usage import batch_names, read_batch, record_uses, short_name
from tests.helpers.entries import DAY, NOW, key

ONE = Kind.EXECUTABLES, "0.10.2_cpu_cpu", key(1)
TWO = Kind.TRACES, "", key(2)


def test_uses_come_back(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch stays, ordered by days, and tells its entries and times."""
    monkeypatch.setattr(clock, "now_ns", lambda: NOW)
    record_uses(remote, {ONE: 5, TWO: 6})
    record_uses(remote, {})
    monkeypatch.setattr(clock, "now_ns", lambda: NOW + DAY)
    record_uses(remote, [ONE])
    if remote.can_list:
        first, second = batch_names(remote)
        assert first.startswith("v1/usage/2023-11-14/") and second.startswith("v1/usage/2023-11-15/")
        assert dict(read_batch(remote, first)) == {short_name(ONE): 5, short_name(TWO): 6}
        assert dict(read_batch(remote, second)) == {short_name(ONE): NOW + DAY}


@pytest.mark.parametrize("data", [b"", b"no zstd", b"\x28\xb5\x2f\xfd"])
def test_strange_batches(tmp_path: Path, data: bytes) -> None:
    """What is no batch, or a line that is none, tells nothing."""
    import zstandard

    remote = open_remote(f"file://{tmp_path}")
    remote.transport.put("v1/usage/2026-01-01/x", data, {}, replace=False)
    assert list(read_batch(remote, "v1/usage/2026-01-01/x")) == [] == list(read_batch(remote, "v1/usage/none"))
    lines = f"{short_name(ONE)} 7\nx\n{short_name(ONE)} -1\n../x 3\ntraces/y 3\n\xff 3\n{short_name(TWO)} {'9' * 30}\n"
    remote.transport.put("v1/usage/2026-01-01/y", zstandard.compress(lines.encode("latin-1")), {}, replace=False)
    assert list(read_batch(remote, "v1/usage/2026-01-01/y")) == [(short_name(ONE), 7)]
