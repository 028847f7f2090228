"""Modules and compile options as texts, read by JAX in another process."""

import base64
import os
import sys
from pathlib import Path

import pytest

from jcache.explain.programs import Programs
from tests.helpers.jax_entries import text


def test_no_process_is_started_before_it_is_needed() -> None:
    """Where no module is kept, no JAX is started, and nothing is wrong."""
    with Programs(lambda module: None, {"JCACHE_PYTHON": "/nonexistent"}) as programs:
        assert programs.text("a") is None and programs.compare("a", "b") is None
        assert programs.notice is None


def test_without_jax_a_sentence_says_so_once() -> None:
    """An interpreter that cannot be started leaves all texts out, with one sentence; no environment means no JAX."""
    with Programs(lambda module: b"x", {"JCACHE_PYTHON": "/nonexistent"}) as programs:
        assert programs.compare("a", "b") is None and programs.options("eA==") is None
        assert programs.notice is not None and "/nonexistent" in programs.notice
    with Programs(lambda module: b"x", None) as programs:
        assert programs.text("a") is None and programs.notice is None


def test_a_process_that_ends_is_told(tmp_path: Path) -> None:
    """A process that answers nothing, or no JSON, is told in a sentence, and no other one is started."""
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\nprintf '{"jaxlib": "1"}\\n'; read line; exit 3\n""")
    python.chmod(0o755)
    with Programs(lambda module: b"x", {"JCACHE_PYTHON": str(python)}) as programs:
        assert programs.text("a") is None
        assert programs.notice is not None and "exit code 3" in programs.notice
        assert programs.text("b") is None


@pytest.mark.parametrize("proto", ["", "é", "no base64", "AAAA"])
def test_options_that_are_none_are_not_read(proto: str) -> None:
    """A text that is no base64, or no compile options, has no fields."""
    with Programs(lambda module: None, None) as programs:
        assert programs.options(proto) is None


@pytest.mark.jax
def test_bytes_that_are_no_module_are_told_with_jaxlibs_reason() -> None:
    """Bytes that jaxlib cannot read have no text; the next ones are read all the same."""
    with Programs({"bad": b"x"}.get, {**os.environ, "JCACHE_PYTHON": sys.executable}) as programs:
        assert programs.text("bad") is None
        assert programs.notice is not None and "cannot be read by jaxlib" in programs.notice
        assert programs.options(base64.b64encode(b"").decode()) is not None


def test_without_jax_the_cache_path_is_read_from_the_options() -> None:
    """The directory in the compile options is known without JAX."""
    path = b"/cache/xla_gpu_per_fusion_autotune_cache_dir"
    debug = text(310, path)
    options = base64.b64encode(text(3, text(3, debug))).decode()
    with Programs(lambda module: None, None) as programs:
        assert programs.options(options) == {"xla_gpu_per_fusion_autotune_cache_dir": "/cache"}
