"""Every name on disk, and its meaning."""

import os
import pickle
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.layout import Kind, Member, Root, are_files_of_keys, check_key, is_key, member, name_of, parse_kind
from jcache.store.foreign import adapters, named
from tests.helpers.entries import digits

HEX = digits(1)
names = st.text(max_size=300) | st.binary(max_size=255).map(os.fsdecode)
functions = st.text(st.characters(min_codepoint=32, exclude_characters="/"), min_size=1, max_size=40).filter(
    str.isprintable
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"jit_f-{HEX}-cache", Member.ENTRY),
        (f"-{HEX}-cache", Member.UNKNOWN),
        (f"{HEX}-cache", Member.UNKNOWN),
        (f"jit f-{HEX}-cache", Member.ENTRY),
        (f"jit_größe-{HEX}-cache", Member.ENTRY),
        (f"a-b-{HEX}-{HEX}-cache", Member.ENTRY),
        (f"jit_f-{HEX}-atime", Member.SIDECAR),
        (f"jit_f-{HEX}", Member.LEGACY),
        (HEX, Member.LEGACY),
        (f"_temp_{HEX}", Member.TEMPORARY),
        (f"_temp_jit_f-{HEX}", Member.TEMPORARY),
        (".jcache-tmp-0123456789abcdef", Member.TEMPORARY),
        ("xla_gpu_per_fusion_autotune_cache_dir", Member.AUTOTUNE),
        ("xla_gpu_kernel_cache_file", Member.KERNELS),
        (".lockfile", Member.OURS),
        ("CACHEDIR.TAG", Member.OURS),
        (".jcache", Member.OURS),
        ("traces-v1", Member.OURS),
        ("traces-v2", Member.UNKNOWN),
        ("model-cache", Member.UNKNOWN),
        ("notes.txt", Member.UNKNOWN),
        ("", Member.UNKNOWN),
        (f"jit_\nf-{HEX}-cache", Member.UNKNOWN),
        (f"jit_f-{HEX}\n", Member.UNKNOWN),
        (f"jit_f-{HEX[:-1]}-cache", Member.UNKNOWN),
        (f"jit_f-{HEX}0-cache", Member.UNKNOWN),
        (f"jit_f-{HEX.upper()}-cache", Member.UNKNOWN),
        (f"jit_f-{'٣' * 64}-cache", Member.UNKNOWN),
        (f"jit_f-{HEX}-cache-cache", Member.UNKNOWN),
        (f"jit_f-{HEX}-CACHE", Member.UNKNOWN),
        (os.fsdecode(b"jit_\xff-" + HEX.encode() + b"-cache"), Member.UNKNOWN),
        (os.fsdecode(b"jit_\xff-" + HEX.encode()), Member.UNKNOWN),
    ],
)
def test_members(name: str, expected: Member) -> None:
    """A name is an entry, a sidecar, legacy, temporary, XLA's, jcache's or unknown; in doubt it is unknown."""
    assert member(name)[0] is expected


@given(names)
def test_every_name_is_some_member(name: str) -> None:
    """Every file name is classified; only entries, sidecars and legacy entries have a key."""
    what, of = member(name)
    assert bool(of) is (what in (Member.ENTRY, Member.SIDECAR, Member.LEGACY))
    assert not of or name.startswith(of)


@given(functions, st.integers(0, 9))
def test_keys_and_names(function: str, number: int) -> None:
    """A key's file is its entry, its sidecar has its own name, and the function's name precedes the hash."""
    key = f"{function}-{digits(number)}"
    assert is_key(key)
    assert name_of(key) == function
    assert member(f"{key}-cache") == (Member.ENTRY, key)
    assert member(f"{key}-atime") == (Member.SIDECAR, key)


def test_a_legacy_key_has_no_name() -> None:
    """jax <= 0.4.16 kept no name."""
    assert name_of(HEX) == ""


@pytest.mark.parametrize(
    "key", ["", "jit_f", HEX, f"-{HEX}", f"a/b-{HEX}", f"../../x-{HEX}", f"a\0b-{HEX}", f"a\udcff-{HEX}"]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    """A text that names a file elsewhere, or a file that is no entry's, is refused as a key."""
    with pytest.raises(InvalidValue, match="is not a key"):
        check_key(key)


def test_keys_must_fit_a_file_name() -> None:
    """184 bytes of name fit with hash and suffix into 255, in any alphabet; one more does not."""
    assert check_key("n" * 184 + f"-{HEX}")
    for name in ("n" * 185, "ö" * 93):
        with pytest.raises(InvalidValue, match="too long"):
            check_key(f"{name}-{HEX}")


def test_kinds() -> None:
    """There are three kinds, and the error on an unknown one lists them."""
    assert [parse_kind(kind) for kind in ("executables", "traces", "graphs")] == list(Kind)
    with pytest.raises(InvalidValue, match="did you mean 'executables'\\? Choose from executables, traces, graphs"):
        parse_kind("Executables")


def test_directories_of_a_root() -> None:
    """A plain root has its executables in itself; all else lies in the same places."""
    native, plain = Root(Path("/r"), plain=False), Root(Path("/r"), plain=True)
    assert [str(native.directory(kind)) for kind in Kind] == ["/r/executables", "/r/traces-v1", "/r/graphs-v1"]
    assert [str(plain.directory(kind)) for kind in Kind] == ["/r", "/r/traces-v1", "/r/graphs-v1"]
    assert plain.ledger == native.ledger == Path("/r/.jcache/ledger.sqlite3")
    assert plain.runs == Path("/r/.jcache/runs")


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
    elif root.layout.member(name)[0] is Member.ENTRY:
        assert root.layout.member(name) == (Member.ENTRY, key) and root.layout.key_of(name) == key
        assert root.layout.is_file_of(kind, key, name)
        assert root.place(kind, key).is_relative_to(root.directory(kind))


@given(
    st.lists(
        st.from_regex(r"[a-z\n -]{0,3}-?[0-9a-fg]{63,65}-(cache|atime)", fullmatch=True)
        | st.builds(lambda name: f"{name}-{HEX}-cache", st.text(max_size=3)),
        max_size=4,
    )
)
def test_many_names_at_once(names: list[str]) -> None:
    """Judged all at once, names are keys exactly if each of them is one."""
    assert are_files_of_keys(names) == all(is_key(name[:-6]) for name in names)
