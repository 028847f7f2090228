"""Features of CPUs: those of this one, compared with those that an executable was compiled for."""

import platform

import pytest

from jcache.formats.inspection import inspect
from jcache.shipping.forecast.cpu_features import compare_features, kernel_features
from jcache.shipping.forecast.machine import this_machine
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture


@pytest.mark.jax
def test_features_of_real_entries(cpu_entries: JaxEntries) -> None:
    """For entries made here, this CPU's state of each feature is known and agrees."""
    found = inspect(cpu_entries.bytes("jit_named_step"))
    mine = this_machine({}).cpu_features
    if found.cpu_features is None:
        pytest.skip("this jaxlib does not name the features")
    told = {name.lstrip("+-"): not name.startswith("-") for name in found.cpu_features}
    both = told.keys() & mine.keys()
    assert {name: told[name] for name in both} == {name: mine[name] for name in both}
    assert len(both) > 20 or not mine


def test_what_is_missing_and_what_is_more() -> None:
    """A feature that the CPU lacks, one that it has besides, and one of which nothing is known, are told apart."""
    here = {"avx2": True, "avx512f": False, "sha": True}
    assert compare_features(["+avx2", "-avx512f", "+sha"], here) == ([], [], [])
    assert compare_features(["+avx2", "+avx512f", "-sha", "+quux", "-zork"], here) == (["avx512f"], ["sha"], ["quux"])


def test_a_list_without_signs_is_complete() -> None:
    """Up to jax 0.9 a feature that is not in the list was not there."""
    assert compare_features(["+avx2"], {"avx2": True, "sha": True}) == ([], ["sha"], [])
    assert compare_features(["+avx2", "-zork"], {"avx2": True, "sha": True}) == ([], [], [])


@pytest.mark.parametrize("name", ["prefer-no-gather", "slow-3ops-lea", "xsaves", "rdseed"])
def test_what_the_kernel_hides_is_no_difference(name: str) -> None:
    """Tuning features, and those that the kernel clears for reasons of its own, do not count."""
    assert compare_features([f"+{name}", "-x"], {}) == ([], [], [])


def test_an_older_kernel_may_hide_recent_features() -> None:
    """What an old kernel does not show may be there all the same; what it shows counts."""
    machine = platform.machine()
    old, new = kernel_features(machine, "4.18.0"), kernel_features(machine, "6.1.0")
    assert old.items() <= new.items()
    assert all(new[name] is False for name in new.keys() - old.keys())
