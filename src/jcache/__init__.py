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

from jcache import input_files as _input_files

if TYPE_CHECKING:
    from jcache.admin.api import (
        clear as clear,
        info as info,
        prune as prune,
    )
    from jcache.admin.census import (
        Census as Census,
        KindCensus as KindCensus,
    )
    from jcache.admin.neighbour_groups import Group as Group
    from jcache.entry import Entry as Entry
    from jcache.errors import (
        CannotWrite as CannotWrite,
        GraphKeyError as GraphKeyError,
        InvalidValue as InvalidValue,
        JcacheError as JcacheError,
        LedgerUnavailable as LedgerUnavailable,
        Locked as Locked,
        NoCacheHere as NoCacheHere,
        NotInEffect as NotInEffect,
        NotStorable as NotStorable,
    )
    from jcache.fingerprint.type_keys import register_key as register_key
    from jcache.formats.pytrees import register_class as register_class
    from jcache.graphs.cache import GraphCache as GraphCache
    from jcache.graphs.decorator import (
        GraphFunction as GraphFunction,
        graph as graph,
    )
    from jcache.graphs.file_codec import FileCodec as FileCodec
    from jcache.graphs.stats import GraphStats as GraphStats
    from jcache.jax_internals.presets import Preset as Preset
    from jcache.layout import (
        Kind as Kind,
        Root as Root,
    )
    from jcache.runs.calls import (
        GraphCall as GraphCall,
        TraceCall as TraceCall,
    )
    from jcache.runs.graph_report import GraphReport as GraphReport
    from jcache.runs.log import Program as Program
    from jcache.runs.remote_report import RemoteReport as RemoteReport
    from jcache.runs.report import RunReport as RunReport
    from jcache.runs.trace_report import TraceReport as TraceReport
    from jcache.runtime.enable import (
        disable as disable,
        enable as enable,
        stats as stats,
    )
    from jcache.runtime.explain import Explanation as Explanation
    from jcache.runtime.settings import (
        Enabled as Enabled,
        Write as Write,
    )
    from jcache.store.economics import Economics as Economics
    from jcache.store.order import Order as Order
    from jcache.store.policy import Reason as Reason, Verdict as Verdict
    from jcache.store.removal import (
        Failure as Failure,
        Removed as Removed,
    )
    from jcache.traces.jit import (
        Jitted as Jitted,
        jit as jit,
    )
    from jcache.traces.precompile import (
        Precompilation as Precompilation,
        Precompiled as Precompiled,
        Spec as Spec,
        precompile as precompile,
    )

_input_files.record()

__version__ = "0.2.0"
_MODULES = {
    "jcache.admin.api": "clear info prune",
    "jcache.admin.census": "Census Group KindCensus",
    "jcache.entry": "Entry",
    "jcache.errors": "CannotWrite GraphKeyError InvalidValue JcacheError LedgerUnavailable Locked NoCacheHere "
    "NotInEffect NotStorable",
    "jcache.fingerprint.type_keys": "register_key",
    "jcache.formats.pytrees": "register_class",
    "jcache.graphs.cache": "GraphCache",
    "jcache.graphs.decorator": "GraphFunction graph",
    "jcache.graphs.file_codec": "FileCodec",
    "jcache.graphs.stats": "GraphStats",
    "jcache.jax_internals.presets": "Preset",
    "jcache.layout": "Kind Root",
    "jcache.runs.calls": "GraphCall TraceCall",
    "jcache.runs.graph_report": "GraphReport",
    "jcache.runs.log": "Program",
    "jcache.runs.remote_report": "RemoteReport",
    "jcache.runs.report": "RunReport",
    "jcache.runs.trace_report": "TraceReport",
    "jcache.runtime.enable": "disable enable stats",
    "jcache.runtime.explain": "Explanation",
    "jcache.runtime.settings": "Enabled Write",
    "jcache.store.economics": "Economics",
    "jcache.store.order": "Order",
    "jcache.store.policy": "Reason Verdict",
    "jcache.store.removal": "Failure Removed",
    "jcache.traces.jit": "Jitted jit",
    "jcache.traces.precompile": "Precompilation Precompiled Spec precompile",
}  # where each public name is defined; the imports above say the same to type checkers
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with import_module("jcache.jax_internals.gc_pause").collector.waits_for_imports():
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
