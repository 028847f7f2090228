"""Misses are grouped by what changed, and what follows from a change is no cause of its own."""

from collections import Counter
from typing import Any

import pytest

from jcache.runs.record import Argument
from jcache.vocabulary import CauseKind
from tests.helpers.records import OPERATION, USUAL, argument, explained, module_text, process, program, run

NEW = "module @jit_step, changed"


def test_one_size_that_changes_in_many_functions_is_one_cause() -> None:
    """A size that changes from 64 to 61 in the arguments of one function and in the module of another is one cause."""
    old, new = module_text(name="jit_ones"), module_text(name="jit_ones", size=61)
    before = process(program("step"), program("ones", old, arguments=()))
    step = program("step", NEW, arguments=argument(type="f32[61,128]"), compile_seconds=9.0)
    found = explained(run(1, before), run(2, process(step, program("ones", new, arguments=()))), texts=(old, new))
    (cause,) = found.causes
    assert (cause.item, cause.function, cause.misses) == (CauseKind.SHAPE, "step", 2)


@pytest.mark.parametrize("item", [CauseKind.JAX_OPTION, CauseKind.DEVICES, CauseKind.VERSION])
def test_operations_of_jax_that_a_setting_brings_belong_to_it(item: CauseKind) -> None:
    """An operation of JAX that is new where x64, the devices or the version changed is no cause of its own."""
    fields: dict[CauseKind, dict[str, Any]] = {
        CauseKind.JAX_OPTION: {"options": ({**USUAL, "jax_enable_x64": "True"},)},
        CauseKind.DEVICES: {"devices": ("8 x cpu",)},
        CauseKind.VERSION: {"jaxlib": "0.12.0"},
    }
    new = process(program("step", NEW), program("convert_element_type", **OPERATION), **fields[item])
    found = explained(run(1, process(program("step"))), run(2, new))
    assert [(cause.item, cause.misses) for cause in found.causes] == [(item, 2)]


@pytest.mark.parametrize("part", ["function", "operation"])
def test_a_function_of_the_programs_own_that_is_new_is_a_cause(part: str) -> None:
    """A function of the program that is new is seen for the first time, whatever else changed; an operation is not."""
    added = program("extra") if part == "function" else program("iota", **OPERATION)
    new = process(program("step", NEW, arguments=argument(type="f32[61,128]")), added)
    found = explained(run(1, process(program("step"))), run(2, new))
    assert Counter(cause.item for cause in found.causes) == (
        {CauseKind.SHAPE: 1, CauseKind.FIRST_TIME: 1} if part == "function" else {CauseKind.SHAPE: 1}
    )


def test_an_operation_with_a_shape_of_its_own_follows_the_one_change() -> None:
    """An operation of JAX whose shape changed in another way belongs to the one change of the program's functions."""
    before = process(program("step"), program("iota", arguments=(Argument("", "f32[]"),), **OPERATION))
    step = program("step", NEW, arguments=argument(type="f32[61,128]"))
    other = program("iota", NEW, arguments=(Argument("", "f32[3]"),), **OPERATION)
    (cause,) = explained(run(1, before), run(2, process(step, other))).causes
    assert (cause.item, cause.function, cause.misses) == (CauseKind.SHAPE, "step", 2)


def test_two_changes_of_functions_stay_two_causes() -> None:
    """Two functions that changed in two ways are two causes, and an operation that changed is a third one."""
    now = process(
        program("step", NEW, arguments=argument(type="f32[61,128]")),
        program("loss", NEW, arguments=argument(donated=True)),
        program("iota", NEW, arguments=argument(type="f32[64,9]"), **OPERATION),
    )
    before = process(program("step"), program("loss"), program("iota", **OPERATION))
    found = explained(run(1, before), run(2, now))
    assert sorted(cause.misses for cause in found.causes) == [1, 1, 1]


def test_a_static_shape_or_dtype_goes_with_the_arguments_that_have_it() -> None:
    """A static argument that is the shape, or the dtype, that changed in another function is the same cause."""
    for kind, old, new in (("f32[61,128]", "(64, 8)", "(61, 8)"), ("f16[64,128]", "Float32DType", "Float16DType")):
        before = process(program("step"), program("normal", static={"n": old}, **OPERATION))
        now = process(
            program("step", NEW, arguments=argument(type=kind)),
            program("normal", NEW, static={"n": new}, **OPERATION),
        )
        (cause,) = explained(run(1, before), run(2, now)).causes
        assert (cause.function, cause.misses) == ("step", 2)


def test_a_constant_of_two_types_is_one_cause() -> None:
    """A number that is broadcast in one function and not in another is one cause."""
    old, new = module_text(), module_text(constant="3.0")
    texts = (old, new, old.replace("f32", "1xf32"), new.replace("f32", "1xf32"))
    before = process(program("step", texts[0]), program("loss", texts[2]))
    now = process(program("step", texts[1]), program("loss", texts[3]))
    (cause,) = explained(run(1, before), run(2, now), texts=texts).causes
    assert (cause.item, cause.misses) == (CauseKind.CONSTANT, 2)


def test_a_helper_that_is_jitted_and_called_elsewhere_is_one_cause() -> None:
    """The name of a helper in a module, and of the module of the helper itself, are one cause."""
    texts = (module_text(), module_text(helper="new"), module_text(name="jit_helper"), module_text(name="jit_new"))
    before = process(program("step", texts[0]), program("helper", texts[2]))
    now = process(program("step", texts[1]), program("new", texts[3]))
    (cause,) = explained(run(1, before), run(2, now), texts=texts).causes
    assert (cause.item, cause.current, cause.baseline, cause.misses) == (CauseKind.NAMES, "@new", "@helper", 2)
