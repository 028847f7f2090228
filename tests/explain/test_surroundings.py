"""What surrounds programs: flags, versions, devices."""

import pytest

from jcache.explain.surroundings import device_changes, flags_in, version_changes
from jcache.vocabulary import CauseKind
from tests.helpers.records import process


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", []),
        ("--xla_a=1 --xla_b", ["--xla_a=1", "--xla_b"]),
        ("--xla_a=1\n--xla_b=x-y", ["--xla_a=1", "--xla_b=x-y"]),
        ("--xla_a=1--xla_b=2", ["--xla_a=1", "--xla_b=2"]),
        ("--xla_force_host_platform_device_count=8 --xla_dump_to=/tmp/x --xla_c", ["--xla_c"]),
        ("no flag", []),
    ],
)
def test_flags_are_read_without_those_that_are_in_no_key(text: str, flags: list[str]) -> None:
    """Flags may be separated by blanks, line ends or nothing; those that JAX leaves out of keys are left out."""
    assert flags_in(text) == flags


def test_versions_and_devices_are_compared() -> None:
    """Versions are one change with the names of what has another one; so are the devices."""
    old, new = process(), process(jaxlib="0.12.0", devices=("8 x cpu",))
    (change,) = version_changes(new, old)
    assert (change.item, change.name, change.current) == (CauseKind.VERSION, "jax and jaxlib", "0.12.0, 0.12.0")
    (change,) = version_changes(new._replace(jax="0.10.2"), old)
    assert change.name == "jaxlib"
    (change,) = device_changes(new, old)
    assert (change.item, change.current, change.baseline) == (CauseKind.DEVICES, "8 x cpu", "1 x cpu")
    assert not [*version_changes(old, old), *device_changes(old, old)]
