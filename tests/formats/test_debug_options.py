"""XLA's debug options in an entry: the cache directory and the caches of XLA that JAX had set."""

import pytest

from jcache.formats.inspection import inspect
from tests.formats.test_inspection import packed
from tests.helpers.jax_entries import text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/cache/xla_gpu_per_fusion_autotune_cache_dir", "/cache"),
        (b"rel/c/xla_gpu_per_fusion_autotune_cache_dir", "rel/c"),
        (b"xla_gpu_per_fusion_autotune_cache_dir", "."),
        (b"gs://b/c/xla_gpu_per_fusion_autotune_cache_dir", "gs://b/c"),
        (b"/somewhere/else", None),
        (b"", None),
    ],
)
def test_the_cache_path_is_only_what_jax_made(path: bytes, expected: str | None) -> None:
    """The cache path is the parent of the directory that JAX names; a path of the user's own is none."""
    body = text(1, text(1, text(1, text(1, b"jit_f")))) + text(2, text(3, text(3, text(310, path))))
    assert inspect(packed(body)).cache_path == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["xla_gpu_per_fusion_autotune_cache_dir"], None),
        (["xla_gpu_kernel_cache_file"], "xla_gpu_kernel_cache_file"),
        (["xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file"], "all"),
    ],
)
def test_which_caches_of_xla_it_was_made_with(names: list[str], expected: str | None) -> None:
    """JAX's default of autotuning alone is not reported; a kernel cache is."""
    numbers = {"xla_gpu_per_fusion_autotune_cache_dir": 310, "xla_gpu_kernel_cache_file": 306}
    options = b"".join(text(number, f"/cache/{name}".encode()) for name, number in numbers.items() if name in names)
    found = inspect(packed(text(1, text(1, text(1, text(1, b"jit_f")))) + text(2, text(3, text(3, options)))))
    assert (found.cache_path, found.xla_caches) == ("/cache", expected)
