"""Things of the interpreter by which a result depends on what nobody can see, or by which anything can be reached."""

# ruff: noqa: ANN401 - names stand for anything

import builtins
import importlib
import os
import sys
import types
from collections.abc import Mapping
from typing import Any, Final

from jcache.fingerprint.bytecode import NOTHING
from jcache.fingerprint.name_resolution import ABSENT, Unimported
from jcache.fingerprint.refusals import Refused


def reads_itself(value: Any) -> bool:
    """Whether it is a builtin through which code can read any global."""
    return value is builtins.globals or value is builtins.eval or value is builtins.exec


def check(value: Any, given: frozenset[Any]) -> None:
    """Refuses what makes a result depend on something that nobody can see.

    Raises:
        Refused: it does.
    """
    reason: tuple[str, str] | None = None
    if isinstance(value, _CALLED) or type(value).__name__ in _COMPILED:
        reason = _OPAQUE.get((value.__module__, value.__name__))
        if reason is None and _is_shared_random(value):
            reason = "draws from random numbers that all of the process share", "pass in a generator with a seed"
        if reason is None and NOTHING in given and _makes_unseeded(value):
            reason = "makes a generator of random numbers without a seed", "give it a seed"
    elif isinstance(value, Unimported):
        home, _, name = value.path.rpartition(".")
        if home == "numpy.random" and (NOTHING in given or (name[:1].islower() and name != "default_rng")):
            reason = "draws from random numbers that may have no seed", "pass in a generator with a seed"
    elif value is not None and (value is sys.stdin or value is sys.__stdin__):
        reason = "is what the program is given to read", "read it before and pass it in"
    elif value is sys.modules:
        reason = "is what happens to be imported", "import what is meant"
    if reason is not None:
        raise Refused(value, f"it {reason[0]}", reason[1])


_COMPILED: Final = ("cython_function_or_method", "builtin_function_or_method", "method")
_CALLED: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_THERE: Final = "reads what happens to be there", "call what is meant by its name"
_CHANCE: Final = "is random", "pass in what it gives"
_OPAQUE: Final[Mapping[tuple[str | None, str], tuple[str, str]]] = {
    **{("sys", name): _THERE for name in ("_getframe", "_current_frames", "_getframemodulename")},
    **{("inspect", name): _THERE for name in ("currentframe", "stack", "getmodule")},
    **{("gc", name): _THERE for name in ("get_objects", "get_referrers")},
    **{(module, "urandom"): _CHANCE for module in ("posix", "nt")},
    **{("uuid", name): _CHANCE for name in ("uuid1", "uuid4")},
    **{("secrets", name): _CHANCE for name in ("token_bytes", "token_hex", "token_urlsafe", "randbelow")},
    ("random", "SystemRandom"): _CHANCE,
    ("builtins", "input"): ("asks a person", "pass the answer in"),
}


def _is_shared_random(value: Any) -> bool:
    """Whether it is a function of ``random`` or ``numpy.random`` that has no generator of its own."""
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return False
    hidden = getattr(sys.modules.get("random"), "_inst", None)
    legacy = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    system = getattr(sys.modules.get("random"), "SystemRandom", None)
    return owner is hidden or (legacy is not None and owner is legacy) or (system is not None and type(owner) is system)


def _makes_unseeded(value: Any) -> bool:
    random, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    return any(
        value is getattr(module, name, ABSENT)
        for module in (random, numpy)
        for name in ("Random", "default_rng", "RandomState", "PCG64", "MT19937", "Philox", "SFC64", "SeedSequence")
    )


def is_environment(value: Any) -> bool:
    """Whether the environment is read through it."""
    return value is os.environ or value is os.getenv or value is os.environb or value is os.getenvb


def is_importer(value: Any) -> bool:
    """Whether it imports what it is given the name of."""
    return value is importlib.import_module or value is builtins.__import__
