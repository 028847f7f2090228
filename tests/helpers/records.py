"""Records of runs as the recorder writes them, made of the values that a test names, and changed as programs change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from jcache.explain.baseline import History
from jcache.explain.change import Change
from jcache.explain.diagnosis import diagnose
from jcache.explain.programs import Programs
from jcache.explain.result import Diagnosis
from jcache.layout import Root
from jcache.runs.calls import HIT, STORED
from jcache.runs.record import COMPUTATION, Argument, ProcessRecord, ProgramRecord, RunRecord, record_from
from jcache.store.run_records import read_records

COMMAND = ("python", "train.py")
SECOND = 1_000_000_000
START = 1_764_000_000 * SECOND
JAXLIB, PLATFORM, FLAGS, OPTIONS, TOPOLOGY = (
    "jax_lib version",
    "backend version",
    "XLA flags",
    "compile_options",
    "accelerator_config",
)
USUAL = {"jax_enable_x64": "False", "jax_default_matmul_precision": "None"}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def program(
    name: str = "step",
    module: str = "module @jit_step",
    *,
    flags: str = "",
    jaxlib: str = "0.10.2",
    topology: str = "1 x cpu",
    outcome: str = STORED,
    **fields: Any,
) -> ProgramRecord:
    """Return a program whose key follows from its parts, as JAX's does."""
    parts = {
        COMPUTATION: sha256(module),
        JAXLIB: sha256(jaxlib),
        PLATFORM: sha256("cpu"),
        FLAGS: sha256(flags),
        OPTIONS: sha256(f"options {flags}"),
        TOPOLOGY: sha256(topology),
        **fields.pop("parts", {}),
    }
    key = f"jit_{name}-{sha256(name + repr(sorted(parts.items())))}"
    times = {"trace_seconds": 0.1, "lower_seconds": 0.1, "compile_seconds": None if outcome == HIT else 1.0}
    given: dict[str, Any] = {
        "function": name,
        "source": f"/home/ada/{name}.py:7",
        "options": 0,
        "arguments": (Argument("batch", "f32[64,128]"),),
        "key": key,
    }
    return ProgramRecord(name=f"jit_{name}", outcome=outcome, parts=parts, **(given | times | fields))


def process(*programs: ProgramRecord, flags: str = "", **fields: Any) -> ProcessRecord:
    """Return a process of these programs; the flags are XLA's, and are in the parts of each program."""
    jaxlib = fields.get("jaxlib", "0.10.2")
    usual: dict[str, Any] = {
        "host": "here",
        "jax": jaxlib,
        "jaxlib": jaxlib,
        "platform": "cpu",
        "devices": ("1 x cpu",),
        "variables": {"XLA_FLAGS": flags} if flags else {},
        "options": (USUAL,),
        "values": {FLAGS: {sha256(flags): flags}, JAXLIB: {sha256(jaxlib): jaxlib}},
    }
    return ProcessRecord(pid=1, programs=programs, **(usual | fields))


def run(number: int, *processes: ProcessRecord, command: tuple[str, ...] = COMMAND) -> RunRecord:
    """Return a run; runs with higher numbers are later ones."""
    return RunRecord(f"20261125T00{number:04d}Z-{number:06x}", command, START + number * SECOND, processes)


class TextPrograms(Programs):
    """Modules that are texts already, and compile options that are JSON, so that no JAX is needed.

    Args:
        texts: the modules that are kept.
    """

    def __init__(self, *texts: str) -> None:
        super().__init__(lambda module: None, None)
        self._kept = {sha256(text): text for text in texts}

    def text(self, module: str) -> str | None:
        return self._kept.get(module)

    def options(self, proto: str) -> Mapping[str, str] | None:
        return dict(json.loads(proto)) if proto.startswith("{") else None


FAST_MATH = "--xla_cpu_enable_fast_math=true"
OPERATION = {"source": "/x/site-packages/jax/_src/lax/lax.py:9"}


def module_text(
    *,
    name: str = "jit_step",
    helper: str = "helper",
    constant: str = "2.0",
    size: int = 64,
    dtype: str = "f32",
    swap: bool = False,
) -> str:
    """Return a module as JAX prints it, simplified."""
    operations = ["    %1 = stablehlo.sine %0", "    %2 = stablehlo.cosine %0"]
    lines = operations[::-1] if swap else operations
    return "\n".join(
        [
            f"module @{name} {{",
            f"  func.func public @main(%arg0: tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}> {{",
            f"    %0 = call @{helper}(%arg0) : (tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}>",
            *lines,
            "  }",
            f"  func.func private @{helper}(%arg0: tensor<{size}x{dtype}>) -> tensor<{size}x{dtype}> {{",
            f"    %cst = stablehlo.constant dense<{constant}> : tensor<{dtype}>",
            "  }",
            "}",
        ]
    )


class KnownEvidence:
    """What a root knows, as values, of what happened at a time; it is soon after the first run if none is given."""

    def __init__(
        self, removed: dict[str, str] | None = None, damaged: dict[str, str] | None = None, *, at_ns: int | None = None
    ) -> None:
        self._removed, self._damaged, self._at_ns = removed or {}, damaged or {}, at_ns or START + 1 + SECOND

    def damage(self, key: str, after_ns: int, before_ns: int) -> str | None:
        return self._damaged.get(key) if after_ns < self._at_ns < before_ns else None

    def removal(self, key: str, after_ns: int, before_ns: int) -> str | None:
        return self._removed.get(key) if after_ns < self._at_ns < before_ns else None

    def nearest_entry(self, program: ProgramRecord) -> Change | None:
        return None


def records_of(root: Root) -> dict[str, RunRecord]:
    """Return the records that a root has, by the identifiers of the runs."""
    return {record.id: record for data in read_records(root) if (record := record_from(data)) is not None}


def new_record(root: Root, before: Collection[str], told: str) -> RunRecord:
    """Return the one record that a run has added, whatever the clock does between two runs.

    Args:
        root: the root.
        before: the identifiers of the records that were there before.
        told: what the run wrote to stderr; a failure shows it.
    """
    added = [record for name, record in records_of(root).items() if name not in before]
    assert len(added) == 1, told
    return added[0]


def explained(*runs: RunRecord, texts: tuple[str, ...] = (), **options: Any) -> Diagnosis:
    """Return the diagnosis of the last run."""
    return diagnose(History(runs), runs[-1], TextPrograms(*texts), **options)


def argument(**fields: Any) -> tuple[Argument, ...]:
    return (Argument("batch", "f32[64,128]")._replace(**fields),)
