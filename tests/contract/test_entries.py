"""One directory and two caches: stored and served values, and the order of eviction."""

import random
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from jcache.errors import InvalidValue
from jcache.store.put_result import Outcome
from tests.contract.sides import (
    ALWAYS_SIDECARS,
    Both,
    Jax,
    Jcache,
    both_ways,
    contents,
    fresh,
    in_order,
    jax_version,
    with_and_without,
)
from tests.helpers.entries import files_of, key, recency_of

pytestmark = pytest.mark.jax

LONGEST = 255 - len("-cache") - len("-") - 64


@both_ways
@with_and_without
@given(
    name=st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable() and "/" not in text),
    data=st.binary(max_size=300),
)
@example("jit_step", b"")
@example("jit__lambda_", b"12345678" * 400_000)
@example("n" * LONGEST, b"x")
@example("é" * (LONGEST // 2), b"x")
@example("pmap(<lambda>) *?[a]\\", b"\0")
@example(".jcache-tmp-", b"x")
@example("-cache", b"x")
@example("x-atime", b"x")
def test_what_one_puts_the_other_gets(
    tmp_path: Path, one: str, other: str, bound: int | None, name: str, data: bytes
) -> None:
    """Byte for byte and with the same mode, whatever the name and the size; before, to both it is not there."""
    directory = fresh(tmp_path)
    with Both(directory, bound) as sides:
        writer, reader = sides[one], sides[other]
        assert writer.get(key(1, name)) is reader.get(key(1, name)) is None
        assert writer.put(key(1, name), data) is Outcome.STORED
        assert reader.get(key(1, name)) == writer.get(key(1, name)) == data
        assert reader.put(key(2, name), data) is Outcome.STORED
    assert contents(directory) == {key(1, name): data, key(2, name): data}
    assert len({path.stat().st_mode for path in directory.glob("*-cache")}) == 1


@with_and_without
def test_a_name_that_no_file_can_have(tmp_path: Path, bound: int | None) -> None:
    """Neither cache stores a name that no file can have, and both work afterwards."""
    with Both(tmp_path, bound) as sides:
        for name in ("n" * (LONGEST + 1), "é" * (LONGEST // 2 + 1)):
            with pytest.raises(OSError, match="too long"):
                sides.jax.put(key(1, name), b"x")
            with pytest.raises(InvalidValue, match="too long"):
                sides.jcache.put(key(1, name), b"x")
        assert contents(tmp_path) == {}
        assert sides.jax.put(key(1), b"x") is sides.jcache.put(key(2), b"y") is Outcome.STORED


@both_ways
@with_and_without
def test_what_one_has_put_the_other_never_overwrites(tmp_path: Path, one: str, other: str, bound: int | None) -> None:
    """The first one's bytes stay, and a put that finds them is no use of them."""
    with Both(tmp_path, bound) as sides:
        sides[one].put(key(1), b"first")
        before = {path: path.read_bytes() for path in tmp_path.glob(f"{key(1)}-*")}
        assert sides[other].put(key(1), b"second") is sides[one].put(key(1), b"third") is Outcome.PRESENT
        assert {path: path.read_bytes() for path in tmp_path.glob(f"{key(1)}-*")} == before
        assert sides[other].get(key(1)) == b"first"


@both_ways
def test_what_one_gets_the_other_keeps(tmp_path: Path, one: str, other: str) -> None:
    """A get by one moves the recency that the other evicts by."""
    with Both(tmp_path, 300) as sides:
        user, evictor = sides[one], sides[other]
        for number in range(3):
            evictor.put(key(number), b"x" * 100)
        assert user.get(key(0)) is not None
        assert evictor.put(key(3), b"x" * 100) is Outcome.STORED
        assert in_order(tmp_path) == [key(2), key(0), key(3)]
        assert evictor.get(key(2)) is not None
        assert user.put(key(4), b"x" * 200) is Outcome.STORED
        assert in_order(tmp_path) == [key(2), key(4)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["JAX", "jcache"]),
        st.sampled_from(["put", "put", "get"]),
        st.integers(0, 9),
        st.sampled_from([0, 1, 50, 99, 100, 101, 299, 300, 301]),
        st.booleans(),
    ),
    max_size=60,
)


@pytest.mark.parametrize("bound", [None, 300, 0], ids=["unbounded", "bounded", "bounded by nothing"])
@settings(max_examples=200)
@given(steps=STEPS)
def test_both_together_do_as_either_does_alone(
    tmp_path: Path, bound: int | None, steps: list[tuple[str, str, int, int, bool]]
) -> None:
    """Both caches on one directory behave like either alone: after every put and get of any sequence,
    answers, bytes and order, and so the victims, are the same.  Each step is done by either side on one
    directory, by JAX on another and by jcache on a third. Without a bound, the order is compared where JAX
    itself keeps one, up to 0.5.0.
    """
    base = fresh(tmp_path)
    together, theirs, ours = base / "together", base / "JAX", base / "jcache"
    theirs_alone = Jax(theirs, bound)
    with Both(together, bound) as sides, closing(Jcache(ours, bound)) as ours_alone:
        for number, (name, verb, which, size, anew) in enumerate(steps):
            if anew:
                sides.renew(name)
            doing = (sides[name], theirs_alone, ours_alone)
            if verb == "put":
                assert len({side.put(key(which), bytes([number]) * size) for side in doing}) == 1
            else:
                assert len({side.get(key(which)) for side in doing}) == 1
            assert contents(together) == contents(theirs) == contents(ours)
            if bound is not None:
                assert sum(files_of(together).values()) <= bound
            if bound is not None or jax_version() <= ALWAYS_SIDECARS:
                assert in_order(together) == in_order(theirs) == in_order(ours)


@pytest.mark.full
@pytest.mark.smoke
@with_and_without
def test_the_store_lists_what_jax_wrote(tmp_path: Path, bound: int | None, chance: random.Random) -> None:
    """The store lists keys, bytes and recency as JAX wrote them: the sidecar's time, else that of the file."""
    theirs = Jax(tmp_path, bound)
    written = {key(number): chance.randrange(5000) for number in range(50)}
    for a_key, size in written.items():
        theirs.put(a_key, b"x" * size)
    used = chance.sample(list(written), 20)
    for a_key in used:
        theirs.get(a_key)
    with closing(Jcache(tmp_path)) as ours:
        entries = {entry.key: entry for entry in ours.store.entries()}
    assert {a_key: entry.bytes for a_key, entry in entries.items()} == written
    recency = {a_key: entry.recency_ns for a_key, entry in entries.items()}
    if bound is None and jax_version() > ALWAYS_SIDECARS:
        for a_key in written:
            status = (tmp_path / f"{a_key}-cache").stat()
            assert recency[a_key] in (status.st_mtime_ns, max(status.st_mtime_ns, status.st_atime_ns))
        assert not any(entry.sidecar for entry in entries.values())
    else:
        assert recency == {a_key: recency_of(tmp_path, a_key) for a_key in written}
        assert sorted(recency, key=lambda a_key: recency[a_key]) == [*(k for k in written if k not in used), *used]
