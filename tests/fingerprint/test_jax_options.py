"""Options of JAX, and the mesh in effect, are parts of the key of a graph that uses JAX."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint import fingerprint
from jcache.fingerprint.jax_options import values
from tests.helpers.fingerprints import imported


def test_the_environment_sets_the_options_of_a_jax_that_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that JAX will have, however a truth value is written there."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    usual = values()
    assert usual[0] == "False"
    for text in ("1", "True"):
        monkeypatch.setenv("JAX_ENABLE_X64", text)
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        assert values() == ("True", *usual[1:-2], "cpu", usual[-1])


@contextmanager
def option(jax: Any, name: str, value: object) -> Iterator[None]:
    """Set an option of JAX within a block."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    yield
    jax.config.update(name, before)


CHANGES: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "x64": lambda jax: jax.enable_x64(True),
    "seed offset": lambda jax: option(jax, "jax_random_seed_offset", 7),
    "generator": lambda jax: jax.default_prng_impl("rbg"),
    "kind of keys": lambda jax: option(jax, "jax_enable_custom_prng", True),
    "device": lambda jax: jax.default_device(jax.devices()[0]),
    "no jit": lambda jax: jax.disable_jit(),
    "mesh": lambda jax: jax.sharding.Mesh(jax.devices()[:1], "x"),
    "other mesh": lambda jax: jax.sharding.Mesh(jax.devices()[:1], "y"),
    "explicit mesh": lambda jax: jax.set_mesh(jax.make_mesh((1,), ("x",))),
    "explicit mesh of two": lambda jax: jax.set_mesh(jax.make_mesh((1, 1), ("x", "y"))),
}


@pytest.mark.jax
@pytest.mark.filterwarnings("ignore:.*context manager has been deprecated:DeprecationWarning")
def test_an_option_or_a_mesh_changes_the_key_of_what_uses_jax(tmp_path: Path) -> None:
    """Each gives another key while it is in effect; the key of what does not use JAX stays the same."""
    import jax

    source = "import jax\ndef build(x=1): return jax.random.key(x)\ndef plain(x=1): return x"
    with imported(tmp_path, source) as model:
        usual, plain = fingerprint(model.build).hash, fingerprint(model.plain).hash
        keys = []
        for change in CHANGES.values():
            with change(jax):
                keys.append(fingerprint(model.build).hash)
                assert fingerprint(model.plain).hash == plain
            assert fingerprint(model.build).hash == usual
    assert len({usual, *keys}) == len(CHANGES) + 1
