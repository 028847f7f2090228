"""Containers that a value mentions more than once."""

from collections import OrderedDict
from typing import Any

import pytest

from jcache.errors import NotStorable
from jcache.formats import pytrees
from jcache.formats.pytrees.registration import register_class
from tests.formats.pytrees.test_pytrees import again, stored
from tests.helpers.graph_classes import Box


@pytest.mark.parametrize(
    "part",
    [[1], [], {"a": 1}, {}, {"$a": 1}, {1: 2}, OrderedDict(a=1), {1}, {(1, 2)}, (1, [2]), Box([1]), [[1] * 20]],
    ids=str,
)
def test_a_container_that_is_mentioned_again_is_one_object(part: Any) -> None:
    """Wherever it is: in a list, a tuple, a dictionary, a dataclass, or below another one that is mentioned again."""
    outer = [part]
    found = again([part, (part, 1), {"a": part, 1: part}, Box(part), outer, outer])
    assert found[0] == part and type(found[0]) is type(part)
    assert all(each is found[0] for each in (found[1][0], found[2]["a"], found[2][1], found[3].value, found[4][0]))
    assert found[4] is found[5]


def test_equal_containers_stay_several_objects() -> None:
    """Nothing is made one that was not."""
    found = again([[1], [1], (), ()])
    assert found[0] is not found[1] and found == [[1], [1], (), ()]


class Mesh:
    def __init__(self, points: list[int]) -> None:
        self.points = points

    def to_dict(self) -> dict[str, Any]:
        return {"points": self.points, "more": [len(self.points)]}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Mesh":
        return cls(state["points"])


def test_registered_objects_are_shared_and_share() -> None:
    """What `to_dict` makes is gone before the next object is stored, and its address may be used again."""
    register_class(Mesh)
    points = [1]
    meshes = [Mesh(points) for _ in range(50)]
    found = again([*meshes, meshes[0], points])
    assert found[50] is found[0] and all(mesh.points is found[51] for mesh in found[:50])
    assert len({id(mesh) for mesh in found[:50]}) == 50


def test_a_container_within_itself_is_refused_all_the_same() -> None:
    """It has no beginning."""
    part: list[Any] = []
    part.append([part])
    with pytest.raises(NotStorable, match="contains itself"):
        pytrees.dump([part, part])


def test_the_bytes_say_each_container_once() -> None:
    """A large one that is mentioned often takes its space once."""
    part = list(range(1000))
    assert len(stored([part] * 100)) < 2 * len(stored(part))
