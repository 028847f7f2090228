"""The provenance of an executable is read from its bytes once, and then known from the ledger."""

import sqlite3
from pathlib import Path

import pytest

from jcache.errors import DamagedEntry
from jcache.formats.digest import digest
from jcache.formats.inspection import inspect
from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest import Maker
from jcache.shipping.forecast import provenance
from jcache.store.ledger import Known, Ledger
from jcache.store.ledger_contents import Content
from jcache.store.store import Store
from tests.helpers.entries import executable, key
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture, h200_entry

__all__ = ["cpu_entries_fixture"]

KNOWN = Known(Kind.EXECUTABLES, key(1))


@pytest.mark.smoke(since="0.6")
@pytest.mark.jax
def test_of_the_cpu(cpu_entries: JaxEntries) -> None:
    """An entry of a real JAX yields its platform and directory, and the ledger its jaxlib."""
    made = provenance.provenance_of_bytes(cpu_entries.bytes("jit_named_step"), KNOWN._replace(jaxlib="0.10.2"))
    assert (made.maker.platform, made.maker.jaxlib, made.portable) == ("cpu", "0.10.2", False)
    assert made.maker.cache_path == str(cpu_entries.directory)
    assert made.codec in ("zstd", "zlib")


def test_of_a_gpu() -> None:
    """An entry of an H200 yields its compute capability, CUDA's versions and the directory in its key."""
    assert provenance.provenance_of_bytes(h200_entry("jit_stage")) == (
        Maker(
            platform="cuda",
            compute_capability="9.0",
            abi_version=(("cub", "3.2.0"), ("cudnn", "9.19.0"), ("toolkit", "13.0.0")),
            cache_path="/tmp/gc/lru",
            xla_options=f"{inspect(h200_entry('jit_stage')).xla_options:x}",
        ),
        "zlib",
        False,
    )


def test_what_tells_nothing() -> None:
    """An executable of an unknown format has a maker without any facts."""
    assert provenance.provenance_of_bytes(executable()) == (Maker(), "zstd", False)


def test_damaged() -> None:
    """An executable that cannot be decompressed is refused."""
    with pytest.raises(DamagedEntry):
        provenance.provenance_of_bytes(executable()[:-3])


@pytest.mark.parametrize(
    ("origin", "portable"),
    [("program", True), ("copy", True), ("run", False), ("put", False), ("adopt", False), (None, False)],
)
def test_portable_keys(origin: str | None, portable: bool) -> None:
    """Entries that `jcache.enable()` has stored, or copied after a hit, have keys without the path."""
    assert provenance.provenance_of_bytes(executable(), KNOWN._replace(origin=origin)).portable is portable


@pytest.mark.parametrize(("recorded", "told"), [("0.6.2", "0.6.2"), ("0.6.2, 0.8.1", None), ("", None), (None, None)])
def test_one_jaxlib(recorded: str | None, told: str | None) -> None:
    """A run with several versions of jaxlib does not tell which of them made an entry."""
    assert provenance.provenance_of_bytes(executable(), KNOWN._replace(jaxlib=recorded)).maker.jaxlib == told


def remember(store: Store, *datas: bytes) -> list[Content]:
    contents = [provenance.content_of(inspect(data), digest(data)) for data in datas]
    store.ledger.record(
        Known(Kind.EXECUTABLES, key(i), content.digest, len(data))
        for i, (data, content) in enumerate(zip(datas, contents, strict=True))
    )
    provenance.save_contents(store, contents)
    return contents


def test_what_is_read_is_remembered(plain: Root) -> None:
    """Contents are recorded by digest, and read back unchanged by the next process."""
    datas = h200_entry("jit_stage"), executable(seconds=7)
    with Store(plain) as store:
        contents = remember(store, *datas)
    with Store(plain) as store:
        found = provenance.load_contents(store)
    assert found == {content.digest: content for content in contents}
    assert [provenance.provenance_of_content(content, KNOWN) for content in contents] == [
        provenance.provenance_of_bytes(data) for data in datas
    ]
    assert contents[1].seconds == 7


def test_only_what_entries_have_is_remembered(plain: Root) -> None:
    """Contents of entries that the ledger no longer knows are removed at the next change."""
    with Store(plain) as store:
        remember(store, h200_entry("jit_stage"))
        (content,) = remember(store, executable())
        assert list(provenance.load_contents(store)) == [content.digest]


def test_a_ledger_of_before(plain: Root) -> None:
    """An older ledger without the table is read, keeps its records, and gets the table."""
    ledger = Ledger(plain.ledger)
    ledger.record([KNOWN._replace(pinned_ns=1)])
    ledger.close()
    with sqlite3.connect(plain.ledger) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    database.close()
    assert tables == {"entries", "home", "runs", "snapshots"}
    with Store(plain) as store:
        assert provenance.load_contents(store) == {}
        remember(store, executable())
        assert provenance.load_contents(store)
        assert store.ledger.pins() == {(Kind.EXECUTABLES, key(1))}


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[0]", '{"version": 1}', '{"version": 2, "what": 1}', "[1" + ", null" * 7 + "]", "1"],
)
def test_what_another_jcache_remembers(plain: Root, text: str) -> None:
    """A record of another version counts as missing."""
    with Store(plain) as store:
        store.ledger.record([KNOWN._replace(digest="d" * 64)])
        provenance.save_contents(store, [Content("d" * 64, "zstd", 1, text)])
        assert provenance.load_contents(store) == {}


def test_a_ledger_that_cannot_be_used(plain: Root) -> None:
    """A damaged ledger yields nothing, is not replaced, and is no error."""
    plain.state.mkdir()
    plain.ledger.write_bytes(b"no ledger" * 1000)
    with Store(plain) as store:
        provenance.save_contents(store, [provenance.content_of(inspect(executable()), digest(executable()))])
        assert provenance.load_contents(store) == {}
    assert plain.ledger.read_bytes() == b"no ledger" * 1000


def test_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The host names its CPU, and its GPUs as NVIDIA's driver has them."""
    assert provenance.describe_host().cpu
    for name in ("0000:18:00.0", "0000:2a:00.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\n")
    monkeypatch.setattr(provenance, "_NVIDIA_DRIVER", tmp_path)
    assert provenance.describe_host().gpus == ("NVIDIA H200", "NVIDIA H200")
