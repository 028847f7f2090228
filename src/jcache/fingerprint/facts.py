"""Facts of a host or process that functions tell, such as its name, its number of CPUs and its locale.

They are inputs: where code reaches such a function, the present facts are a part of the key.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_CALLED: Final = {
    "platform": "node uname platform machine processor release system version",
    "_socket": "gethostname",
    "os": "uname cpu_count process_cpu_count getlogin getuid geteuid getgid getegid",
    "getpass": "getuser",
}
_IN_A_LOCALE: Final = {
    "locale": "getlocale getpreferredencoding setlocale format_string currency str atof",
    "_locale": "getencoding localeconv setlocale strcoll strxfrm",
}
_COUNTS: Final = "SC_NPROCESSORS_ONLN", "SC_NPROCESSORS_CONF", "SC_PAGE_SIZE", "SC_PHYS_PAGES"


def fact(name: str) -> str:
    """Return what a function of `FACTS` tells; the error if it raises one, as where a host does not know its user."""
    try:
        return str(FACTS[name]())
    except Exception as error:  # noqa: BLE001
        return repr(error)


def zone() -> str:
    """Return the time zone."""
    return f"{time.tzname} {time.timezone} {time.altzone}"


def _call(module: str, name: str, *given: object) -> Any:  # noqa: ANN401
    return getattr(sys.modules[module], name)(*given)


def _calling(module: str, name: str) -> Callable[[], object]:
    return lambda: _call(module, name)


def _locale() -> object:
    return _call("locale", "setlocale", sys.modules["locale"].LC_ALL)


def _thread() -> str:
    is_main = _call("threading", "current_thread") is _call("threading", "main_thread")
    return f"{'main ' if is_main else ''}thread {_call('threading', 'current_thread').name}"


def _limits() -> object:
    names = sorted(each for each in vars(sys.modules["resource"]) if each.startswith("RLIMIT_"))
    return {each: _call("resource", "getrlimit", getattr(sys.modules["resource"], each)) for each in names}


def _names(groups: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(module, name) for module, names in groups.items() for name in names.split()]


FACTS: Final[Mapping[str, Callable[[], object]]] = {
    **{f"{module}.{name}": _calling(module, name) for module, name in _names(_CALLED)},
    **{f"{module}.{name}": _locale for module, name in _names(_IN_A_LOCALE)},
    "multiprocessing.process.current_process": lambda: _call("multiprocessing.process", "current_process").name,
    "multiprocessing.process.parent_process": lambda: _call("multiprocessing.process", "parent_process") is None,
    "os.nice": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "os.getpriority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "os.sched_getaffinity": lambda: sorted(os.sched_getaffinity(0)),
    "os.sysconf": lambda: [os.sysconf(each) for each in _COUNTS if each in os.sysconf_names],
    "resource.getrlimit": _limits,
    "resource.prlimit": _limits,
    "socket.getfqdn": _calling("_socket", "gethostname"),
    "threading.current_thread": _thread,
    "threading.main_thread": _thread,
    "time.mktime": zone,
}
"""Names of functions with functions that return what decides their results."""
