"""Names of objects are those of the layout's page, and stand for what they were made of."""

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.remote import names
from tests.helpers.entries import key

DEVICES = st.none() | st.text(max_size=12)


def test_the_layout() -> None:
    """The names are spelled as the documentation has them."""
    space = names.namespace_of("0.10.2", "cuda", "9.0")
    assert names.entry_name(Kind.EXECUTABLES, space, key(1)) == f"v1/executables/0.10.2_cuda_9.0/{key(1)}-cache"
    assert names.entry_name(Kind.TRACES, "", key(1)) == f"v1/traces/{key(1)}-cache"
    assert names.digest_name(f"v1/traces/{key(1)}-cache") == f"v1/traces/{key(1)}-digest"
    assert names.generation_name("nightly-1") == "v1/generations/nightly-1.jcache"
    assert names.generation_of("v1/generations/nightly-1.jcache") == "nightly-1"
    for other in ("nightly-1", "v1/generations/nightly-1", "v1/generations/a/b.jcache", "v1/generations/.jcache"):
        assert names.generation_of(other) is None
    assert names.namespace_of(None, "", "NVIDIA H100 80GB_x") == "unknown_unknown_NVIDIA-H100-80GB-x"


@settings(max_examples=30)
@given(jaxlib=DEVICES, platform=DEVICES, device=DEVICES)
def test_every_namespace_is_one(jaxlib: str | None, platform: str | None, device: str | None) -> None:
    """Whatever the parts are, a namespace is one part of a name that can be taken apart."""
    space = names.namespace_of(jaxlib, platform, device)
    assert names.is_namespace(space) and len(names.parts_of(space)) == 3
    name = names.entry_name(Kind.EXECUTABLES, space, key(1))
    assert names.parse_name(name) == (Kind.EXECUTABLES, space, key(1), False)
    assert names.parse_name(names.digest_name(name)) == (Kind.EXECUTABLES, space, key(1), True)


@pytest.mark.parametrize(
    "name",
    [
        "", "v1", f"v2/traces/{key(1)}-cache", f"v1/traces/x/{key(1)}-cache", f"v1/executables/{key(1)}-cache",
        f"v1/executables/a_b/{key(1)}-cache", f"v1/executables/a/b_c_d/{key(1)}-cache", "v1/traces/x-cache",
        f"v1/traces/{key(1)}", f"v1/traces/{key(1)}-atime", "v1/usage/2026-01-01/host-1", "v1/prune-lease",
    ],
)  # fmt: skip
def test_other_names(name: str) -> None:
    """What is no entry's object is left alone."""
    assert names.parse_name(name) is None


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "ü", "a" * 129, "a b"])
def test_bad_names_of_generations(name: str) -> None:
    """A generation has a name that every store takes."""
    with pytest.raises(InvalidValue):
        names.generation_name(name)
