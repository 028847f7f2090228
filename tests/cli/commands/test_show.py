"""`jcache show`."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.formats import envelope
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, header_length, seal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.units import format_size
from tests.helpers.command_line import H200, PROGRAM, Jcache, keys
from tests.helpers.entries import add, key as key_of


def test_show_takes_any_unambiguous_prefix(jcache: Jcache, jax_cache: Path) -> None:
    """A key, its beginning, or the beginning of its hash identifies the entry."""
    key = next(k for k in keys(jax_cache) if k.startswith("jit_train-"))
    for prefix in (key, "jit_train", "jit_train-", key[:-50], key[len("jit_train-") :][:12]):
        assert jcache("show", prefix, "--root", jax_cache, "--json").json["key"] == key


def test_show_tells_what_the_entry_holds(jcache: Jcache, jax_cache: Path) -> None:
    """`show` names function, source line, shapes, platform, CPU, codec and digest."""
    shown = jcache("show", "jit_train", "--root", jax_cache, "--json").json
    content = shown["content"]
    assert content["module_name"] == "jit_train"
    assert content["source_file"] == str(PROGRAM)
    assert "lax.scan" in PROGRAM.read_text().splitlines()[content["source_line"] - 1]
    assert "f32[20]" in content["output_shapes"]
    assert content["platform"] == "cpu" and content["codec"] in ("zstd", "zlib")
    assert content["cpu_name"] or version("jaxlib").startswith("0.4.")  # whose entries do not tell
    assert shown["digest"] == digest(Path(shown["path"]).read_bytes()) and shown["digest_matches_ledger"] is None
    text = jcache("show", "jit_train", "--root", jax_cache).out
    assert f"{PROGRAM}:{content['source_line']}" in text and "f32[20]" in text


def test_show_of_a_gpu_entry(jcache: Jcache, tmp_path: Path) -> None:
    """`show` of a GPU entry prints platform, compute capability and toolkit; unknown facts are null."""
    for key in keys(H200):
        content = jcache("show", key, "--root", H200, "--json").json["content"]
        assert content["platform"] == "cuda" and content["compute_capability"] == "9.0"
        assert content["abi_version"]["toolkit"].startswith("13.")
        assert content["cpu_name"] is None
    assert not (H200 / ".jcache").exists()


def test_show_refuses_what_is_ambiguous_or_unknown(jcache: Jcache, jax_cache: Path) -> None:
    """A prefix of several entries, or of none, is an error that names the entries."""
    ambiguous = jcache("show", "jit_", "--root", jax_cache)
    assert ambiguous.code == 1 and "stands for" in ambiguous.err
    unknown = jcache("show", "jit_nothing", "--root", jax_cache)
    assert unknown.code == 1 and "jit_nothing" in unknown.err and "jcache ls" in unknown.err


def test_show_of_damage_says_what_is_wrong(jcache: Jcache, cache: Path) -> None:
    """A damaged entry is shown as far as it goes, with exit 1."""
    path = next(cache.glob("jit_train-*-cache"))
    path.write_bytes(path.read_bytes()[:-100])
    result = jcache("show", "jit_train", "--root", cache, "--json")
    assert result.code == 1 and json.loads(result.out)["damage"] and "jit_train" in result.err


@pytest.mark.full
def test_show_tells_a_digest_that_is_not_the_recorded_one(jcache: Jcache, tmp_path: Path) -> None:
    """`show` reports bytes that differ from the recorded digest, even if they decompress."""
    program = ["-c", "import jax; jax.jit(jax.numpy.sin)(1.0)"]
    jcache("run", "-q", "--root", tmp_path / "root", "--", sys.executable, *program)
    path = next((tmp_path / "root" / "executables").glob("jit_sin-*-cache"))
    assert "the recorded digest differs" not in jcache("show", "jit_sin", "--root", tmp_path / "root").out
    found = unpack_executable(path.read_bytes())
    path.write_bytes(pack_executable(found.payload, found.seconds + 1, found.codec))
    assert "the recorded digest differs" in jcache("show", "jit_sin", "--root", tmp_path / "root").out


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE])
def test_show_measures_what_is_stored(jcache: Jcache, native: Root, codec: Codec) -> None:
    """The uncompressed size of a trace is that of the whole entry, of which the header is the larger part."""
    name = key_of(1, "step")
    data = sealed(name, bytes(50_000), codec)
    add(native.directory(Kind.TRACES), name, data)
    content = jcache("show", name, "--json", "--root", native.path).json["content"]
    assert content["stored_bytes"] == len(data) and content["payload_length"] == 50_000
    assert content["raw_bytes"] == header_length(data) + 50_000 > 100_000
    size = format_size(content["raw_bytes"])
    shown = jcache("show", name, "--root", native.path).out
    assert f"{format_size(len(data))} ({len(data):,}), {size} uncompressed ({codec})\n" in shown


@pytest.mark.parametrize("claimed", [0, 49_999, 1 << 40])
def test_show_believes_no_header(jcache: Jcache, native: Root, claimed: int) -> None:
    """A sealed header with a wrong size of the payload is damage, and no size is shown."""
    name = key_of(1, "step")
    with pytest.MonkeyPatch.context() as patch:
        real = envelope._length
        patch.setattr(envelope, "_length", lambda pieces: claimed if (n := real(pieces)) == 50_000 else n)
        data = sealed(name, bytes(50_000), Codec.ZSTD)
    add(native.directory(Kind.TRACES), name, data)
    result = jcache("show", name, "--root", native.path)
    assert result.code == 1 and "uncompressed" not in result.out and name in result.err


def sealed(name: str, payload: bytes, codec: Codec) -> bytes:
    parts = {f"array x{number}": "float32[3]" for number in range(2000)}
    return seal(
        payload, kind=Kind.TRACES, name="step", key=name, key_parts=parts, build_seconds=1.0, created_ns=1, codec=codec
    )
