"""Verdicts on executables, and which keys programs look up in an environment."""

import pytest

from jcache.shipping.forecast.verdict import (
    XLA_CACHES,
    HitCondition,
    MissReason,
    ProgramKind,
    jax_spelling,
    miss,
    program_kind_of,
    unsure,
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, ProgramKind.PLAIN), ("none", ProgramKind.JCACHE), ("", ProgramKind.JCACHE), ("all", None),
        ("xla_gpu_kernel_cache_file", None),
    ],
)  # fmt: skip
def test_the_setting_of_xlas_caches_decides_which_keys_are_looked_up(value: str | None, kind: ProgramKind) -> None:
    """JAX's default hashes the directory, none of the caches does not; some of them are neither."""
    assert program_kind_of({} if value is None else {XLA_CACHES: value}) is kind


@pytest.mark.parametrize(
    ("given", "hashed"), [("/a//b/", "/a/b"), ("/a/../b", "/a/../b"), ("./a", "a"), ("a/./b", "a/b"), ("/", "/")]
)
def test_a_directory_is_spelled_as_jax_hashes_it(given: str, hashed: str) -> None:
    """Slashes and dots that lead nowhere are dropped; a way up may lead elsewhere through a link, and stays."""
    assert jax_spelling(given) == hashed


def test_only_what_cannot_be_hit_is_incompatible() -> None:
    """What is not known may be hit, and is no reason to leave an executable out."""
    never, perhaps = miss(MissReason.JAXLIB, "it is old", "pip"), unsure(MissReason.NO_JAX, "there is no jax")
    assert never.incompatible and not perhaps.incompatible
    assert never.condition == perhaps.condition == HitCondition() and (never.remedy, perhaps.remedy) == ("pip", "")
