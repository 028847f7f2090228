"""A stored trace and the programs that lie beside it."""

from pathlib import Path

from jcache.findings import Damage
from jcache.layout import ENTRY_SUFFIX, Root
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.traces.format import TRACES, program_key
from jcache.traces.stored_trace import StoredTrace
from tests.helpers.traces import store, stored, traces_of


def program_file(root: Root, trace: StoredTrace, of: str = "signature") -> Path:
    return root.directory(TRACES) / (program_key(trace.opened.header, of) + ENTRY_SUFFIX)


def test_a_program_is_that_of_its_signature(native: Root) -> None:
    """Its StableHLO, the digest of its text and its executable are found by the signature; others have none."""
    trace = store(traces_of(native))
    assert trace.artifact("signature") == b"StableHLO of program" and trace.text("signature") == "program"
    assert [*trace.executables("signature", "device")] == ["jit_step-1"]
    assert trace.artifact("other") is None and trace.text("other") is None and [*trace.executables("other", "x")] == []


def test_a_further_device_has_an_executable_of_its_own(native: Root) -> None:
    """What was compiled for another device later is found for that one only, and has no StableHLO of its own."""
    traces = traces_of(native)
    traces.keeping.put_program(store(traces).opened.header, "signature", "gpu", "jit_step-2")
    trace = stored(traces)
    assert [*trace.executables("signature", "gpu")] == ["jit_step-2"]
    assert [*trace.executables("signature", "device")] == ["jit_step-1"]
    assert [*trace.executables("signature", "tpu")] == [] and trace.artifact("gpu") == b""


def test_a_program_of_an_earlier_trace_of_the_key_is_none(native: Root) -> None:
    """A trace that was stored anew has none of the programs of the one before it."""
    traces = traces_of(native)
    before = store(traces)
    earlier = program_file(native, before).read_bytes()
    before.opened.path.unlink()
    again = store(traces, "another")
    assert again.artifact("signature") == b"StableHLO of another"
    program_file(native, again).write_bytes(earlier)
    assert stored(traces).artifact("signature") is None


def test_a_damaged_program_goes_to_quarantine(native: Root) -> None:
    """It is as if it were not there."""
    trace = store(traces_of(native))
    path = program_file(native, trace)
    path.write_bytes(path.read_bytes()[:-1])
    again = stored(traces_of(native))
    assert again.artifact("signature") is None and not path.exists()
    assert [record.damage for record in Quarantine(native).records()] == [Damage.SEAL]


def test_a_trace_of_a_shared_root_has_programs_in_both(native: Root, tmp_path: Path) -> None:
    """Programs lie beside it, or in the root that is written; only what served from that one counts as used."""
    shared = create_root(tmp_path / "shared")
    store(traces_of(shared))
    traces = traces_of(native, shared)
    trace = stored(traces)
    assert trace.artifact("signature") == b"StableHLO of program" and trace.used == []
    traces.keeping.put_program(trace.opened.header, "signature", "gpu", "jit_step-2")
    assert [*trace.executables("signature", "gpu")] == ["jit_step-2"]
    assert trace.used == [program_key(trace.opened.header, "gpu")]
    own = store(traces_of(create_root(tmp_path / "own")))
    assert own.artifact("signature") and own.used == [
        own.opened.header.key,
        program_key(own.opened.header, "signature"),
    ]
