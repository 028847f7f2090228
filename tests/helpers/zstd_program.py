"""The program `zstd`, which unpacks what jcache packs."""

import shutil

import pytest

needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")
