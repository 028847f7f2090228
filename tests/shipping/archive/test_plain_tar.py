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


def test_links_and_sparse_files_of_gnu_tar_are_refused(directory: Path) -> None:
    """Links and sparse files of the real tar are refused in both formats; its other formats are read."""
    entry = next(directory.glob("jit_f*-cache"))
    (directory / "hard").hardlink_to(entry)
    tar = ["tar", "-C", str(directory), "-cf", "-"]
    assert "hard link" in refusal(subprocess.run([*tar, "."], capture_output=True, check=True).stdout)
    assert "hard" in read(subprocess.run([*tar, "--hard-dereference", "."], capture_output=True, check=True).stdout)
    (directory / "hard").unlink()
    with (directory / "holes").open("wb") as file:
        file.truncate(1 << 20)
    for form in ("gnu", "pax"):
        sparse = subprocess.run([*tar, "-S", f"--format={form}", "."], capture_output=True, check=True).stdout
        assert "sparse" in refusal(sparse)


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


def test_every_truncation_is_refused(directory: Path) -> None:
    """A tar that is truncated anywhere, compressed or not, is refused."""
    tar = tar_of([(f"{key(1)}-cache", executable()), ("x" * 200, b"y" * 600)])[:-8192]
    end = len(tar.rstrip(b"\0"))
    for length in range(min(len(tar), (end + 511) // 512 * 512 + 1024)):
        refusal(tar[:length])
    for archive in (gzip.compress(tar), zstandard.compress(tar)):
        for length in range(len(archive)):
            refusal(archive[:length])


def test_many_members_are_refused_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts every header, of directories too."""
    monkeypatch.setattr("jcache.shipping.archive.tar_reader.MAX_MEMBERS", 50)
    members: list[tuple[str | tarfile.TarInfo, bytes]] = [member(f"d{n}", tarfile.DIRTYPE) for n in range(60)]
    assert "more than 50 members" in refusal(tar_of(members))
