"""Headers of tar members, as jcache and other programs write them."""

import io
import tarfile

import pytest

from tests.helpers.archives import (
    Sample,
    contents_of,
    item,
    tar_of,
)
from tests.helpers.entries import key
from tests.shipping.archive.test_plain_tar import read, refusal
from tests.shipping.archive.test_reader import inside


def test_names_and_sizes_that_need_a_pax_header() -> None:
    """Names up to 255 bytes and beyond ASCII are read by us and by others."""
    entries = [(item(n, b"x", name=name), b"x") for n, name in enumerate(("a" * 180, "λ→" * 20, "f (g, h)", "b" * 29))]
    made = Sample(entries)
    archive = made.packed()
    assert contents_of(archive)[1] == made.contents
    with tarfile.open(fileobj=io.BytesIO(inside(archive))) as tar:
        assert tar.getnames()[2:-1] == list(made.contents)


def test_v7_tars_are_read() -> None:
    """Headers from before POSIX have no magic, and directories are names that end in a slash."""

    def block(name: bytes, size: int) -> bytes:
        fields = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size + b"%011o\0" % 0
        rest = fields + b" " * 8 + b"\0" * (512 - len(fields) - 8)
        return rest[:148] + b"%06o\0 " % sum(rest) + rest[156:]

    entry = key(1).encode() + b"-cache"
    tar = block(b"cache/", 0) + block(b"cache/" + entry, 4) + b"data".ljust(512, b"\0") + bytes(1024)
    assert read(tar) == {f"cache/{entry.decode()}": b"data"}


def test_a_size_beyond_octal_is_read() -> None:
    """Sizes above 8 GiB in GNU tar's form are read; the error is that the bytes are missing."""
    info = tarfile.TarInfo(f"{key(1)}-cache")
    info.size = 1 << 40
    assert "truncated" in refusal(info.tobuf(tarfile.GNU_FORMAT) + b"few")
    assert "truncated" in refusal(info.tobuf(tarfile.PAX_FORMAT) + b"few")


def records(*pairs: tuple[str, str], kind: bytes = b"x") -> bytes:
    """A pax header, as it should not be."""
    data = b""
    for keyword, value in pairs:
        rest = f" {keyword}={value}\n".encode()
        data += str(len(rest) + 2).encode() + rest
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data.ljust(512, b"\0")


@pytest.mark.parametrize(
    "header",
    [
        records(("path", "first"), ("path", "second")),
        records(("path", "../x")),
        records(("size", "-1")),
        records(("size", "1e3")),
        records(("size", "9" * 30)),
        records(("GNU.sparse.name", "x")),
        records(("mtime", "soon")),
        records(("path", "first")) * 2,
        records(("path", "first"))[:512] + b"garbage".ljust(512, b"\0"),
        records(("path", "first"))[:512] + b"999 path=x\n".ljust(512, b"\0"),
        records(("path", "first"), kind=b"g"),
    ],
)
def test_pax_headers_that_lie_are_refused(header: bytes) -> None:
    """Two names, sizes that are none, records of a wrong length, renaming of all that follows."""
    refusal(header + tar_of([("x", b"data")]))
