"""Functions and values that differ between processes, days or hosts.

A function that can reach a source of nondeterminism is not refused. The fingerprint names the source, so that a result
is compared with the results of the next processes. The date and the facts of a host are inputs: their present values
are parts of the key. Only what a person types, or what standard input holds, is refused.
"""

# ruff: noqa: ANN401 - names stand for anything

import datetime
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.fingerprint import facts
from jcache.fingerprint.bytecode import NOTHING, Named
from jcache.fingerprint.describe import attribute_of
from jcache.fingerprint.refusals import Refused

_TIME: Final = "another time in each process"
_NUMBER: Final = "another number in each process"
_RANDOM: Final = "another random value in each process"
_DAY: Final = "the date"
_PERSON: Final = "what a person types"
_FUNCTIONS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    _TIME: (("time", "time monotonic perf_counter process_time thread_time clock_gettime time_ns monotonic_ns"),
            ("time", "perf_counter_ns process_time_ns thread_time_ns clock_gettime_ns")),
    _DAY: (("time", "localtime gmtime ctime asctime strftime"),
           ("datetime", "datetime.now datetime.utcnow datetime.today date.today")),
    _NUMBER: (("os", "getpid getppid"), ("_thread", "get_ident get_native_id"), ("builtins", "id hash")),
    _RANDOM: (("uuid", "uuid1 uuid4"), ("secrets", "token_bytes token_hex token_urlsafe randbelow"),
              ("tempfile", "mkdtemp mkstemp mktemp"), ("os", "urandom getrandom"), ("random", "SystemRandom")),
    _PERSON: (("builtins", "input"),),
}  # fmt: skip
"""Names of functions, by what they return and by their modules."""
_GIVES: Final = {
    f"{home}.{name}": gives for gives, groups in _FUNCTIONS.items() for home, names in groups for name in names.split()
}
OF_A_RANK: Final = frozenset(  # functions and attributes of JAX that tell the processes of a program from one another
    {"addressable_data", "addressable_devices", "addressable_devices_indices_map", "addressable_shards", "host_id",
     "local_device_count", "local_devices", "local_mesh", "process_id", "process_index"}
)  # fmt: skip
DATES: Final = frozenset({"now", "utcnow", "today"})
ZONED: Final = frozenset({"astimezone", "fromtimestamp", "timestamp"})  # methods that ask for the time zone
_SEEDED: Final = frozenset(
    {"Random", "default_rng", "RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64", "SeedSequence"}
)
_SEEDING: Final = frozenset({"seed", "setstate", "set_state"})  # methods of the generators of the process
_SEEDERS: Final = frozenset({"numpy.random.mtrand.seed", "numpy.random.seed"})  # which are no methods
_SEEDS: Final = "sets the state of a random generator of the process"
_DRAWS: Final = re.compile(r"`(random|numpy\.random\.mtrand)\.\w+` draws|`(numpy\.)?random\.[a-z]\w*`$")
_LOCAL: Final = frozenset({"time.ctime", "time.localtime"})  # which may be given any moment
_CALLED: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_COMPILED: Final = ("cython_function_or_method", "builtin_function_or_method", "method")
STATE_OF: Final = "state of the shared "  # of the random generator of a type, among what is set aside


class Unrepeatable(NamedTuple):
    """Something that differs between processes, days or hosts: a source of nondeterminism, an input, or both."""

    words: str  # a sentence that names a source of nondeterminism; empty for a mere input
    label: str = ""  # the label of the part that an input becomes; empty for a mere source of nondeterminism
    value: Callable[[], object] = bool  # returns the present value of that part
    generator: Any = None  # the process's random generator, if it draws from one that can be seeded


def unrepeatable(value: Any, given: Iterable[object] = ()) -> Unrepeatable | None:
    """Return what differs between processes, days or hosts if code calls a value; None if nothing does.

    Args:
        value: any value that code can reach.
        given: what the code calls it with, as in `jcache.fingerprint.bytecode.CodeReads`.

    Raises:
        Refused: the value reads what a person types, or is standard input.
    """
    if value is not None and (value is sys.stdin or value is sys.__stdin__):
        raise Refused(value, "it is what the program is given to read", "read it before and pass it in")
    if not isinstance(value, _CALLED) and type(value).__name__ not in _COMPILED:
        return None
    if is_shared_random(value):
        does = _SEEDS if value.__name__ in _SEEDING else f"draws {_RANDOM}"
        words = f"`{_home(value.__self__)}.{value.__name__}` {does}"
        return Unrepeatable(words, generator=value.__self__)
    name = name_of(value)
    if name in _SEEDERS:
        return Unrepeatable(f"`{name}` {_SEEDS}", generator=_legacy())
    if name in facts.FACTS:
        return Unrepeatable("", f"host {name}", lambda: facts.fact(name))
    gives = _GIVES.get(name)
    if gives is None:
        is_unseeded = NOTHING in given and is_generator(value)
        return Unrepeatable(f"`{name}` without a seed gives {_RANDOM}") if is_unseeded else None
    if gives == _PERSON:
        raise Refused(value, f"it gives {_PERSON}", "pass the answer in")
    if gives == _DAY:
        return day(name)
    return Unrepeatable(f"`{name}` gives {gives}")


def state_of(generator: Any) -> object:
    """Return the state of a random generator; None if it has none, as the system's."""
    try:
        return generator.getstate() if hasattr(generator, "getstate") else generator.get_state()
    except NotImplementedError:
        return None


def day(name: str) -> Unrepeatable:
    """Return the `Unrepeatable` of a function that returns the date and the time."""
    words = f"`{name}` gives {_TIME}"
    return Unrepeatable(words, "day and time zone", _local_day) if name in _LOCAL else Unrepeatable(words, "day", _day)


def _day() -> str:
    return str(datetime.date.fromtimestamp(clock.now_ns() / 1e9))


def _local_day() -> str:
    return f"{_day()} {facts.zone()}"


def zone() -> Unrepeatable:
    """Return the `Unrepeatable` of the methods that ask for the local time of a moment."""
    return Unrepeatable("", "time zone", facts.zone)


def are_times(words: Iterable[str]) -> bool:
    """Return whether some sentences name sources of nondeterminism, and each of these is a clock."""
    found = [*words]
    return bool(found) and all(each.startswith("`time.") or each.endswith(_TIME) for each in found)


def are_seeds(words: Iterable[str]) -> bool:
    """Return whether one of some sentences names a function that seeds a random generator of the process."""
    return any(each.endswith(_SEEDS) for each in words)


def are_draws(words: Iterable[str]) -> bool:
    """Return whether all that some sentences name draw from a random generator of the process, or seed one."""
    return all(each.endswith(_SEEDS) or _DRAWS.match(each) for each in words)


def is_calendar(value: Any) -> bool:
    """Return whether a value is `datetime.datetime` or `datetime.date`, which have methods for the present date."""
    return value is datetime.datetime or value is datetime.date


def is_shared_random(value: Any) -> bool:
    """Return whether a value draws from the process's ``random`` or ``numpy.random`` generator, or from the system."""
    owner = attribute_of(value, "__self__")
    if owner is None or isinstance(owner, types.ModuleType):
        return False
    system = getattr(sys.modules.get("random"), "SystemRandom", None)
    return is_shared_generator(owner) or (system is not None and type(owner) is system)


def is_shared_generator(value: Any) -> bool:
    """Return whether a value is the generator of the functions of ``random`` or ``numpy.random``."""
    hidden = getattr(sys.modules.get("random"), "_inst", None)
    return value is not None and (value is hidden or value is _legacy())


def _legacy() -> Any:
    """Return the generator of the functions of ``numpy.random``; None if it is not imported."""
    return getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)


def is_generator(value: Any) -> bool:
    """Return whether a value is a class or function that makes a random generator from a seed."""
    name = attribute_of(value, "__name__")
    return name in _SEEDED and any(
        getattr(sys.modules.get(home), name, None) is value for home in ("random", "numpy.random")
    )


def of_unimported(path: str, given: Iterable[object]) -> Unrepeatable | None:
    """Return the `Unrepeatable` of a member of a library that is not imported yet; None if it draws no random value."""
    home, _, name = path.rpartition(".")
    draws = home == "numpy.random" and (NOTHING in given or (name[:1].islower() and name != "default_rng"))
    return Unrepeatable(f"`{path}` may draw {_RANDOM}") if draws else None


def seeds(given: Iterable[object]) -> list[str]:
    return [each.name for each in given if isinstance(each, Named)]


def name_of(value: Any) -> str:
    """Return the module and the name of a function, as in `_FUNCTIONS`."""
    home = attribute_of(value, "__module__") or _home(attribute_of(value, "__self__"))
    return f"{'os' if home in ('posix', 'nt') else home}.{attribute_of(value, '__qualname__', '')}"


def _home(owner: Any) -> str:
    return str(getattr(owner if isinstance(owner, type) else type(owner), "__module__", ""))
