"""Compare the options of two recorded programs: XLA's compile options by field, and JAX's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from jcache.explain import parts
from jcache.explain.change import Change, Seen
from jcache.explain.programs import CACHE_PATHS, Programs
from jcache.runs.record import COMPUTATION
from jcache.vocabulary import CauseKind

_FROM_PROGRAM: Final = re.compile(
    r"(?:.*\.)?(?:num_replicas|num_partitions|device_assignment|use_spmd_partitioning|use_auto_spmd_partitioning"
    r"|allow_spmd_sharding_propagation_to_\w+|auto_spmd_partitioning_mesh_\w+|argument_layouts|result_layout"
    r"|use_shardy_partitioner)"
)  # compile options that follow from the program and its devices
TRACED: Final = re.compile(
    r"jax_(?:enable_x64|default_matmul_precision|default_prng_impl|threefry_\w+|numpy_\w+|softmax_custom_jvp|random_\w+"
    r"|debug_nans|debug_infs|disable_jit|default_dtype_bits|use_shardy_partitioner|legacy_prng_key|enable_custom_prng"
    r"|enable_checks|x64_\w+|dynamic_shapes|sharding_in_types|use_direct_linearize|vjp3|no_tracing|eager_pmap)"
)  # options of JAX that are known to change the program
_HARMLESS: Final = re.compile(
    r"jax_(?:compilation_cache\w*|enable_compilation_cache|persistent_cache\w*|raise_persistent_cache\w*|log_\w+"
    r"|logging_\w+|debug_log\w*|traceback\w*|explain_\w+|dump_\w+|platforms?|platform_name|num_cpu_devices"
    r"|coordination\w*|default_device|transfer_guard\w*|check_\w+|include_\w+|hlo_source\w*|pgle\w*|enable_pgle"
    r"|array_garbage\w*|cuda_visible_devices|rocm_visible_devices|distributed_\w+|cpu_\w+|debug_key_reuse)"
)  # options that change no program
OTHER: Final = re.compile(rf"(?!(?:{_HARMLESS.pattern})$)(?!(?:{TRACED.pattern})$).*")


def compile_option_changes(
    current: Seen, baseline: Seen, differing: frozenset[str], found: Iterable[Change], programs: Programs
) -> list[Change]:
    """Return the compile options that differ, without those that flags, devices or the program explain."""
    items = {change.item for change in found}
    if parts.OPTIONS not in differing:
        return []
    ours, theirs = (
        None if (proto := parts.value(seen, parts.OPTIONS)) is None else programs.options(proto)
        for seen in (current, baseline)
    )
    is_explained = bool(items & {CauseKind.XLA_FLAGS, CauseKind.DEVICES}) or COMPUTATION in differing
    if ours is None or theirs is None:
        return [] if is_explained else [Change(CauseKind.COMPILE_OPTION, "", "", "")]
    names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    paths = [name for name in names if name in CACHE_PATHS]
    if paths:
        new, old = (_directory(fields.get(paths[0], "")) for fields in (ours, theirs))
        changed = [Change(CauseKind.CACHE_PATH, "", new, old)]
    else:
        changed = []
    named = [name for name in names if name not in paths and name.rpartition(".")[2] not in _flag_names(found)]
    own = [name for name in named if not _FROM_PROGRAM.fullmatch(name)]
    if CauseKind.XLA_FLAGS in items:  # a flag may set other fields as well
        own = [name for name in own if "xla_" not in name]
    if not (own or paths or is_explained):
        own = named  # nothing else explains these options
    if own:
        changed.append(_option_change(own, ours, theirs))
    return changed or ([] if is_explained else [Change(CauseKind.COMPILE_OPTION, "", "", "")])


def _flag_names(found: Iterable[Change]) -> set[str]:
    """Return the names of the flags of XLA that changed, as fields of the compile options have them."""
    return {
        flag.lstrip("-").partition("=")[0].removeprefix("no")
        for change in found
        if change.item is CauseKind.XLA_FLAGS
        for flag in f"{change.current} {change.baseline}".split()
    }


def _directory(path: str) -> str:
    """Return the cache directory from the path of one of XLA's own caches in it."""
    head, _, last = path.rpartition("/")
    return head if last in CACHE_PATHS else path


def _option_change(names: list[str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> Change:
    first = names[0]
    return Change(
        CauseKind.COMPILE_OPTION,
        first.rpartition(".")[2],
        ours.get(first, ""),
        theirs.get(first, ""),
        more=len(names) - 1,
    )


def jax_option_changes(
    current: Seen, baseline: Seen, differing: frozenset[str], which: re.Pattern[str]
) -> list[Change]:
    """Return the first of JAX's options that differ between two programs whose modules differ."""
    if COMPUTATION not in differing:
        return []
    ours, theirs = _options_of(current), _options_of(baseline)
    names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name) and which.fullmatch(name)]
    return [
        Change(CauseKind.JAX_OPTION, name, ours.get(name, ""), theirs.get(name, ""), more=len(names) - 1)
        for name in names[:1]
    ]


def differ_in_jax_options(current: Seen, baseline: Seen) -> bool:
    """Return whether options of JAX that can change programs differ between the runs of two programs."""
    ours, theirs = _options_of(current), _options_of(baseline)
    return any(ours.get(name) != theirs.get(name) and not _HARMLESS.fullmatch(name) for name in {*ours, *theirs})


def _options_of(seen: Seen) -> Mapping[str, str]:
    number = seen.program.options
    options = seen.process.options
    return options[number] if number is not None and 0 <= number < len(options) else {}
