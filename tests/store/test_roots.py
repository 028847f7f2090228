"""The choice of the directory, and whether it is a root."""

import os
import shutil
import threading
import zlib
from pathlib import Path

import pytest

from jcache.errors import CannotWrite, InvalidValue, NoCacheHere
from jcache.layout import TAG_TEXT, Kind, Root
from jcache.store.roots import choose_path, create_root, open_root
from tests.helpers.entries import HOLD_LOCK, add, digits, executable, key, process, tree


def test_who_names_the_path() -> None:
    """--root, else $JCACHE_DIR, else $JAX_COMPILATION_CACHE_DIR, else the user's cache directory; unset is empty."""
    both = {"JCACHE_DIR": "/a", "JAX_COMPILATION_CACHE_DIR": "/b"}
    assert choose_path("/c", both) == Path("/c")
    assert choose_path(None, both) == Path("/a")
    assert choose_path(None, both | {"JCACHE_DIR": ""}) == Path("/b")
    assert choose_path(None, {}).name == "jcache"


def test_paths_are_expanded_and_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``~`` and relative paths are expanded; symbolic links stay as given, since JAX hashes the string."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    assert choose_path("~/c", {}) == Path("/home/somebody/c")
    assert choose_path("link/../x", {}) == tmp_path / "x"
    assert choose_path("link", {}) == tmp_path / "link"


@pytest.mark.parametrize(("text", "error"), [("", InvalidValue), ("a\0b", InvalidValue), ("gs://b/c", NoCacheHere)])
def test_what_is_no_path_is_refused(text: str, error: type[Exception]) -> None:
    """An empty path is a usage error, a remote address no local cache."""
    with pytest.raises(error, match="--root"):
        choose_path(text, {})


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path cannot be found from a directory that was removed."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NoCacheHere, match="working directory"):
        choose_path("cache", {})


def test_the_executables_of_a_root_stand_for_it(native: Root, plain: Root) -> None:
    """The executables' directory of a root means the root; elsewhere, that name means the directory itself."""
    assert choose_path(str(native.path / "executables"), {}) == native.path
    assert choose_path(str(plain.path / "executables"), {}) == plain.path / "executables"


@pytest.mark.parametrize("text", ["n" * 300, "n/" * 3000, "n" * 300 + "/executables"])
def test_paths_beyond_the_limits_hold_no_cache(tmp_path: Path, text: str) -> None:
    """A name or path that is too long for the system is no cache, neither to open nor to make."""
    path = choose_path(f"{tmp_path}/{text}", {})
    for make in (open_root, create_root):
        with pytest.raises((NoCacheHere, CannotWrite)):
            make(path)


@pytest.mark.parametrize(
    "name",
    [
        f"jit_f-{digits(1)}-cache",
        f"jit_f-{digits(1)}",
        digits(1),
        ".lockfile",
        "xla_gpu_per_fusion_autotune_cache_dir",
        "xla_gpu_kernel_cache_file",
    ],
)
def test_a_jax_directory_is_a_plain_root(tmp_path: Path, name: str) -> None:
    """Any entry of any jax, its lock or XLA's sub-caches make a directory a root, foreign files or not."""
    (tmp_path / name).write_bytes(executable())
    (tmp_path / "notes.txt").touch()
    assert open_root(tmp_path) == Root(tmp_path, plain=True)


def test_a_symbolic_link_to_a_root_is_one(plain: Root, tmp_path: Path) -> None:
    """The link's own path is kept."""
    add(plain.path, key(1))
    (tmp_path / "link").symlink_to(plain.path)
    assert open_root(tmp_path / "link") == Root(tmp_path / "link", plain=True)


@pytest.mark.parametrize(
    "name", [f"jit_f-{digits(1)}-cache", digits(1), "notes.txt", "traces-v1", "_temp_x", "CACHEDIR.TAG"]
)
@pytest.mark.parametrize("what", ["directory", "link"])
def test_what_only_has_the_name_makes_no_root(tmp_path: Path, beyond: Path, name: str, what: str) -> None:
    """Directories and links named like entries, and foreign files of that name, make no root."""
    place = tmp_path / "place"
    place.mkdir()
    (place / name).mkdir() if what == "directory" else (place / name).symlink_to(beyond / "precious")
    with pytest.raises(NoCacheHere, match="neither a jcache root nor a JAX cache"):
        open_root(place)


def test_another_tools_tag_makes_no_root(tmp_path: Path) -> None:
    """The cache tag of another program makes no root."""
    (tmp_path / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# This is cargo's.\n")
    (tmp_path / "debug").mkdir()
    with pytest.raises(NoCacheHere):
        open_root(tmp_path)


def test_a_native_root_stays_one(native: Root) -> None:
    """A root without its executables, or without its tag, is still a root."""
    assert open_root(native.path) == native
    shutil.rmtree(native.path / "executables")
    assert open_root(native.path) == native == create_root(native.path)
    add(native.directory(Kind.EXECUTABLES), key(1))
    (native.path / "CACHEDIR.TAG").unlink()
    assert open_root(native.path) == native


BLOBS = [b"blob 12\0of git", b"etc/\0a tar", bytes(99), b"\0\0\0\x18ftyp a film", b"\0\1\0\0 a font"]


@pytest.mark.parametrize("data", [b"", b"GGUF, a model", *map(zlib.compress, BLOBS)])
def test_blobs_of_others_make_no_root(tmp_path: Path, data: bytes) -> None:
    """Blobs of model and image stores have names like entries of jax <= 0.4.30; their content tells them apart."""
    (tmp_path / digits(1)).write_bytes(data)
    (tmp_path / f"sha256-{digits(2)}").write_bytes(data)
    with pytest.raises(NoCacheHere):
        open_root(tmp_path)


def test_legacy_entries_beside_a_foreign_executables(tmp_path: Path) -> None:
    """A JAX directory with a foreign directory named executables is plain."""
    (tmp_path / digits(1)).write_bytes(executable())
    (tmp_path / "executables").mkdir()
    assert open_root(tmp_path).plain


def test_nothing_there(tmp_path: Path, beyond: Path) -> None:
    """A missing path, a file, an empty directory and a dangling link each have their sentence, and nothing changes."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, says in {"missing": "no cache at", "link": "no cache at", "empty": "is empty"}.items():
        with pytest.raises(NoCacheHere, match=says):
            open_root(tmp_path / name)
    with pytest.raises(NoCacheHere, match="not a directory"):
        open_root(beyond / "precious")
    assert not list((tmp_path / "empty").iterdir())


def test_a_new_root_has_a_tag_for_backup_programs(tmp_path: Path) -> None:
    """The tag is exact, and making a root again changes nothing."""
    root = create_root(tmp_path / "a" / "b")
    assert (root.path / "CACHEDIR.TAG").read_text() == TAG_TEXT
    before = tree(tmp_path)
    assert create_root(root.path) == root
    assert tree(tmp_path) == before


def test_a_cache_is_not_mixed_with_other_files(beyond: Path) -> None:
    """No root is made in a directory with other files."""
    with pytest.raises(NoCacheHere, match="neither"):
        create_root(beyond)


def test_a_root_that_cannot_be_made(beyond: Path) -> None:
    """No root is made below a file, and the message has the reason."""
    with pytest.raises((CannotWrite, NoCacheHere)):
        create_root(beyond / "precious" / "root")


@pytest.mark.parametrize("plain", [False, True])
def test_many_may_make_the_same_root_at_once(tmp_path: Path, plain: bool) -> None:
    """The ranks of a job start together: each of them finds or makes the root."""
    start, failures = threading.Barrier(8), []

    def make(path: Path) -> None:
        start.wait()
        try:
            create_root(path, plain=plain)
        except Exception as error:  # noqa: BLE001  whatever it is, the test reports it
            failures.append(error)

    for i in range(30):
        threads = [threading.Thread(target=make, args=(tmp_path / str(i),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_locked_directory_is_still_a_root(plain: Root) -> None:
    """Looking takes no lock."""
    with process(HOLD_LOCK, plain.path):
        assert open_root(plain.path).plain


@pytest.mark.skipif(os.geteuid() == 0, reason="no permission hinders root")
def test_an_unreadable_directory(plain: Root) -> None:
    """A directory that cannot be read is no cache."""
    plain.path.chmod(0)
    try:
        with pytest.raises(NoCacheHere, match="cannot be read"):
            open_root(plain.path)
    finally:
        plain.path.chmod(0o755)
