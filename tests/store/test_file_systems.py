"""The kind of the file system that a file is on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.store import file_systems


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is asked")
def test_the_file_system_is_asked(tmp_path: Path) -> None:
    """The type of the file system, as in `stat -f`, decides."""
    kind = int(subprocess.run(["stat", "-f", "-c", "%t", tmp_path], capture_output=True, check=True).stdout, 16)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert file_systems.is_local(descriptor) is (kind in file_systems._LOCAL)
    finally:
        os.close(descriptor)
