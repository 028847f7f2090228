"""Manifests, a machine and its forecast, for tests of the forecast."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Host, Item, Maker, Manifest
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Gpu, Machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import Hit, MissReason
from tests.helpers.entries import key

NEW = Path("/no such place/new/executables")
OLD = "/no such place/old"
FEATURES = {"avx2": True, "avx512f": True, "amx-tile": False}
CPU = Maker(platform="cpu", jaxlib="0.10.2", cpu_name="znver4", cpu_features=("+avx2", "+avx512f", "-amx-tile"))
CUDA = Maker(
    platform="cuda", jaxlib="0.11.2", compute_capability="9.0", abi_version=(("cudnn", "9.19.0"), ("toolkit", "13.0.0"))
)
MACHINE = Machine(
    interpreter="/usr/bin/python3", python=(3, 12), jax="0.10.2", jaxlib="0.10.2", cpu="AMD EPYC", cpu_features=FEATURES
)
GPU_MACHINE = replace(
    MACHINE, jax="0.11.2", jaxlib="0.11.2", platforms=frozenset({"cpu", "cuda"}), gpus=(Gpu("NVIDIA H200", "9.0"),),
    toolkit="13.0.96", cudnn="9.19.0.56",
)  # fmt: skip
WORDED = CPU._replace(compression="zstandard")


def item(number: int = 1, *, maker: int | None = 0, kind: Kind = Kind.EXECUTABLES, **more: Any) -> Item:
    return Item(kind, key(number), 100, digest(b""), 1, 1, codec="zstd", maker=maker)._replace(**more)


def manifest(*makers: Maker, **more: Any) -> Manifest:
    """Return a manifest of one executable of each maker."""
    items = tuple(item(number, maker=number) for number in range(len(makers)))
    whole = Manifest(jcache="1", root=OLD, directory=OLD, host=Host(cpu="AMD EPYC"), makers=makers, items=items)
    return replace(whole, **more)


def judged(maker: Maker, machine: Machine = MACHINE, **more: Any) -> tuple[Hit, MissReason | None, str]:
    """Return the verdict on one executable of a maker: hit, reason and detail."""
    (verdict,) = judge(manifest(maker, **more), machine, NEW, {}).verdicts.values()
    return verdict.hit, verdict.reason, verdict.detail


def announce(whole: Manifest, environment: dict[str, str] | None = None, directory: Path = NEW) -> Forecast:
    return judge(whole, MACHINE, directory, environment or {})
