"""Loading executables with the installed jaxlib, in a process that may crash."""

import random
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.verify.load_check import LoadOutcome, try_loading
from tests.helpers.entries import tree
from tests.helpers.jax_entries import H200, JaxEntries, cpu_entries_fixture as cpu_entries_fixture, entries_of
from tests.verify.test_load_check import changed, entries, verdicts

SEVERAL_DEVICES = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

def on_four(x): return x.sum(), x * 2
def on_two(x): return x.sum(), x * 3
def root(x): return jnp.linalg.cholesky(x)
def spread(*devices):
    return jax.device_put(np.arange(8.0), NamedSharding(Mesh(np.array(devices), "a"), PartitionSpec("a")))
jax.jit(on_four)(spread(*jax.devices()))
jax.jit(on_two)(spread(jax.devices()[2], jax.devices()[1]))
jax.jit(root)(np.eye(3, dtype=np.float32))
"""


@pytest.fixture(scope="session")
def several_devices(tmp_path_factory: pytest.TempPathFactory) -> JaxEntries:
    """Entries for four devices, for the devices 2 and 1, and one that calls LAPACK."""
    return entries_of(SEVERAL_DEVICES, tmp_path_factory.mktemp("devices") / "several_devices.py")


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_what_this_jax_wrote_loads(cpu_entries: JaxEntries) -> None:
    """Every entry of the installed JAX loads, and the results are in the order of the entries."""
    paths = entries(cpu_entries.directory)[::-1]
    found = list(try_loading(paths))
    assert [one.path for one in found] == paths
    assert {(one.outcome, one.evidence, one.jaxlib) for one in found} == {(LoadOutcome.LOADS, "", version("jaxlib"))}


@pytest.mark.jax
def test_nothing_is_touched(cpu_entries: JaxEntries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the entries nor the user's cache directory change, and the working directory stays clean."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = tree(cpu_entries.directory)
    assert set(verdicts(try_loading(entries(cpu_entries.directory))).values()) == {LoadOutcome.LOADS}
    assert tree(cpu_entries.directory) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.jax
def test_entries_of_a_gpu_are_for_elsewhere() -> None:
    """An entry for a platform that this machine lacks is not called damaged."""
    found = list(try_loading(entries(H200)))
    assert [one.outcome for one in found] == [LoadOutcome.ELSEWHERE] * 3
    assert {one.evidence for one in found} == {"it is for cuda, and JAX has cpu here"}


@pytest.mark.jax
def test_several_devices(several_devices: JaxEntries, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable for several devices loads if there are enough devices; otherwise its outcome is ELSEWHERE."""
    paths = [several_devices.path("jit_on_four"), several_devices.path("jit_on_two")]
    assert [(one.outcome, one.evidence) for one in try_loading(paths)] == [
        (LoadOutcome.ELSEWHERE, "it needs cpu devices 1, 2, 3, which are not here"),
        (LoadOutcome.ELSEWHERE, "it needs cpu devices 2, 1, which are not here"),
    ]
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    assert {one.outcome for one in try_loading(paths)} == {LoadOutcome.LOADS}


@pytest.mark.jax
def test_the_users_platforms_count(cpu_entries: JaxEntries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executables for the CPU load whatever JAX_PLATFORMS says; if a platform fails, that is the reason why
    none loads.
    """
    path = cpu_entries.path("jit_odd_types")
    monkeypatch.setenv("JAX_PLATFORMS", "nonesuch")
    (found,) = try_loading([path])
    assert found.outcome is LoadOutcome.ELSEWHERE
    assert "JAX has no device here: RuntimeError: Unable to initialize backend 'nonesuch'" in found.evidence
    monkeypatch.delenv("JAX_PLATFORMS")
    assert verdicts(try_loading([path])) == {path.name: LoadOutcome.LOADS}


@pytest.mark.jax
@pytest.mark.skipif(version("jaxlib").startswith("0.4."), reason="looks for handlers when the executable runs")
def test_what_a_program_would_have_registered(several_devices: JaxEntries, tmp_path: Path) -> None:
    """An executable that calls a target of the program's own libraries is undamaged, but cannot load here."""
    path = several_devices.path("jit_root")
    assert verdicts(try_loading([path])) == {path.name: LoadOutcome.LOADS}
    (found,) = try_loading([changed(path, tmp_path / "x-cache", b"lapack_spotrf_ffi", b"mypack_spotrf_ffi")])
    assert found.outcome is LoadOutcome.ELSEWHERE
    assert "No FFI handler registered for mypack_spotrf_ffi" in found.evidence


@pytest.mark.jax
def test_refusals_have_a_reason(cpu_entries: JaxEntries, tmp_path: Path) -> None:
    """Refusals of the codec or of jaxlib are reported with their message; unreadable entries are ELSEWHERE."""
    good = cpu_entries.path("jit_named_step")
    entry = unpack_executable(good.read_bytes())
    torn, cut, hidden, gone, zlib = (tmp_path / name for name in ("torn", "cut", "hidden", "gone", "zlib"))
    torn.write_bytes(good.read_bytes()[:-100])
    cut.write_bytes(pack_executable(entry.payload[:-100], entry.seconds, entry.codec))
    hidden.mkdir()
    zlib.write_bytes(pack_executable(entry.payload, entry.seconds, Codec.ZLIB))
    found = list(try_loading([torn, gone, cut, hidden, zlib]))
    refused = {"torn": LoadOutcome.REFUSED, "cut": LoadOutcome.REFUSED}
    assert verdicts(found) == refused | {"hidden": LoadOutcome.ELSEWHERE, "zlib": LoadOutcome.LOADS}
    assert found[0].evidence.startswith("DamagedEntry: A zstd frame cannot be read")
    assert re.match(r"\w+RuntimeError: [A-Z_]+: ", found[1].evidence)
    assert found[2].evidence == "it cannot be read: Is a directory"


@pytest.mark.jax
def test_flipped_bits_reach_xla_and_nothing_else(
    cpu_entries: JaxEntries, tmp_path: Path, chance: random.Random
) -> None:
    """Whatever a flipped bit in an executable does to jaxlib, each entry gets a result, and this process survives."""
    for number in range(40):
        entry = unpack_executable(chance.choice(entries(cpu_entries.directory)).read_bytes())
        payload = bytearray(entry.payload)
        payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
        (tmp_path / f"{number:02}-cache").write_bytes(pack_executable(bytes(payload), entry.seconds, entry.codec))
    found = list(try_loading(entries(tmp_path), time_limit_s=20.0))
    assert sorted(one.path for one in found) == entries(tmp_path)
    assert all(one.evidence or one.outcome is LoadOutcome.LOADS for one in found)
