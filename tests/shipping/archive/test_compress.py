"""Frames of zstd, as archives are written in: content of any kind is unpacked by jcache and by zstd."""

import io
import subprocess

import pytest

from jcache.shipping.archive.compress import (
    CompressingFrameWriter,
    FrameWriter,
    StoringFrameWriter,
)
from tests.helpers.zstd_program import needs_zstd
from tests.shipping.archive.test_decompress import SIZES, STORED, contents, packed, unpacked


@needs_zstd
@pytest.mark.parametrize("size", SIZES)
def test_large_pieces_that_are_passed_on_have_frames_of_their_own(size: int) -> None:
    """Between small ones, at the edges of blocks and frames too, however they are cut into mebibytes."""
    for what, content in contents(size).items():
        whole = []
        for cut in (STORED, 4 * STORED):
            stream = io.BytesIO()
            packer = StoringFrameWriter(stream)
            packer.write(b"small")
            for start in range(0, size, cut):
                packer.write_large(memoryview(content)[start : start + cut], is_compressed=False)
            packer.write(b"end")
            packer.close()
            assert (packer.content, packer.written) == (size + 8, len(stream.getvalue())), what
            whole.append(stream.getvalue())
            done = subprocess.run(["zstd", "-dc"], input=whole[-1], capture_output=True, check=True)
            assert unpacked(whole[-1]) == done.stdout == b"small" + content + b"end", what
        assert whole[0] == whole[1], what


@needs_zstd
@pytest.mark.parametrize("kind", [StoringFrameWriter, CompressingFrameWriter, None])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_packed_is_unpacked_by_us_and_by_zstd(size: int, kind: type[FrameWriter] | None) -> None:
    """Content of any kind and size, also at the edges of blocks and frames, is decompressed by jcache and by zstd."""
    for what, content in contents(size).items():
        data = packed(kind, content, 70_000)
        assert data == packed(kind, content, 1 << 22), what
        assert unpacked(data) == content, what
        assert unpacked(data, 1 << 22) == content, what
        if data:
            done = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True)
            assert done.stdout == content, what
