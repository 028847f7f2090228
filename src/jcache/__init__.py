"""See, bound, check and ship the on-disk caches of JAX programs.

    import jcache
    jcache.enable()             # JAX keeps its compiled programs in a jcache root
    jcache.stats()              # what that has done for this process
    jcache.info()               # what the root holds
    jcache.prune(max_size="20GiB", older_than="30d")
    jcache.clear("executables")

    @jcache.jit                 # jax.jit whose programs start without tracing, lowering and compiling
    def step(state, batch): ...

    jcache.precompile(step, (state_spec, batch_spec))     # and are stored ahead of time

    @jcache.graph               # what a slow function builds is kept, under a key of all that it depends on
    def mesh(resolution): ...

Importing it costs next to nothing: JAX is imported by `enable`, and everything else when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jcache.admin.api import clear, info, prune
    from jcache.admin.census import Census, Group, KindCensus
    from jcache.entry import Entry
    from jcache.errors import (
        CannotWrite,
        GraphKeyError,
        InvalidValue,
        JcacheError,
        LedgerUnavailable,
        Locked,
        NoCacheHere,
        NotInEffect,
        NotStorable,
    )
    from jcache.formats.pytrees import register_class
    from jcache.graphs.cache import GraphCache, GraphFunction, graph
    from jcache.graphs.file_codec import FileCodec
    from jcache.graphs.stats import GraphStats
    from jcache.jax_internals.presets import Preset
    from jcache.layout import Kind, Root
    from jcache.runs.calls import GraphCall, TraceCall
    from jcache.runs.graph_report import GraphReport
    from jcache.runs.log import Program
    from jcache.runs.report import RunReport
    from jcache.runs.trace_report import TraceReport
    from jcache.runtime.enable import disable, enable, stats
    from jcache.runtime.explain import Explanation
    from jcache.runtime.settings import Enabled, Write
    from jcache.store.economics import Economics
    from jcache.store.eviction import Order, Reason, Verdict
    from jcache.store.removal import Failure, Removed
    from jcache.traces.jit import Jitted, jit
    from jcache.traces.precompile import Precompilation, Precompiled, Spec, precompile

__version__ = "0.1.0"
__all__ = [
    "CannotWrite",
    "Census",
    "Economics",
    "Enabled",
    "Entry",
    "Explanation",
    "Failure",
    "FileCodec",
    "GraphCache",
    "GraphCall",
    "GraphFunction",
    "GraphKeyError",
    "GraphReport",
    "GraphStats",
    "Group",
    "InvalidValue",
    "JcacheError",
    "Jitted",
    "Kind",
    "KindCensus",
    "LedgerUnavailable",
    "Locked",
    "NoCacheHere",
    "NotInEffect",
    "NotStorable",
    "Order",
    "Precompilation",
    "Precompiled",
    "Preset",
    "Program",
    "Reason",
    "Removed",
    "Root",
    "RunReport",
    "Spec",
    "TraceCall",
    "TraceReport",
    "Verdict",
    "Write",
    "clear",
    "disable",
    "enable",
    "graph",
    "info",
    "jit",
    "precompile",
    "prune",
    "register_class",
    "stats",
]
_MODULES = {
    "jcache.admin.api": ("clear", "info", "prune"),
    "jcache.runs.calls": ("GraphCall", "TraceCall"),
    "jcache.admin.census": ("Census", "Group", "KindCensus"),
    "jcache.store.economics": ("Economics",),
    "jcache.runtime.settings": ("Enabled", "Write"),
    "jcache.entry": ("Entry",),
    "jcache.errors": (
        "CannotWrite",
        "GraphKeyError",
        "InvalidValue",
        "JcacheError",
        "LedgerUnavailable",
        "Locked",
        "NoCacheHere",
        "NotInEffect",
        "NotStorable",
    ),
    "jcache.store.eviction": ("Order", "Reason", "Verdict"),
    "jcache.runtime.explain": ("Explanation",),
    "jcache.graphs.file_codec": ("FileCodec",),
    "jcache.runs.graph_report": ("GraphReport",),
    "jcache.graphs.stats": ("GraphStats",),
    "jcache.graphs.cache": ("GraphCache", "GraphFunction", "graph"),
    "jcache.traces.jit": ("Jitted", "jit"),
    "jcache.layout": ("Kind", "Root"),
    "jcache.traces.precompile": ("Precompilation", "Precompiled", "Spec", "precompile"),
    "jcache.jax_internals.presets": ("Preset",),
    "jcache.formats.pytrees": ("register_class",),
    "jcache.runs.log": ("Program",),
    "jcache.store.removal": ("Failure", "Removed"),
    "jcache.runs.report": ("RunReport",),
    "jcache.runtime.enable": ("disable", "enable", "stats"),
    "jcache.runs.trace_report": ("TraceReport",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with import_module("jcache.jax_internals.gc_pause").collector.waits():
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
