"""A tar, tar.gz or tar.zst that common programs make of a JAX directory is read; a hostile one is refused."""

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard

from jcache.errors import BadArchive
from jcache.shipping.archive import PlainTarReader, open_archive, open_plain_tar
from tests.helpers.archives import tar_of
from tests.helpers.entries import NOW, add, executable, key

LONG = "generated_" * 15


def read(archive: bytes) -> dict[str, bytes]:
    """Return the paths and bytes that a reader gets from a tar."""
    reader = open_archive(io.BytesIO(archive), name="a.tar")
    assert isinstance(reader, PlainTarReader)
    found = {}
    for member in reader.members():
        found[member.path] = b"".join(iter(member.read, b""))
        assert len(found[member.path]) == member.size
        assert member.path.endswith(member.name)
    return found


def refusal(archive: bytes) -> str:
    with pytest.raises(BadArchive) as caught:
        read(archive)
    message = str(caught.value)
    assert "a.tar" in message
    assert message.endswith(".") and message.isprintable()
    return message


@pytest.fixture(name="directory")
def directory_fixture(tmp_path: Path) -> Path:
    """A JAX directory with entries, sidecars, a sub-cache, a lock file and names that are long."""
    path = tmp_path / "cache"
    for number, name in enumerate(("jit_f", "λ", LONG)):
        add(path, key(number, name), executable(number), used_ns=NOW + number, written_ns=NOW)
    (path / ".lockfile").touch()
    (path / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    (path / "xla_gpu_per_fusion_autotune_cache_dir" / "x.pb").write_bytes(b"tuned")
    return path


def files_in(directory: Path, prefix: str = "") -> dict[str, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {f"{prefix}{path.relative_to(directory)}": path.read_bytes() for path in paths}


def test_the_directory_itself_may_bear_no_name() -> None:
    """The directory itself may have an empty name, as tarfile packs it on request."""
    assert read(tar_of([member("/", tarfile.DIRTYPE), ("first", b"1")])) == {"first": b"1"}


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar", "oldgnu", "posix"])
@pytest.mark.parametrize(
    ("where", "prefix"), [(("..", "cache"), "cache/"), (("", "."), ""), (("..", "./cache"), "cache/")]
)
def test_tars_of_gnu_tar_are_read(directory: Path, form: str, where: tuple[str, str], prefix: str) -> None:
    """Every format, with the directory's name before the entries, with ./ or with neither."""
    done = subprocess.run(
        ["tar", f"--format={form}", "-C", directory / where[0], "-cf", "-", where[1]], capture_output=True, check=False
    )
    if form == "ustar" and done.returncode:
        pytest.skip("this name does not fit ustar, as tar says itself")
    assert read(done.stdout) == files_in(directory, prefix)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_tars_of_python_are_read(directory: Path, form: int) -> None:
    """Long names and those beyond ASCII, the way tarfile has them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        tar.add(directory, "some/where")
    assert read(stream.getvalue()) == files_in(directory, "some/where/")


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, lambda tar: gzip.compress(tar) + bytes(512)])
def test_compressed_tars_are_read(directory: Path, compress: object) -> None:
    """tar.gz and tar.zst are read, and gzip's padding with zeros is accepted."""
    tar = subprocess.run(["tar", "-C", directory, "-cf", "-", "."], capture_output=True, check=True).stdout
    assert callable(compress)
    assert read(compress(tar)) == files_in(directory)


def test_times_are_those_of_the_files(directory: Path) -> None:
    """The time of modification goes along, to the second."""
    tar = subprocess.run(["tar", "-C", directory, "-cf", "-", "."], capture_output=True, check=True).stdout
    entries = [member for member in open_plain_tar(io.BytesIO(tar)).members() if member.name.endswith("-cache")]
    assert {member.modified_ns for member in entries} == {NOW}


def test_kinds_are_name_spaces_of_their_own() -> None:
    """A trace and an executable may share a key."""
    files = {f"{directory}{key(1)}-cache": b"data" for directory in ("", "traces-v1/", "c/graphs-v1/")}
    assert read(tar_of([*files.items(), (f"traces-v1/{key(1)}-atime", b"")])).keys() >= files.keys()
    assert "twice" in refusal(tar_of([*files.items(), (f"c/traces-v1/{key(1)}-cache", b"")]))


# Refused


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info, b"x" * size


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (member("../x"), "leads out"),
        (member("cache/../../x"), "leads out"),
        (member("cache/.."), "leads out"),
        (member("/etc/x"), "-P"),
        (member("cache/x", tarfile.SYMTYPE, "/etc/passwd"), "-h"),
        (member("cache/x", tarfile.LNKTYPE, "/etc/passwd"), "--hard-dereference"),
        (member("cache/x", tarfile.CHRTYPE), "device"),
        (member("cache/x", tarfile.BLKTYPE), "device"),
        (member("cache/x", tarfile.FIFOTYPE), "FIFO"),
        (member("cache/x", tarfile.GNUTYPE_SPARSE), "-S"),
        (member("cache/x", b"M"), "piece"),
        (member("cache/x", b"Q"), "unknown type"),
        (member("cache/d", tarfile.DIRTYPE, size=700), "size"),
        (member("first"), "twice"),
        (member("./first"), "twice"),
        (member(f"other/{key(1)}-cache"), "twice"),
    ],
)
def test_hostile_members_are_refused(hostile: tuple[tarfile.TarInfo, bytes], reason: str) -> None:
    """Paths that lead elsewhere, members that are no files and repeated ones are refused, with a remedy."""
    sound: list[tuple[str | tarfile.TarInfo, bytes]] = [("first", b""), (f"cache/{key(1)}-cache", b"data")]
    assert reason in refusal(tar_of([*sound, hostile]))
    assert reason in refusal(tar_of([*sound, hostile, ("last", b"")]))
