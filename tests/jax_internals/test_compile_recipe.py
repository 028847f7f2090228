"""The recipe of a compilation, by which another machine compiles the program."""

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

BEGINNING = """
import json
import jax, numpy as np
from jax._src import compiler
from jcache.jax_internals import compile_recipe as r

def refusal(call, *arguments):
    try:
        call(*arguments)
    except r.CannotCompile as error:
        return str(error)

devices = np.array(jax.devices()[:1], dtype=object)
options = compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=devices.reshape(1, 1))
recipe = r.recipe_of(devices, options)
"""


def test_options_made_of_a_recipe_have_the_same_recipe() -> None:
    """The devices and the options that JAX set are written down, and come back on a machine that has the devices."""
    program = f"""{BEGINNING}
module = jax.jit(lambda x: x + 1).lower(1.0).compiler_ir("stablehlo")
again = r.devices_of(recipe)
made = r.options_of(recipe, module, again, jax.devices()[0].client)
print(json.dumps([json.loads(recipe)["devices"], [each.id for each in again], r.recipe_of(again, made) == recipe]))
"""
    assert run(program).value == [[0], [0], True]


def test_what_this_machine_lacks_is_named() -> None:
    """A missing recipe, a missing device and several missing devices each have a sentence."""
    program = f"""{BEGINNING}
told = json.loads(recipe)
absent = [json.dumps(told | {{"devices": numbers}}) for numbers in ([7], [0, 8, 9])]
print(json.dumps([refusal(r.devices_of, each) for each in ("", *absent)]))
"""
    assert run(program).value == [
        "the way it was compiled is not on record",
        "it runs on cpu device 7, which is not here",
        "it runs on cpu devices 8, 9, which are not here",
    ]


def test_settings_of_a_trace_are_set_and_put_back() -> None:
    """Only differing options are set; one that this JAX lacks, or whose text is no value, is refused by name."""
    program = f"""{BEGINNING}
now = {{"jax_enable_x64": "False", "jax_numpy_rank_promotion": "'allow'"}}
ours = r.configured({{"jax_enable_x64": "True", "jax_numpy_rank_promotion": "'allow'"}}, now)
inside = jax.config.jax_enable_x64
ours.restore()
print(json.dumps([inside, jax.config.jax_enable_x64,
                  refusal(r.configured, {{"jax_no_such_option": "1"}}, {{}}),
                  refusal(r.configured, {{"jax_enable_x64": "open('x')"}}, now), jax.config.jax_enable_x64]))
"""
    inside, after, missing, odd, last = run(program).value
    assert (inside, after, last) == (True, False, False)
    assert missing == "it was traced under jax_no_such_option, which cannot be set here"
    assert odd == "it was traced under jax_enable_x64, which cannot be set here"
