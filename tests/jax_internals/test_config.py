"""Tests for setting JAX's options and putting them back, in processes of their own."""

from pathlib import Path

import pytest

from tests.jax_internals.test_cache_hook import said

pytestmark = pytest.mark.jax

CONFIGURE = """
first, second = "jax_persistent_cache_min_compile_time_secs", "jax_compilation_cache_dir"
flag, nobodys = "jax_disable_most_optimizations", "jax_option_of_a_later_version"
def now():
    return [config.option(name) for name in (first, second, flag)]
"""


@pytest.mark.smoke
def test_options_are_set_and_put_back(tmp_path: Path) -> None:
    """Options that JAX lacks or refuses are reported; restoring twice has the effect of restoring once."""
    program = (
        CONFIGURE
        + """
before = now()
values = {first: 7.0, nobodys: 1, second: "/somewhere", flag: True, "jax_default_matmul_precision": "nonsense"}
configured = config.configure(values)
after = now()
assert str(config.directory()) == "/somewhere" and config.option(nobodys) is None
configured.restore()
assert now() == before and config.directory() is None
jax.config.update(first, 7.0)
configured.restore()
print(json.dumps([after, configured.unknown, config.option(first)]))
"""
    )
    unknown = ["jax_option_of_a_later_version", "jax_default_matmul_precision"]
    assert said(program, tmp_path) == [[7.0, "/somewhere", True], unknown, 7.0]


def test_what_the_program_has_set_since_stays(tmp_path: Path) -> None:
    """Only options that still have the value set by jcache are restored."""
    program = (
        CONFIGURE
        + """
jax.config.update(second, "/before")
configured = config.configure({first: 7, second: "/ours", flag: True})
jax.config.update(second, "/theirs")
configured.restore()
print(json.dumps(now()))
"""
    )
    assert said(program, tmp_path) == [1.0, "/theirs", False]


def test_what_a_context_manager_says_in_one_thread_is_neither_remembered_nor_compared(tmp_path: Path) -> None:
    """The option for all threads is restored, whatever context manager is active in a thread."""
    program = """
from jax._src import config as jax_config
time, name = jax_config.persistent_cache_min_compile_time_secs, "jax_persistent_cache_min_compile_time_secs"
with time(33.0):
    configured = config.configure({name: 7.0})
    assert (time.value, config.option(name)) == (33.0, 7.0)
with time(44.0):
    configured.restore()
print(json.dumps([time.value, config.option(name)]))
"""
    assert said(program, tmp_path) == [1.0, 1.0]
