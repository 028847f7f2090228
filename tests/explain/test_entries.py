"""What two entries say, compared."""

import pytest

from jcache.explain.entries import entry_changes
from jcache.formats.envelope import Codec
from jcache.formats.inspection import Inspection
from jcache.layout import Kind
from jcache.store.ledger import Known
from jcache.vocabulary import CauseKind
from tests.helpers.entries import key


def inspection(**fields: object) -> Inspection:
    usual: dict[str, object] = {
        "module_name": "jit_step",
        "platform": "cpu",
        "abi_version": {"toolkit": "13.0"},
        "output_shapes": ("f32[64,128]",),
        "cpu_name": "znver3",
        "cpu_features": ("+avx", "+avx2"),
        "source_file": "/a/train.py",
        "source_line": 7,
        "cache_path": "/a",
        "xla_options": 1,
    }
    return Inspection(stored_bytes=1, raw_bytes=1, codec=Codec.ZSTD, seconds=1, **(usual | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "item", "name", "current", "baseline"),
    [
        ({"platform": "cuda"}, CauseKind.DEVICES, "platform", "cuda", "cpu"),
        ({"abi_version": {"toolkit": "12.9"}}, CauseKind.PLATFORM, "toolkit", "12.9", "13.0"),
        ({"cpu_features": ("+avx", "+sse")}, CauseKind.CPU, "features", "+sse", "+avx2"),
        ({"cpu_name": "skylake"}, CauseKind.CPU, "name", "skylake", "znver3"),
        ({"cache_path": "/b"}, CauseKind.CACHE_PATH, "", "/b", "/a"),
        ({"output_shapes": ("f32[61,128]",)}, CauseKind.SHAPE, "outputs", "f32[61,128]", "f32[64,128]"),
        ({"output_shapes": ("bf16[64,128]",)}, CauseKind.DTYPE, "outputs", "bf16[64,128]", "f32[64,128]"),
        ({"output_shapes": ("f32[]", "f32[]")}, CauseKind.STRUCTURE, "outputs", "f32[] f32[]", "f32[64,128]"),
        ({"module_name": "jit_other"}, CauseKind.NAMES, "module", "jit_other", "jit_step"),
        ({"source_line": 9}, CauseKind.NAMES, "source", "/a/train.py:9", "/a/train.py:7"),
        ({"xla_options": 3}, CauseKind.VERSION, "jaxlib, or flags of XLA", "", ""),
    ],
)
def test_each_fact_that_differs_is_a_change(
    changed: dict[str, object], item: CauseKind, name: str, current: str, baseline: str
) -> None:
    """A fact that both entries tell, and that differs, is a change of its cause."""
    (change,) = entry_changes(inspection(**changed), inspection())
    assert (change.item, change.name, change.current, change.baseline) == (item, name, current, baseline)


def test_facts_that_one_entry_lacks_are_no_change() -> None:
    """What one entry does not tell is no difference, and equal entries have none."""
    unknown: dict[str, object] = dict.fromkeys(("module_name", "platform", "output_shapes", "cpu_name", "cache_path"))
    assert entry_changes(inspection(**unknown), inspection()) == []
    assert entry_changes(inspection(), inspection()) == []


def test_the_ledgers_versions_come_first() -> None:
    """Where the ledger knows another jaxlib for each entry, that is the first change."""
    ours, theirs = (Known(Kind.EXECUTABLES, key(n), jaxlib=version) for n, version in ((1, "0.12"), (2, "0.10.2")))
    first, *_ = entry_changes(inspection(xla_options=3, platform="cuda"), inspection(), ours, theirs)
    assert (first.item, first.current, first.baseline) == (CauseKind.VERSION, "0.12", "0.10.2")
