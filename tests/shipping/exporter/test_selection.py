"""The choice of the entries of an export."""

import json
import os
from pathlib import Path

import pytest

from jcache.admin.filters import parse_filter
from jcache.admin.selection import Selection
from jcache.errors import UnknownKey
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.shipping.exporter.export import (
    prepare_export,
)
from jcache.shipping.exporter.selection import ExportRequest
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import (
    add,
    executable,
    key,
)
from tests.shipping.exporter.test_export import filled as filled, keys_of, prepared_of, written


def report(identity: str, **more: object) -> str:
    """The report of a run, as the ledger keeps it; without programs it is one of long ago."""
    counts = dict.fromkeys(("hits", "stored", "not_stored", "bypassed"), 0)
    spent = dict.fromkeys(("trace", "lower", "compile", "retrieve", "saved"), 0.5)
    seconds = {f"{name}_seconds": value for name, value in spent.items()}
    return json.dumps({"id": identity, "command": ["x"], **counts, **seconds, "reasons": {}, **more})


class TestSelection:
    def test_kinds_and_filters(self, filled: Root) -> None:
        """The selection of `jcache ls` counts."""
        selection = Selection(kinds=(Kind.EXECUTABLES,), filters=(parse_filter("used<5y"),))
        assert keys_of(prepared_of(filled, ExportRequest(selection=selection))) == {key(i) for i in range(3)}
        selection = Selection(filters=(parse_filter("kind=graphs"),))
        assert keys_of(prepared_of(filled, ExportRequest(selection=selection))) == {key(4)}

    def test_keys(self, filled: Root) -> None:
        """Keys, and unambiguous prefixes of keys or of their hashes, narrow the selection."""
        wanted = (key(0), key(1)[-64:][:12], key(3)[:20])
        assert keys_of(prepared_of(filled, ExportRequest(keys=wanted))) == {key(0), key(1), key(3)}
        only = Selection(kinds=(Kind.TRACES,))
        assert keys_of(prepared_of(filled, ExportRequest(keys=wanted, selection=only))) == {key(3)}

    @pytest.mark.parametrize("prefix", ["jit_", "nothing"])
    def test_keys_that_are_none(self, filled: Root, prefix: str) -> None:
        """A prefix of no key, or of several, is refused."""
        with pytest.raises(UnknownKey), Store(filled) as store:
            prepare_export(store, ExportRequest(keys=(prefix,)))

    def test_excluded(self, filled: Root) -> None:
        """Keys that the other side has are left out and counted."""
        prepared = prepared_of(filled, ExportRequest(exclude=frozenset({key(0), key(3), key(77)})))
        assert keys_of(prepared) == {key(1), key(2), key(4)} and prepared.excluded == 2

    def test_runs(self, filled: Root) -> None:
        """A run's entries are those that it has stored or hit."""
        asked = [(key(0), "hit"), (key(1), "not_stored"), (None, "hit")]
        programs = [{"key": name, "outcome": outcome} for name, outcome in asked]
        with Store(filled) as store:
            store.ledger.add_run("20260101T000000Z-aaaaaa", 1, report("20260101T000000Z-aaaaaa", programs=[]))
            run = "20260102T000000Z-bbbbbb"
            store.ledger.add_run(run, 2, report(run, programs=programs))
            store.ledger.record([Known(Kind.EXECUTABLES, key(2), run=run), Known(Kind.TRACES, key(3), run=run)])
        for name in ("last", "20260102", run):
            assert keys_of(prepared_of(filled, ExportRequest(run=name))) == {key(0), key(2), key(3)}
        assert keys_of(prepared_of(filled, ExportRequest(run="20260101"))) == set()
        for name in ("2026", "other"):
            with pytest.raises(UnknownKey), Store(filled) as store:
                prepare_export(store, ExportRequest(run=name))

    def test_a_run_of_long_ago(self, filled: Root) -> None:
        """For a run whose programs are no longer recorded, its stored entries are exported, and a notice says so."""
        with Store(filled) as store:
            store.ledger.add_run("old", 1, report("old"))
            store.ledger.record([Known(Kind.EXECUTABLES, key(2), run="old")])
            assert keys_of(prepare_export(store, ExportRequest(run="old"))) == {key(2)}
            assert "is old" in store.notices[0]

    def test_legacy(self, plain: Root) -> None:
        """Legacy entries are counted and not exported."""
        add(plain.path, key(1), executable())
        (plain.path / key(2)).write_bytes(pack_executable(b"\x0aan executable of old", 1, Codec.ZLIB))
        prepared = prepared_of(plain)
        assert keys_of(prepared) == {key(1)} and prepared.legacy == 1

    def test_xla(self, filled: Root, beyond: Path) -> None:
        """XLA's sub-caches come on request, from below their own names and through no link."""
        directory = filled.directory(Kind.EXECUTABLES)
        autotune = directory / "xla_gpu_per_fusion_autotune_cache_dir" / "abc"
        autotune.mkdir(parents=True)
        (autotune / "x.pb").write_bytes(b"tuned")
        (autotune.parent / "y.pb").write_bytes(b"")
        (autotune / "link").symlink_to(beyond / "precious")
        (autotune / "away").symlink_to(beyond)
        (autotune / os.fsdecode(b"\xff")).write_bytes(b"x")
        (directory / "xla_gpu_kernel_cache_file").write_bytes(b"kernels")
        assert not prepared_of(filled).manifest.neighbours
        found, exported = written(prepared_of(filled, ExportRequest(xla=True)))
        assert {name: data for name, data in found.items() if name.startswith("xla/")} == {
            "xla/xla_gpu_kernel_cache_file": b"kernels",
            "xla/xla_gpu_per_fusion_autotune_cache_dir/abc/x.pb": b"tuned",
            "xla/xla_gpu_per_fusion_autotune_cache_dir/y.pb": b"",
        }
        assert (exported.entries, exported.neighbours) == (5, 3)

    def test_a_linked_sub_cache(self, filled: Root, beyond: Path) -> None:
        """A sub-cache of XLA that is a link is not followed."""
        (filled.directory(Kind.EXECUTABLES) / "xla_gpu_per_fusion_autotune_cache_dir").symlink_to(beyond)
        assert not prepared_of(filled, ExportRequest(xla=True)).manifest.neighbours
