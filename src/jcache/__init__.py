"""See, bound, check and ship the on-disk caches of JAX programs.

    import jcache
    jcache.enable()             # JAX keeps its compiled programs in a jcache root
    jcache.stats()              # what that has done for this process
    jcache.info()               # what the root holds
    jcache.prune(max_size="20GiB", older_than="30d")
    jcache.clear("executables")

Importing it costs next to nothing: JAX is imported by `enable`, and everything else when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jcache.administration import Removed, clear, info, prune
    from jcache.census import Census
    from jcache.errors import JcacheError, NotInEffect
    from jcache.layout import Kind
    from jcache.presets import Preset
    from jcache.runs import RunReport
    from jcache.runtime import disable, enable, stats
    from jcache.session import Enabled, Write

__version__ = "0.1.0"
__all__ = [
    "Census",
    "Enabled",
    "JcacheError",
    "Kind",
    "NotInEffect",
    "Preset",
    "Removed",
    "RunReport",
    "Write",
    "clear",
    "disable",
    "enable",
    "info",
    "prune",
    "stats",
]
_MODULES = {
    "administration": ("Removed", "clear", "info", "prune"),
    "census": ("Census",),
    "errors": ("JcacheError", "NotInEffect"),
    "layout": ("Kind",),
    "presets": ("Preset",),
    "runs": ("RunReport",),
    "runtime": ("disable", "enable", "stats"),
    "session": ("Enabled", "Write"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"jcache.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
