"""The input of an archive: pipes that return few bytes, and streams that carry no content."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers.archives import (
    contents_of,
    sample,
)

ROOT = Path(__file__).parents[3]


def test_what_comes_in_small_pieces_is_read() -> None:
    """Archives are read from pipes that return fewer bytes than requested."""
    made = sample()
    archive = made.packed()
    source, sink = os.pipe()

    def feed() -> None:
        with open(sink, "wb", buffering=0) as stream:
            for start in range(0, len(archive), 7):
                stream.write(archive[start : start + 7])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(source, "rb", buffering=0) as stream:
        assert contents_of(stream)[1] == made.contents  # type: ignore[arg-type]
    feeder.join()


_BOMB = """
import resource, sys
from jcache.shipping.archive import ArchiveReader
from jcache.errors import BadArchive, Untrusted
from tests.proofs import archive_bombs
from jcache.shipping.archive import manifest
stream = getattr(archive_bombs, sys.argv[1])()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    reader = ArchiveReader(stream, name="a.tar.zst")
    for member in reader.members():
        while member.read():
            pass
    print("read")
except BadArchive as error:
    print("refused", error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("bomb", "mebibytes"),
    [
        ("zeros_in_an_entry", 24),
        ("zeros_in_a_manifest", 160),
        ("manifest_that_announces_terabytes", 16),
        ("window_of_a_gibibyte", 16),
        ("empty_frames_without_end", 16),
        ("empty_blocks_without_end", 16),
        ("skippable_frames_without_end", 16),
        ("a_skippable_frame_of_four_gibibytes", 16),
        ("ten_million_members", 16),
        ("pax_header_of_gigabytes", 16),
        ("long_name_of_gigabytes", 16),
        ("headers_without_a_member", 16),
        ("deep_manifest", 32),
        ("manifest_of_lines", 160),
        ("padding_without_end", 24),
        ("gzip_of_zeros", 24),
        ("empty_gzip_members_without_end", 16),
        ("trailer_of_empty_lists", 16),
        ("content_for_a_small_entry", 160),
    ],
)
def test_bombs_are_refused_in_bounded_memory(bomb: str, mebibytes: int) -> None:
    """Archives that would fill memory, or never end, are refused at the cost of a few pieces and a window."""
    done = subprocess.run(
        [sys.executable, "-c", _BOMB, bomb],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=ROOT,
    )
    outcome, kibibytes = done.stdout.splitlines()
    assert outcome.startswith("refused")
    assert int(kibibytes) < mebibytes * 1024
