"""The options of JAX that each preset sets, and those that the environment overrides."""

import pytest

from jcache.jax_internals.presets import (
    ENABLE_OPTION,
    JAX_DEFAULTS,
    OFF_BY_RUN,
    RUN_CACHE,
    SETTINGS,
    STORE_EVERYTHING,
    Preset,
    overridden,
)
from tests.helpers.jax_programs import run


@pytest.mark.parametrize("preset", Preset)
def test_every_preset_stores_everything(preset: Preset) -> None:
    """A preset sets all options by which JAX stores every executable, and at most one of the compiler's."""
    assert STORE_EVERYTHING.items() <= SETTINGS[preset].items()
    assert len(SETTINGS[preset]) - len(STORE_EVERYTHING) == (preset is not Preset.BALANCED)
    assert SETTINGS[preset].keys() <= JAX_DEFAULTS.keys()


@pytest.mark.parametrize("option", SETTINGS[Preset.MAX_PERFORMANCE])
def test_a_variable_of_the_user_wins(option: str) -> None:
    """An option is overridden exactly if its variable is set, and not empty; `jcache run` is no user."""
    assert overridden(Preset.MAX_PERFORMANCE, {}) == overridden(Preset.MAX_PERFORMANCE, {option.upper(): ""}) == set()
    assert overridden(Preset.MAX_PERFORMANCE, {option.upper(): "1", "JAX_LOG_COMPILES": "1"}) == {option}
    run_s = {ENABLE_OPTION.upper(): OFF_BY_RUN, RUN_CACHE: "/cache"}
    assert overridden(Preset.BALANCED, run_s) == set()


@pytest.mark.jax
def test_the_defaults_are_those_of_jax() -> None:
    """What jcache takes for JAX's default is the default of the installed JAX, for each option that it has."""
    program = "import json, jax; print(json.dumps({name: getattr(jax.config, name, None) for name in %r}))"
    found = run(program % list(JAX_DEFAULTS)).value
    assert {name: str(value) for name, value in found.items() if value is not None}.items() <= {
        name: str(value) for name, value in JAX_DEFAULTS.items()
    }.items()
