"""JAX hits an executable only where platform, CPU and GPU are those that it was compiled for."""

from dataclasses import replace
from typing import Any

import pytest

from jcache.shipping.archive.manifest import Host, Maker
from jcache.shipping.forecast.installation import JaxlibFacts
from jcache.shipping.forecast.machine import Gpu
from jcache.shipping.forecast.verdict import Hit, MissReason
from tests.helpers.forecasts import CPU, CUDA, GPU_MACHINE, MACHINE, judged
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


def test_platforms() -> None:
    """Executables for a platform that JAX lacks here cannot be hit."""
    assert judged(CUDA)[1:] == (MissReason.PLATFORM, "they are made for cuda, and JAX has only cpu here")
    assert judged(Maker(platform="tpu", jaxlib="0.10.2"))[:2] == (Hit.CANNOT, MissReason.PLATFORM)
    assert judged(Maker(jaxlib="0.10.2"))[0] is Hit.WILL


def test_features() -> None:
    """The CPU's features are in the keys: one more or one less is a miss, and one less would be dangerous besides."""
    missing = judged(CPU._replace(cpu_features=("+avx2", "+avx512f", "+amx-tile", "+prefer-no-gather")))
    assert missing == (
        Hit.CANNOT, MissReason.CPU,
        "they are made for znver4 with amx-tile, which this CPU lacks; loading them could kill the program",
    )  # fmt: skip
    extra = judged(CPU._replace(cpu_features=("+avx2", "-avx512f", "-amx-tile")))
    assert extra == (Hit.CANNOT, MissReason.CPU, "they are made for znver4 without avx512f, which this CPU has")
    newer = CPU._replace(cpu_features=("+avx2", "+avx512f", "+sha512", "+xsaves", "+prefer-no-scatter", "-movrs"))
    unknown = "they are made for znver4 with sha512, which this CPU may have or not"
    assert judged(newer, host=Host(cpu="A newer one")) == (Hit.UNKNOWN, MissReason.CPU, unknown)
    assert judged(newer)[0] is Hit.WILL  # the archive comes from a machine of the same model
    assert judged(CPU, replace(MACHINE, cpu_features={}))[:2] == (Hit.UNKNOWN, MissReason.CPU)
    middle = replace(MACHINE, jax="0.8.1", jaxlib="0.8.1")
    unsigned = CPU._replace(jaxlib="0.8.1")
    assert judged(unsigned._replace(cpu_features=("avx2", "avx512f")), middle)[0] is Hit.WILL
    assert judged(unsigned._replace(cpu_features=("avx2",)), middle)[:2] == (Hit.CANNOT, MissReason.CPU)


@pytest.mark.parametrize(("answer", "hit"), [("+sha512", Hit.WILL), ("-sha512", Hit.CANNOT), ("+sm3", Hit.UNKNOWN)])
def test_a_feature_that_the_kernel_does_not_show(answer: str, hit: Hit) -> None:
    """The jaxlib is asked whether it compiles for that feature, as on a CPU that is newer than the kernel's tables."""
    newer = CPU._replace(cpu_features=("+avx2", "+avx512f", "+sha512"))
    machine = replace(MACHINE, query_jaxlib=lambda: JaxlibFacts(cpu_features=("+avx2", answer)))
    assert judged(newer, machine, host=Host(cpu="A newer one"))[0] is hit


def test_entries_that_do_not_name_their_cpu() -> None:
    """Up to jax 0.6, entries do not name their CPU, so that of the archive's machine counts."""
    machine = replace(MACHINE, jax="0.6.2", jaxlib="0.6.2")
    old = Maker(platform="cpu", jaxlib="0.6.2")
    assert judged(old, machine)[0] is Hit.WILL
    assert judged(old, machine, host=Host(cpu="Intel Xeon"))[:2] == (Hit.UNKNOWN, MissReason.CPU)
    assert judged(old, machine, host=Host())[:2] == (Hit.UNKNOWN, MissReason.CPU)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (Hit.WILL, None)),
        ({"gpus": (Gpu("NVIDIA A100-SXM4-80GB", "8.0"),)}, (Hit.CANNOT, MissReason.GPU)),
        ({"gpus": (Gpu("NVIDIA A100-SXM4-80GB", "8.0"), Gpu("NVIDIA H200", "9.0"))}, (Hit.WILL, None)),
        ({"gpus": (Gpu("NVIDIA Next", None),)}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"gpus": ()}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"gpus": (Gpu("NVIDIA H100", "9.0"),)}, (Hit.UNKNOWN, MissReason.GPU)),
        ({"toolkit": "12.9.79"}, (Hit.CANNOT, MissReason.TOOLKIT)),
        ({"toolkit": "13.1.0"}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"toolkit": None}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"cudnn": "9.20.0.1"}, (Hit.UNKNOWN, MissReason.TOOLKIT)),
        ({"cudnn": "8.9.0"}, (Hit.CANNOT, MissReason.TOOLKIT)),
        ({"jaxlib": "0.12.0"}, (Hit.CANNOT, MissReason.JAXLIB)),
    ],
)
def test_gpus(changes: dict[str, Any], expected: tuple[Hit, MissReason | None]) -> None:
    """Compute capability and CUDA's versions must be those that an executable was made with."""
    machine = replace(GPU_MACHINE, **changes)
    assert judged(CUDA, machine, host=Host(gpus=("NVIDIA H200",)))[:2] == expected
