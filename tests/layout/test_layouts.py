"""Every name on disk, and its meaning."""

import os
import pickle
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.layout import FileKind, Kind, Root, member
from jcache.store.foreign import adapters, named
from tests.helpers.entries import digits

HEX = digits(1)
names = st.text(max_size=300) | st.binary(max_size=255).map(os.fsdecode)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"jit_f-{HEX}-cache", FileKind.ENTRY),
        (f"-{HEX}-cache", FileKind.UNKNOWN),
        (f"{HEX}-cache", FileKind.UNKNOWN),
        (f"jit f-{HEX}-cache", FileKind.ENTRY),
        (f"jit_größe-{HEX}-cache", FileKind.ENTRY),
        (f"a-b-{HEX}-{HEX}-cache", FileKind.ENTRY),
        (f"jit_f-{HEX}-atime", FileKind.SIDECAR),
        (f"jit_f-{HEX}", FileKind.LEGACY),
        (HEX, FileKind.LEGACY),
        (f"_temp_{HEX}", FileKind.TEMPORARY),
        (f"_temp_jit_f-{HEX}", FileKind.TEMPORARY),
        (".jcache-tmp-0123456789abcdef", FileKind.TEMPORARY),
        ("xla_gpu_per_fusion_autotune_cache_dir", FileKind.AUTOTUNE),
        ("xla_gpu_kernel_cache_file", FileKind.KERNELS),
        (".lockfile", FileKind.OURS),
        ("CACHEDIR.TAG", FileKind.OURS),
        (".jcache", FileKind.OURS),
        ("traces-v1", FileKind.OURS),
        ("traces-v2", FileKind.UNKNOWN),
        ("model-cache", FileKind.UNKNOWN),
        ("notes.txt", FileKind.UNKNOWN),
        ("", FileKind.UNKNOWN),
        (f"jit_\nf-{HEX}-cache", FileKind.UNKNOWN),
        (f"jit_f-{HEX}\n", FileKind.UNKNOWN),
        (f"jit_f-{HEX[:-1]}-cache", FileKind.UNKNOWN),
        (f"jit_f-{HEX}0-cache", FileKind.UNKNOWN),
        (f"jit_f-{HEX.upper()}-cache", FileKind.UNKNOWN),
        (f"jit_f-{'٣' * 64}-cache", FileKind.UNKNOWN),
        (f"jit_f-{HEX}-cache-cache", FileKind.UNKNOWN),
        (f"jit_f-{HEX}-CACHE", FileKind.UNKNOWN),
        (os.fsdecode(b"jit_\xff-" + HEX.encode() + b"-cache"), FileKind.UNKNOWN),
        (os.fsdecode(b"jit_\xff-" + HEX.encode()), FileKind.UNKNOWN),
    ],
)
def test_members(name: str, expected: FileKind) -> None:
    """A name is an entry, a sidecar, legacy, temporary, XLA's, jcache's or unknown; in doubt it is unknown."""
    assert member(name)[0] is expected


@given(names)
def test_every_name_is_some_member(name: str) -> None:
    """Every file name is classified; only entries, sidecars and legacy entries have a key."""
    what, of = member(name)
    assert bool(of) is (what in (FileKind.ENTRY, FileKind.SIDECAR, FileKind.LEGACY))
    assert not of or name.startswith(of)


@given(
    layout=st.sampled_from(["jcache", "jax", *(adapter.name for adapter in adapters())]),
    kind=st.sampled_from(Kind),
    key=st.sampled_from([f"f-{HEX}", f"graph-{HEX[:32]}", f"trace-{HEX}", f"scc-{HEX}", "a/b", "x"]),
    outside=st.booleans(),
)
def test_layouts_agree_with_themselves(layout: str, kind: Kind, key: str, *, outside: bool) -> None:
    """The file name that a layout gives a key leads back to the key, and a copied or pickled root is the same root."""
    state = Path("/s") if outside else None
    root = Root(Path("/r"), plain=layout != "jcache", adapter=named(layout), state_path=state)
    assert root.layout.name == layout and root.adapter is named(layout)
    assert copy(root) == root._replace() == root
    if root.adapter is None:
        assert pickle.loads(pickle.dumps(root)) == root
    name = root.layout.file_name(kind, key)
    if name is None:
        with pytest.raises(InvalidValue, match="is none of"):
            root.place(kind, key)
    elif root.layout.member(name)[0] is FileKind.ENTRY:
        assert root.layout.member(name) == (FileKind.ENTRY, key) and root.layout.key_of(name) == key
        assert root.layout.is_file_of(kind, key, name)
        assert root.place(kind, key).is_relative_to(root.directory(kind))
