"""Code that asks what is another thing in each process, whatever else is the same: the time, the process's number.

Where code that can be reached does so, nothing is known yet: a class may have a method that logs. Where it ran while a
function was traced, the answer may be part of the trace. Clocks that only measure (``time.perf_counter``) do not count.
"""

from __future__ import annotations

import builtins
import datetime
import os
import time
from collections.abc import Iterable
from types import CodeType
from typing import Any, Final

from jcache.fingerprint import name_resolution
from jcache.fingerprint.code import meaning

_ASKED: Final = (time.time, time.time_ns, time.localtime, time.gmtime, time.ctime, time.strftime, os.getpid)
_DATES: Final = frozenset({"now", "utcnow", "today"})


def asked(ran: Iterable[tuple[CodeType, dict[str, Any]]]) -> str | None:
    """Which code that ran has asked that, and for what, in words; None if none has.

    Args:
        ran: code objects, and their globals.
    """
    for code, namespace in ran:
        if code.co_name == "<module>":  # what it keeps is a global, which counts where it is used
            continue
        for lookup in meaning(code).lookups:
            found = name_resolution.find(lookup.chain, namespace, vars(builtins))
            is_date = found.value is datetime.datetime or found.value is datetime.date
            if any(found.value is each for each in _ASKED) or (is_date and not _DATES.isdisjoint(lookup.chain)):
                what = "its process's number" if found.value is os.getpid else "the time"
                return f"`{namespace.get('__name__')}.{code.co_qualname}` asks for {what}"
    return None
