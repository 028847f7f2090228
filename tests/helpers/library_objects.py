"""Objects of other libraries, made of recipes in plain values, and what programs do to read and to change them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from jcache.fingerprint import fingerprint

Recipe = tuple[Any, ...]
PENDULUM = (
    '<mujoco><option gravity="0 0 {0}"/><worldbody><body name="{1}"><joint type="hinge"/>'
    '<geom size="1" mass="{2}"/></body></worldbody></mujoco>'
)
MODULES = {"table": "pandas", "network": "networkx", "sparse": "scipy", "configuration": "omegaconf",
           "model": "pydantic", "physics": "mujoco", "yaml": "yaml"}  # fmt: skip


def kinds() -> list[str]:
    """Return the kinds of objects whose libraries are installed."""
    return [kind for kind, module in MODULES.items() if find_spec(module)]


def table(columns: list[tuple[str, str, list[Any]]], index: list[Any], attrs: dict[str, Any]) -> Any:
    """A DataFrame of columns by label, dtype and values."""
    pd = import_module("pandas")

    series = [pd.Series(values, dtype=dtype, index=index) for _, dtype, values in columns]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    frame.columns = pd.Index([label for label, _, _ in columns], dtype=object)
    frame.attrs = dict(attrs)
    return frame


def network(kind: str, nodes: list[tuple[Any, dict[str, Any]]], edges: list[tuple[Any, Any, dict[str, Any]]]) -> Any:
    """A graph of networkx, of a class by its name."""
    graph = getattr(import_module("networkx"), kind)(kind=kind)
    graph.add_nodes_from((name, dict(data)) for name, data in nodes)
    graph.add_edges_from((one, other, dict(data)) for one, other, data in edges)
    return graph


def sparse(form: str, suffix: str, entries: dict[tuple[int, int], float]) -> Any:
    """A sparse matrix or array of a format."""
    places = sorted(entries)
    content = [entries[place] for place in places], ([row for row, _ in places], [column for _, column in places])
    made = getattr(import_module("scipy.sparse"), f"coo_{suffix}")(content, shape=(4, 4), dtype=float)
    return made.asformat(form)


def configuration(content: dict[str, Any], readonly: bool | None) -> Any:
    """A configuration of OmegaConf."""
    made = import_module("omegaconf").OmegaConf.create(content)
    made._set_flag("readonly", readonly)
    return made


def model(content: dict[str, Any], private: int) -> Any:
    """A model of pydantic, with a field, what is not declared, and a private attribute."""
    made = _model()(**content)
    made._seed = private
    return made


def physics(gravity: float, name: str, mass: float) -> Any:
    """A model of MuJoCo."""
    return import_module("mujoco").MjModel.from_xml_string(PENDULUM.format(gravity, name, mass))


def yaml(text: str) -> Any:
    """What PyYAML loads."""
    return import_module("yaml").safe_load(text)


def build(recipe: Recipe) -> Any:
    """Make the object of a recipe: the name of one of the functions above and its arguments."""
    return globals()[recipe[0]](*recipe[1:])


def read(value: Any) -> None:
    """Read all that an object has, as its library notes some of it as soon as it is asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(value):
            with suppress(Exception):
                getattr(value, name)
        with suppress(Exception):
            assert value == value
        repr(value)
    if hasattr(value, "columns"):
        for name in value:
            assert value[name].array.dtype is not None and value.columns.get_loc(name) is not None


def argument(value: Any = None) -> Any:
    """A function that is given an object."""
    return value


def keys(value: Any) -> tuple[str, str]:
    """Return what stands for an object in the keys of graphs, and in those of traces that close over it."""

    def step() -> Any:
        return value

    return fingerprint(argument, (value,)).hash, fingerprint(step, for_trace=True).hash


class Change(NamedTuple):
    """A change of an object's content."""

    recipe: Recipe
    name: str
    make: Callable[[Any], object]


def _resolver(by: int) -> Callable[[Any], object]:
    def make(_: Any) -> None:
        config = import_module("omegaconf").OmegaConf
        register = getattr(config, "register_resolver", None) or config.register_new_resolver  # before 2.4
        register("scaled", lambda value: value * by, replace=True)

    return make


def _assigned(path: str, value: object) -> Callable[[Any], object]:
    *way, last = path.split(".")

    def make(changed: Any) -> None:
        for step in way:
            changed = getattr(changed, step)
        setattr(changed, last, value)

    return make


def _filled(path: str, at: Any, value: object) -> Callable[[Any], object]:
    def make(changed: Any) -> None:
        for step in filter(None, path.split(".")):
            changed = getattr(changed, step)
        changed[at] = value

    return make


TABLE: Recipe = ("table", [("a", "int64", [1, 2]), ("b", "string", ["x", None]), ("c", "category", ["u", "v"])],
                 [10, 20], {"unit": "m"})  # fmt: skip
NETWORK: Recipe = ("network", "DiGraph", [(1, {"c": [1]}), (2, {}), (3, {})], [(1, 2, {"w": 1}), (3, 2, {})])
CSR: Recipe = ("sparse", "csr", "array", {(0, 1): 1.0, (0, 2): 2.0, (3, 3): 3.0})
CONFIGURATION: Recipe = ("configuration", {"rate": 2, "twice": "${rate}", "sizes": [1, 2], "gone": "???"}, None)
MODEL: Recipe = ("model", {"rate": 2, "other": [1]}, 1)
PHYSICS: Recipe = ("physics", -9.81, "pole", 1.0)


def changes() -> Iterator[Change]:
    """Changes of each kind of object, none of which is the same as another."""
    for name, make in {
        "a value": _filled("loc", (10, "a"), 5), "a missing one": _filled("loc", (10, "b"), None),
        "a label": _assigned("columns", ["a", "b", "d"]), "an index": _assigned("index", [10, 30]),
        "the name of an index": _assigned("index.name", "i"), "an attribute": _filled("attrs", "unit", "km"),
        "a new column": lambda each: each.insert(3, "d", each["a"]),
        "an order of columns": lambda each: each.insert(0, "c", each.pop("c")),
        "a flag": _assigned("flags.allows_duplicate_labels", False),
        "a dtype": lambda each: each.isetitem(0, each["a"].astype("int32")),
        "categories": lambda each: each.isetitem(2, each["c"].cat.add_categories("w")),
        "an attribute of the object": lambda each: object.__setattr__(each, "note", 1),
    }.items():  # fmt: skip
        yield Change(TABLE, name, make)
    for name, make in {
        "a node": lambda each: each.add_node(4), "an edge": lambda each: each.add_edge(1, 3),
        "an attribute of an edge": lambda each: each.add_edge(1, 2, w=2),
        "an attribute of a node": lambda each: each.nodes[1]["c"].append(2),
        "an attribute of the graph": _filled("graph", "unit", "m"),
        "an order of nodes": lambda each: (each.remove_node(1), each.add_node(1, c=[1]), each.add_edge(1, 2, w=1)),
        "an order of predecessors": lambda each: (each.remove_edge(1, 2), each.add_edge(1, 2, w=1)),
        "an attribute of the object": _assigned("note", 1),
    }.items():  # fmt: skip
        yield Change(NETWORK, name, make)
    for name, make in {
        "a value": _filled("data", 0, 5.0), "a place": _filled("indices", 2, 1),
        "an order": lambda each: (_filled("indices", slice(0, 2), [2, 1])(each), _filled("data", 0, 2.0)(each)),
        "a row": _filled("indptr", 1, 1), "a flag": _assigned("has_canonical_format", False),
        "a dtype": lambda each: setattr(each, "data", each.data.astype("float32")),
        "a shape": lambda each: each.resize(5, 4), "an attribute of the object": _assigned("note", 1),
    }.items():  # fmt: skip
        yield Change(CSR, name, make)
    for name, make in {
        "a value": _assigned("rate", 3), "an interpolation": _assigned("twice", "${sizes[1]}"),
        "what it is now": _assigned("twice", 2), "an item": _filled("sizes", 0, 5),
        "a missing value": _assigned("gone", 1), "a new name": _assigned("new", None),
        "a flag": lambda each: each._set_flag("struct", True), "a resolver": _resolver(2),
        "a resolver's code": _resolver(3),
    }.items():  # fmt: skip
        yield Change(CONFIGURATION, name, make)
    for name, make in {
        "a field": _assigned("rate", 3), "an item": lambda each: each.other.append(2),
        "what is not declared": _assigned("more", 1), "a private attribute": _assigned("_seed", 2),
        "what was given": lambda each: each.__pydantic_fields_set__.clear(),
    }.items():  # fmt: skip
        yield Change(MODEL, name, make)
    for name, make in {
        "an option": _filled("opt.gravity", 2, 0.0), "an integrator": _assigned("opt.integrator", 1),
        "a mass": _filled("body_mass", 1, 2.0), "a size": _filled("geom_size", (0, 0), 2.0),
        "a statistic": _assigned("stat.extent", 9.0), "what is drawn": _assigned("vis.map.fogend", 9.0),
        "a range": _filled("jnt_range", (0, 1), np.pi),
    }.items():  # fmt: skip
        yield Change(PHYSICS, name, make)


def _model() -> Any:
    from pydantic import BaseModel, ConfigDict, PrivateAttr, field_validator

    class Model(BaseModel):
        model_config = ConfigDict(extra="allow")
        rate: int = 1
        _seed: int = PrivateAttr(default=0)

        @field_validator("rate")
        @classmethod
        def _checked(cls, value: int) -> int:
            return value

    return Model
