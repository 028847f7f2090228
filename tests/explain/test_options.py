"""Compile options by field, and JAX's options, without those that follow from something else."""

import json

from jcache.runs.record import ProcessRecord
from jcache.vocabulary import CauseKind
from tests.helpers.records import (
    FAST_MATH,
    FLAGS,
    OPTIONS,
    explained,
    process,
    program,
    run,
    sha256,
)


def test_a_flag_that_is_also_a_compile_option_is_one_cause() -> None:
    """A flag of XLA changes a field of the compile options as well; an option of another name is a cause of its own."""
    options = {
        flags: json.dumps({"xla_cpu_enable_fast_math": flags or "false", "other": "1"}) for flags in ("", FAST_MATH)
    }

    def made(flags: str, other: str = "1") -> ProcessRecord:
        text = options[flags].replace('"1"', f'"{other}"')
        values = {FLAGS: {sha256(flags): flags}, OPTIONS: {sha256(text): text}}
        return process(program("step", flags=flags, parts={OPTIONS: sha256(text)}), flags=flags, values=values)

    assert [c.item for c in explained(run(1, made("")), run(2, made(FAST_MATH))).causes] == [CauseKind.XLA_FLAGS]
    (cause,) = explained(run(1, made("")), run(2, made("", "2"))).causes
    assert (cause.item, cause.name, cause.current, cause.baseline) == (CauseKind.COMPILE_OPTION, "other", "2", "1")


def test_the_cache_path_in_the_key_is_a_cause() -> None:
    """The directory's path in the compile options, as jax 0.10.2 has it, is named."""

    def made(path: str) -> ProcessRecord:
        text = json.dumps({"xla_gpu_per_fusion_autotune_cache_dir": path})
        values = {**process().values, OPTIONS: {sha256(text): text}}
        return process(program("step", parts={OPTIONS: sha256(text)}), values=values)

    (cause,) = explained(run(1, made("/a")), run(2, made("/b"))).causes
    assert (cause.item, cause.current, cause.baseline) == (CauseKind.CACHE_PATH, "/b", "/a")


def test_options_that_cannot_be_read_are_one_cause() -> None:
    """Without a readable value, that the compile options changed is told once for all functions."""
    before, now = ([program(name, parts={OPTIONS: sha256(f"{name}{n}")}) for name in ("step", "loss")] for n in (1, 2))
    (cause,) = explained(run(1, process(*before)), run(2, process(*now))).causes
    assert (cause.item, cause.name, cause.misses) == (CauseKind.COMPILE_OPTION, "", 2)
