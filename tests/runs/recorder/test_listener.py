"""The recorder tells the outcome of each program, and the reason. Real JAX processes."""

from pathlib import Path

import pytest

from tests.runs.recorder.test_sitecustomize import JAX, ONE, THREE, counts, keys, record


@pytest.mark.jax
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1000", "compiled in less than 1000 s"),
        ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "100000000", "smaller than 100000000 bytes"),
    ],
)
def test_thresholds_of_the_user_hold(tmp_path: Path, variable: str, value: str, reason: str) -> None:
    """Thresholds set by the user are respected, and named as the reason."""
    found = record(ONE, tmp_path / "cache", tmp_path / "log", {variable: value})
    assert counts(found) == (0, 0, 1, 0)
    assert found.reasons == {"not_stored": {reason: 1}}
    assert not keys(tmp_path / "cache")


@pytest.mark.jax
def test_host_callback(tmp_path: Path) -> None:
    """Up to jax 0.8.0, a program with a host callback is not stored, and the reason says so; later versions
    store it.
    """
    program = """
import jax, numpy as np
def f(x):
    jax.debug.print("x is {}", x)
    return x + 1
jax.jit(f)(np.ones(3, np.float32)).block_until_ready()
"""
    found = record(program, tmp_path / "cache", tmp_path / "log")
    if JAX >= (0, 8, 1):
        assert counts(found) == (0, 1, 0, 0)
    else:
        assert counts(found) == (0, 0, 1, 0)
        assert found.reasons == {"not_stored": {"it calls back to the host": 1}}
    assert len(keys(tmp_path / "cache")) == found.stored


@pytest.mark.jax
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("'jax_enable_compilation_cache', False", "the compilation cache is disabled"),
        ("'jax_compilation_cache_dir', None", "there is no usable cache directory"),
    ],
)
def test_cache_switched_off_by_the_program(tmp_path: Path, setting: str, reason: str) -> None:
    """Compilation without a look-up is a bypass, with the setting that caused it."""
    found = record(f"import jax; jax.config.update({setting})\n{THREE}", tmp_path / "cache", tmp_path / "log")
    assert counts(found) == (0, 0, 0, 3)
    assert found.reasons == {"bypassed": {reason: 3}}


@pytest.mark.jax
def test_directory_that_cannot_be_opened(tmp_path: Path) -> None:
    """If JAX cannot open its directory, everything is a bypass with the system's reason."""
    (tmp_path / "file").write_text("")
    found = record(THREE.replace("thread.start()", "thread.run()").replace("for thread in threads: thread.join()", ""),
                   tmp_path / "file" / "cache", tmp_path / "log")  # fmt: skip
    assert counts(found) == (0, 0, 0, 3)
    assert any("NotADirectoryError" in reason for reason in found.reasons["bypassed"])


@pytest.mark.jax
def test_write_that_fails(tmp_path: Path) -> None:
    """A failed write is not stored, with the system's reason."""
    program = f"""
{ONE}
import shutil
shutil.rmtree({str(tmp_path / "cache")!r})
jax.jit(lambda x: x + 1)(np.ones(5, np.float32)).block_until_ready()
"""
    found = record(program, tmp_path / "cache", tmp_path / "log")
    assert counts(found) == (0, 1, 1, 0)
    (reason,) = found.reasons["not_stored"]
    assert reason == "the write failed: FileNotFoundError: [Errno 2] No such file or directory"
