"""The recipe of a compilation, with which another machine compiles the program as JAX would there.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import inspect
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from jcache.jax_internals.config import ChangedOptions, configure

_BUILD_OPTIONS: Final = (  # the options of XLA that JAX sets; the others come from this machine's flags
    "use_spmd_partitioning",
    "use_auto_spmd_partitioning",
    "use_shardy_partitioner",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "optimization_level",
    "memory_fitting_level",
)


class CannotCompile(Exception):
    """A program cannot be compiled here in the recorded way."""


def recipe_of(devices: Any, compile_options: Any) -> str:
    """Return the recipe of a compilation as JSON; an empty text if JSON cannot describe it."""
    build = compile_options.executable_build_options
    if getattr(build, "fdo_profile", None):
        return ""
    told = {
        "devices": [device.id for device in devices.flat],
        "replicas": compile_options.num_replicas,
        "tupled": compile_options.parameter_is_tupled_arguments,
        "overrides": [list(pair) for pair in compile_options.env_option_overrides],
        "build": dict(_told(build)),
    }
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def _told(build: Any) -> Iterator[tuple[str, Any]]:
    for name in _BUILD_OPTIONS:
        with suppress(AttributeError, TypeError):  # jax 0.6 sets levels that it cannot read
            value = getattr(build, name)
            yield name, value if isinstance(value, bool | int | float) else list(value)


def configured(settings: dict[str, str], now: dict[str, str]) -> ChangedOptions:
    """Set JAX's options, given as text, to their values where a program was traced.

    Raises:
        CannotCompile: an option cannot be set here.
    """
    import ast

    differing = {name: text for name, text in settings.items() if now.get(name) != text}
    try:
        values = {name: ast.literal_eval(text) for name, text in differing.items()}
    except (SyntaxError, ValueError) as error:
        raise CannotCompile(f"it was traced under {', '.join(differing)}, which cannot be set here") from error
    ours = configure(values)
    if ours.unknown:
        ours.restore()
        raise CannotCompile(f"it was traced under {', '.join(ours.unknown)}, which cannot be set here")
    return ours


def devices_of(recipe: str) -> Any:
    """Return the devices that a program is compiled for, as JAX hands them to XLA.

    Raises:
        CannotCompile: there is no recipe, or this machine lacks a device.
    """
    import jax
    import numpy as np

    if not recipe:
        raise CannotCompile("the way it was compiled is not on record")
    here = {device.id: device for device in jax.devices()}
    wanted = json.loads(recipe)["devices"]
    lacking = [str(number) for number in wanted if number not in here]
    if lacking:
        names = f"device {lacking[0]}" if len(lacking) == 1 else f"devices {', '.join(lacking[:8])}"
        raise CannotCompile(
            f"it runs on {jax.default_backend()} {names}, which {'is' if len(lacking) == 1 else 'are'} not here"
        )
    devices = np.empty(len(wanted), dtype=object)
    devices[:] = [here[number] for number in wanted]
    return devices


def options_of(recipe: str, module: Any, devices: Any, backend: Any) -> Any:
    """Return XLA's options for a program, as JAX has them on this machine."""
    from jax._src import compiler

    told = json.loads(recipe)
    partitions = len(told["devices"]) // told["replicas"]
    known = {
        "num_replicas": told["replicas"],
        "num_partitions": partitions,
        "device_assignment": devices.reshape(told["replicas"], partitions),
        "env_options_overrides": dict(told["overrides"]),
        "detailed_logging": compiler.use_detailed_logging(module),
        "backend": backend,
    }
    make = compiler.get_compile_options
    options = make(**{name: value for name, value in known.items() if name in inspect.signature(make).parameters})
    options.parameter_is_tupled_arguments = told["tupled"]
    for name, value in told["build"].items():
        setattr(options.executable_build_options, name, value)
    return options


def compile_stored(module: Any, devices: Any, options: Any, backend: Any) -> None:
    """Compile a program through JAX's cache, which stores it."""
    from jax._src import compiler, lib

    function: Any = compiler.compile_or_get_cached
    more = {}
    if "executable_devices" in inspect.signature(function).parameters:
        make: Any = vars(lib)["xla_client"].DeviceList
        more["executable_devices"] = make(tuple(devices.flat))
    function(backend, module, devices, options, host_callbacks=[], **more)
