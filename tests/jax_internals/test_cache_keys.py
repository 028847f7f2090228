"""The hook into the keys that JAX computes."""

import pytest

from tests.helpers.jax_programs import run

PROGRAM = """
import json, os, sys
import jax, numpy as np
from jax._src import compilation_cache
from jcache.jax_internals import cache_keys
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
original = compilation_cache.get_cache_key
assert not cache_keys.unexpected()
heard = []
cache_keys.hear(heard.append)
jax.jit(lambda x: x + 1)(np.ones(3))
cache_keys.hear(None)
jax.jit(lambda x: x + 2)(np.ones(3))
stored = [name.removesuffix("-cache") for name in os.listdir(sys.argv[1]) if name.endswith("-cache")]
print(json.dumps([sorted(heard), sorted(stored), compilation_cache.get_cache_key is original]))
"""
MOVED = """
import json, sys
import jax
from jcache.jax_internals import cache_keys
told = []
assert not cache_keys.tries_path_keys()
cache_keys.try_path_keys(lambda: [], lambda key: True, lambda *keys: None)
told.append(cache_keys.tries_path_keys())
cache_keys.hear(lambda key: None)
cache_keys.try_no_path_keys()
told.append(cache_keys.tries_path_keys())
cache_keys.hear(None)
print(json.dumps(told))
"""


@pytest.mark.jax
def test_each_key_that_jax_looks_up_is_heard_until_the_end(tmp_path: object) -> None:
    """The keys are those of the entries that JAX stores; afterwards JAX has its own function again."""
    heard, stored, is_original = run(PROGRAM, tmp_path).value
    assert len(heard) == 1 and len(stored) == 2 and set(heard) < set(stored) and is_original


@pytest.mark.jax
def test_the_two_uses_of_the_hook_are_independent() -> None:
    """Keys of paths are tried, or not, whether or not somebody listens."""
    assert run(MOVED).value == [True, False]
