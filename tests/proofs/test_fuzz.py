"""Whatever the bytes or the text: no exception but the documented ones, and no allocation beyond a limit.

Short here, as in CI; `pytest tests/proofs --full -s` makes a hundred times as many examples and gives the
coverage-guided fuzzer three minutes for each of its six targets instead of a thousand runs. JCACHE_SEED, which a
failing test prints, repeats the fuzzer's run; the input that made it fail is printed in base64.
"""

import contextlib
import importlib.util
import json
import random
import re
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry
from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.formats.inspection import inspect
from jcache.formats.protobuf import Message, read_varints
from tests.helpers.graph_classes import Color, Mode, Pair, Slotted
from tests.helpers.jax_entries import H200, JaxEntries, cpu_entries_fixture as cpu_entries_fixture, number, text, varint
from tests.helpers.waiting import LIMIT_S
from tests.proofs.bombs import BOMBS
from tests.proofs.fuzz_target import TARGETS, compressed, mutate_envelope, mutate_executable

FULL, SHORT = {"max_total_time": 180}, {"runs": 1000}  # of the fuzzer
FUZZER_MEMORY = 1024  # MiB of the whole process; one entry may take half of it, see test_bombs_are_refused
TEXTS = (
    "20GiB", "1.5 kB", "4096", "30d", "12min", "1.5y", "3m", "size>100MB", "age<=2h", "used>30d", "seconds>=1.5",
    "name=jit_step", "name~^jit_(a|b)+?$", "kind!=graphs", "kind~^t", "size:asc", "name:desc", "executables",
    "jit_step-" + "0a" * 32 + "-cache", "jit_step-" + "0a" * 32 + "-atime", "jit_step-" + "0a" * 32, "0a" * 32,
    "_temp_x", ".jcache-tmp-1", "traces-v1", "xla_gpu_kernel_cache_file",
)  # fmt: skip


def sealed(payload: bytes, codec: Codec) -> bytes:
    return seal(
        payload, kind="traces", name="step", key="step-" + "0" * 64, key_parts={"code": "ab"},
        producers={"jax": "0.10.2"}, build_seconds=0.25, created_ns=1_700_000_000_000_000_000, parents=("p", "q"),
        codec=codec,
    )  # fmt: skip


VALUES = [
    None, -0.0, 1 << 70, float("nan"), "\ud800", b"bytes", (1, {2: frozenset({3})}), OrderedDict(a=slice(1, None)),
    np.arange(6).reshape(2, 3).T, np.zeros(2, "<M8[ns]"), np.float32(1), np.ones(1, [("x", "<U2"), ("y", ">i2", (2,))]),
    Pair(1), Slotted(size=1), Color.RED, Mode.READ | Mode.WRITE,
]  # fmt: skip


def graph(value: object) -> bytes:
    return b"".join(pytrees.dump(value).pieces)


def seeds_of(target: str, entries: list[bytes]) -> list[bytes]:
    """Return valid inputs of a target, from real entries if it reads such."""
    payloads = [unpack_executable(entry).payload for entry in entries]
    if target == "executable":
        return [*entries, *(pack_executable(payloads[0], 3, codec) for codec in (Codec.ZSTD, Codec.ZLIB))]
    if target == "inside":
        bodies = [payload[1 + payload[0] :] for payload in payloads if payload[0] < 0x80]  # as before jax 0.9
        return payloads + bodies
    if target == "envelope":
        return [sealed(payload, codec) for payload in (b"", payloads[0]) for codec in (Codec.ZSTD, Codec.NONE)]
    if target == "tree":
        return list(map(graph, (VALUES, VALUES[:2], {"a": VALUES[2:]})))
    if target == "riegeli":
        starts = [(payload, payload.find(b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f")) for payload in payloads]
        return [payload[start + skip :] for payload, start in starts if start >= 0 for skip in (0, 64)]
    return [line.encode() for line in TEXTS]


@pytest.fixture(scope="module", name="entries")
def entries_fixture(cpu_entries: JaxEntries) -> list[bytes]:
    """Entries of the installed JAX on the CPU, and of a GPU."""
    paths = [*sorted(cpu_entries.directory.glob("*-cache")), *sorted(H200.glob("*-cache"))]
    return [path.read_bytes() for path in paths]


def mutate(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """Make a few changes as damage and attackers do: to bits, bytes and numbers, or by losing, doubling and
    moving pieces.
    """
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((0, 1, 2, 8, 100, 5000)))
        other = chance.choice(others)
        place = chance.randrange(len(other) + 1)
        changed[start:end] = chance.choice(
            (
                b"",
                chance.randbytes(end - start),
                chance.randbytes(chance.randrange(12)),
                varint(chance.choice((0, 1, 127, 128, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64))),
                bytes(b ^ 1 << chance.randrange(8) for b in changed[start:end]),
                changed[start:end] * chance.randrange(1, 9),
                other[place : place + chance.choice((1, 8, 100))],
            )
        )
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.1 else changed)


def examples(check: Callable[[bytes], None], inputs: st.SearchStrategy[bytes], *, full: bool, short: int) -> None:
    """Check many inputs, a hundred times as many in the full form."""

    @settings(max_examples=short * 100 if full else short, deadline=None, database=None)
    @given(inputs)
    def run(data: bytes) -> None:
        check(data)

    run()


@pytest.mark.jax
@pytest.mark.parametrize("target", TARGETS)
def test_changed_inputs_raise_only_what_is_documented(target: str, entries: list[bytes], full: bool) -> None:
    """Real entries, envelopes and texts that were changed, outside and inside, are read or refused as documented."""
    seeds = seeds_of(target, entries)

    def changed(seed: int) -> bytes:
        chance = random.Random(seed)
        data = chance.choice(seeds)
        outer = {"executable": mutate_executable, "envelope": mutate_envelope}.get(target)
        if outer is None:
            return mutate(data, chance, seeds)
        return outer(data, 1 << 30, chance.randrange(1 << 30), lambda inner, _: mutate(inner, chance, seeds))

    examples(TARGETS[target], st.integers(0, 1 << 64).map(changed), full=full, short=200)


@pytest.mark.parametrize("target", TARGETS)
def test_random_inputs_raise_only_what_is_documented(target: str, full: bool) -> None:
    """Bytes and texts from nowhere are read or refused as documented, also in a sound container."""
    anything = st.binary(max_size=300) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace"))
    if target == "executable":
        anything |= st.builds(compressed, st.binary(max_size=300), st.integers(0, 2))
    if target == "texts":
        parts = st.sampled_from((*TEXTS, *"0123456789.,;:-+<>=~!*?()[]{}|\\^$ \t\n\x00\x1c\xa0٣KſKMGTP"))
        anything |= st.lists(parts, max_size=8).map(lambda found: "".join(found).encode())
    examples(TARGETS[target], anything, full=full, short=200)


def messages() -> st.SearchStrategy[bytes]:
    """Bytes that follow the wire format, with the field numbers that are read, in any nesting."""
    numbers = st.sampled_from((1, 2, 3, 4, 5, 6, 7, 9, 14, 15, 17, 306, 310, 2000, (1 << 29) - 1))
    varints = st.sampled_from((0, 1, 2, 11, 13, 99)) | st.integers(0, (1 << 64) - 1)
    leaf = st.builds(number, numbers, varints) | st.builds(text, numbers, st.binary(max_size=12))
    packed = st.builds(text, numbers, st.lists(varints.map(varint), max_size=6).map(b"".join))
    known = st.sampled_from((text(2, b"pjrt_ifrt"), text(7, b"jit_f"), text(1, b"CUDA"), number(5, 2)))

    def extend(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
        return st.lists(inner | st.builds(text, numbers, inner), max_size=5).map(b"".join)

    return st.recursive(leaf | packed | known, extend, max_leaves=30)


def test_messages_of_any_shape_are_inspected(full: bool) -> None:
    """Bytes that follow the wire format but no schema raise nothing, as a body and as metadata."""

    def check(data: bytes) -> None:
        TARGETS["inside"](data)
        TARGETS["inside"](varint(len(data) + 11) + text(2, b"pjrt_ifrt") + data + data)
        TARGETS["inside"](text(1, data) + text(2, text(3, text(3, data))))
        TARGETS["inside"](text(1, text(1, text(1, data)) + number(5, 2)) + text(2, b""))

    examples(check, messages(), full=full, short=200)


def test_messages_are_split_as_they_were_made(full: bool) -> None:
    """Numbers, texts and packed numbers are found again, and damage to them is `DamagedEntry` or other values."""

    def check(data: bytes) -> None:
        with contextlib.suppress(DamagedEntry):
            read_varints(memoryview(data))
        with contextlib.suppress(DamagedEntry):
            message = Message(data, max_fields=1000)
            for field in (1, 2, 3, 17, 310):
                texts = message.slices(field)
                assert message.slice(field) == (texts[-1] if texts else None)
                assert (message.varint(field) in message.varints(field)) == (message.varint(field) is not None)
                for _ in message.messages(field):
                    pass

    examples(check, messages() | st.binary(max_size=100), full=full, short=200)


@pytest.mark.jax
@pytest.mark.parametrize("target", TARGETS)
def test_the_fuzzer_finds_nothing(
    target: str, entries: list[bytes], full: bool, chance: random.Random, tmp_path: Path
) -> None:
    """A coverage-guided fuzzer, started from real inputs, gets out no undocumented exception and stays in memory."""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: there are wheels for Linux on x86-64 alone")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for index, seed in enumerate(seeds_of(target, entries)):
        (corpus / str(index)).write_bytes(seed)
    options = (FULL if full else SHORT) | {
        "seed": chance.randrange(1, 1 << 31),
        "rss_limit_mb": FUZZER_MEMORY, "max_len": 128 if target == "texts" else 1 << 16, "timeout": round(LIMIT_S),
        "print_final_stats": 1, "verbosity": 1, "artifact_prefix": f"{tmp_path}/",
    }  # fmt: skip
    # Linux counts the memory of who starts a process as the process's own, but not that of who starts its parent
    shell = ["sh", "-c", '"$@"; exit $?', "sh"]
    command = [*shell, sys.executable, "-m", "tests.proofs.fuzz_target", target, str(corpus)]
    result = subprocess.run(
        [*command, *(f"-{name}={value}" for name, value in options.items())],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=FULL["max_total_time"] + 10 * LIMIT_S,
        check=False,
    )
    told = result.stdout.splitlines()
    last = [line for line in told if " cov: " in line][-1:]
    print(f"{target}: seed {options['seed']}", *last, *(line for line in told if line.startswith("stat::")), sep="\n  ")
    assert result.returncode == 0 and last, "\n".join(told[-60:])


@pytest.mark.parametrize(
    "name",
    BOMBS,
)
def test_bombs_are_refused(name: str, tmp_path: Path) -> None:
    """Input that would fill the memory is refused by its declared and its real size, within the stated memory."""
    make, reader, limit, expected = BOMBS[name]
    path = tmp_path / "bomb"
    path.write_bytes(make())
    result = subprocess.run(
        [sys.executable, "-m", "tests.proofs.bombs", reader, str(path), str(limit)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=10 * LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    print(f"{name}: {path.stat().st_size} bytes, {outcome['peak'] >> 20} of {limit} MiB: {outcome['end'][:90]}")
    assert re.search(expected, outcome["end"])
    assert outcome["peak"] <= limit << 20


def test_a_program_of_many_outputs_is_no_bomb() -> None:
    """Twenty thousand results, and as many source positions, are within the limits."""
    spec = text(5, text(6, text(1, varint(4) + varint(5))) + text(2, number(1, 11)))
    places = (
        text(3, number(1, 1) + number(2, 1) + number(3, 7)) * 20_000 + text(4, number(1, 1) + number(2, 1)) * 20_000
    )
    index = text(17, text(1, b"a.py") + text(2, b"f") + places)
    metadata = text(2, b"pjrt_ifrt") + spec * 20_000
    body = text(1, text(1, text(1, text(1, b"jit_f") + index)) + number(5, 2)) + text(2, b"")
    found = inspect(compressed(bytes(4) + varint(len(metadata)) + metadata + body, 0))
    assert found.grammar_ok
    assert found.output_shapes == ("f32[4,5]",) * 20_000
    assert found.source_line == 7


BLANKS = """
from jcache.errors import InvalidValue
from jcache.admin.filters import parse_filter
from jcache.units import parse_age, parse_size
blanks, refused = " " * 4_000_000, 0
for parse in (parse_size, parse_age, parse_filter):
    for words in (f"1{blanks}!", f"size=1{blanks}!", f"size>1{blanks}1", f"size{blanks}!"):
        try:
            parse(words)
        except InvalidValue:
            refused += 1
print(refused)
"""


def test_blanks_cost_no_time() -> None:
    """Millions of blanks in a size, age or filter are refused; backtracking would take hours over each of them."""
    done = subprocess.run([sys.executable, "-c", BLANKS], capture_output=True, timeout=10 * LIMIT_S, check=True)
    assert done.stdout == b"12\n"
