"""Two lowered modules as texts: what differs, in the words of the vocabulary."""

from typing import Any

import pytest

from jcache.vocabulary import CauseKind
from tests.helpers.records import explained, module_text, process, program, run


@pytest.mark.parametrize(
    ("item", "changed", "current", "baseline"),
    [
        (CauseKind.NAMES, {"helper": "helper_v2"}, "@helper_v2", "@helper"),
        (CauseKind.CONSTANT, {"constant": "3.0"}, "dense<3.0> : tensor<f32>", "dense<2.0> : tensor<f32>"),
        (CauseKind.SHAPE, {"size": 61}, "tensor<61xf32>", "tensor<64xf32>"),
        (CauseKind.DTYPE, {"dtype": "bf16"}, "tensor<64xbf16>", "tensor<64xf32>"),
        (CauseKind.ORDER, {"swap": True}, "%2 = stablehlo.cosine %1", "%2 = stablehlo.sine %1"),
    ],
)
def test_what_differs_in_the_module_alone_is_read_from_it(
    item: CauseKind, changed: dict[str, Any], current: str, baseline: str
) -> None:
    """Where no argument, option or flag differs, the two modules tell the cause."""
    old, new = module_text(), module_text(**changed)
    found = explained(run(1, process(program("step", old))), run(2, process(program("step", new))), texts=(old, new))
    (cause,) = found.causes
    assert (cause.item, cause.current, cause.baseline, cause.misses) == (item, current, baseline, 1)
