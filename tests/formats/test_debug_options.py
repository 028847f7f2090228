"""XLA's debug options in an entry: the cache directory and the caches of XLA that JAX had set."""

import pytest

from jcache.formats.debug_options import debug_options, usual_options
from jcache.formats.inspection import inspect
from jcache.formats.protobuf import Message
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


@pytest.mark.parametrize("times", [1, 2])
def test_options_that_entries_share_are_read_as_others_are(times: int) -> None:
    """What is remembered of options is what is read in them, also at the second look."""
    options = text(3, text(3, text(310, b"/cache/xla_gpu_per_fusion_autotune_cache_dir")))
    for _ in range(times):
        assert usual_options(memoryview(options)) == debug_options(Message(options))


@pytest.mark.parametrize(
    ("options", "body_format", "problem"),
    [
        (b"\x1a\x7f", None, "body: "),
        (text(3, b"\x1a\x7f"), "proto", "compile options: "),
        (text(3, text(3, b"\x0a\x7f")), "proto", "compile options: "),
    ],
    ids=["options", "build options", "debug options"],
)
def test_damaged_options_are_told_apart(options: bytes, body_format: str | None, problem: str) -> None:
    """Options that cannot be split make the body unreadable, and damage further inside is a problem of the options."""
    body = text(1, text(1, text(1, text(1, b"jit_f")))) + text(2, options)
    for _ in range(2):
        found = inspect(packed(body))
        assert found.body_format == body_format
        assert [told for told in found.problems if told.startswith(problem)] == list(found.problems)
        assert len(found.problems) == 1
