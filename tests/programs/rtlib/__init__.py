"""A small library with state: a registry, a configuration, a cache, and functions that read what they are given."""

import contextvars
import dataclasses
import functools
import inspect
import os
import re
import sys
import typing

import numpy as np

REGISTRY = {}
HOOKS = []
PLUGINS = []
TABLE = np.array([1.0])
SCALE = contextvars.ContextVar("scale", default=1.0)
_CACHE = {}


class Config:
    rate = 1.0

    def __init__(self):
        self.extra = {}
        self.mode = "plain"


config = Config()


@dataclasses.dataclass(frozen=True)
class Options:
    rate: float = 1.0
    names: tuple = ()


default_options = Options()


class Plugin:
    rate = 1.0

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        PLUGINS.append(cls)


class Model:
    """Calls the method that a subclass has."""

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return x


@functools.singledispatch
def conv(value):
    return 1.0


def register(name, function=None):
    if function is None:
        return lambda function: register(name, function)
    REGISTRY[name] = function
    return function


def apply(name, x):
    return REGISTRY[name](x)


def apply_all(x):
    for function in REGISTRY.values():
        x = function(x)
    return x


def run_hooks(x):
    for hook in HOOKS:
        x = hook(x)
    return x


def plugin_rate():
    return PLUGINS[-1].rate


def configured(x):
    return x * config.rate


def configured_extra(x):
    return x * config.extra.get("rate", 1.0)


def by_mode(x):
    return x * (2.0 if config.mode == "fast" else 3.0)


def optional(x):
    return x * default_options.rate


def scaled(x):
    return x * SCALE.get()


def from_table(x, place=0):
    return x * float(TABLE[place])


def cached(name, make):
    if name not in _CACHE:
        _CACHE[name] = make()
    return _CACHE[name]


def cached_rate(name):
    return _CACHE.get(name, 1.0)


@functools.cache
def looked_up(name):
    return REGISTRY[name]()


def hint_rate(function):
    return float(typing.get_args(typing.get_type_hints(function)["return"])[0])


def doc_rate(function):
    return float(re.search(r"rate (\S+)", function.__doc__)[1])


def default_rate(function):
    return inspect.signature(function).parameters["rate"].default


def order_rate(function):
    return float(list(inspect.signature(function).parameters).index("rate") + 2)


def source_rate(function):
    return float(len(inspect.getsource(function)))


def name_rate(function):
    return float(len(function.__name__))


def qualified_rate(function):
    return float(len(function.__qualname__))


def attribute_rate(value):
    return getattr(value, "_rtlib_rate", 1.0)


def field_rate(value):
    return float(
        sum((place + 1) * each.metadata.get("rate", 1.0) for place, each in enumerate(dataclasses.fields(value)))
    )


def members_rate(cls):
    return float(
        sum(getattr(cls, name) * (place + 1) for place, name in enumerate(vars(cls)) if name.startswith("rate"))
    )


def bases_rate(cls):
    return float(len(cls.__mro__))


def subclasses_rate(cls):
    return float(len(cls.__subclasses__()) + 2)


def env_rate(name="RTLIB_RATE"):
    return float(os.environ.get(name, "1.0"))


def env_rates(prefix="RTLIB_"):
    return float(sum(float(value) for name, value in os.environ.items() if name.startswith(prefix)) + 1)


def argv_rate():
    return float(sys.argv[1]) if len(sys.argv) > 1 else 1.0


def main_rate():
    return sys.modules["__main__"].RATE


def modules_rate(prefix):
    return float(sum(name.startswith(prefix) for name in sys.modules) + 2)


def caller_rate():
    return sys._getframe(1).f_globals["RATE"]


def file_rate(path):
    with open(path) as file:
        return float(file.read())
