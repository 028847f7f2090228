"""Keys of objects of other libraries: all of their content counts, whoever makes them, and nothing else does."""

import dataclasses
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jcache
from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint import changed_meanwhile, fingerprint, type_keys
from tests.helpers.fingerprints import imported
from tests.helpers.jax_programs import run
from tests.helpers.library_objects import PHYSICS, Change, Recipe, argument, build, changes, keys, kinds, read

RUN = """
import ast, json, pathlib, sys, warnings
warnings.simplefilter("ignore")
from tests.helpers.library_objects import build, keys
print(json.dumps([keys(build(recipe)) for recipe in ast.literal_eval(pathlib.Path(sys.argv[1]).read_text())]))
"""
UNIMPORTED = """
import json, sys
import jcache
from jcache.fingerprint import fingerprint
class DataFrame: pass
class Graph(DataFrame): __module__ = "networkx"
class Node: pass
jcache.register_key(Node, None)
before = set(sys.modules)
fingerprint(lambda *_: None, (DataFrame(), Graph(), Node()))
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
PROGRAM = """
import jcache
{helper}
class Wheel:
    __slots__ = ("size",)
    def __init__(self, size):
        self.size = size
jcache.register_key(Wheel, {function})
wheel = Wheel([1])
def build():
    return wheel
"""


@dataclasses.dataclass
class Wheel:
    size: Any
    note: Any = None


class Big(Wheel):
    pass


def of(value: object) -> str:
    return fingerprint(argument, (value,)).hash


@pytest.fixture(autouse=True)
def own_registrations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers, here and in OmegaConf, is forgotten."""
    monkeypatch.setattr(type_keys, "_registered", {})
    yield
    if "omegaconf" in sys.modules:
        sys.modules["omegaconf"].OmegaConf.clear_resolvers()


# -- what a program registers


def test_what_a_function_returns_takes_the_objects_place() -> None:
    """What it returns counts, whichever object it was taken of, and the attributes that it leaves out do not."""
    jcache.register_key(Wheel, lambda wheel: wheel.size)
    assert of(Wheel([1], 1)) == of(Wheel([1], 2)) != of(Wheel([2], 1))
    assert of(Wheel(np.ones(2))) == of(Wheel(np.ones(2))) != of(Wheel(np.zeros(2)))
    assert of(Wheel(Wheel(1))) == of(Wheel(Wheel(1, 2))) != of(Wheel(Wheel(2)))
    assert of(Wheel([1])) != of([1])
    wheel = Wheel([1])
    assert of([wheel, wheel]) != of([Wheel([1]), Wheel([1])])  # a function may change the one that is both


def test_an_object_that_has_no_key_gets_one() -> None:
    """What a generator would give is unknown; a registered function may say what counts of it nevertheless."""
    generators = [(number for number in range(3)) for _ in range(2)]
    with pytest.raises(GraphKeyError):
        of(generators[0])
    jcache.register_key(type(generators[0]), lambda generator: generator.gi_running)
    assert of(generators[0]) == of(generators[1])


def test_a_subclass_adds_its_state() -> None:
    """Of an instance of a subclass all attributes count besides, unless the subclass is registered itself."""
    jcache.register_key(Wheel, lambda wheel: wheel.size)
    assert len({of(Wheel(1, 1)), of(Big(1, 1)), of(Big(1, 2)), of(Big(2, 1))}) == 4
    jcache.register_key(Big, lambda wheel: wheel.note)
    assert of(Big(1, 1)) == of(Big(2, 1)) != of(Big(1, 2))


def test_none_leaves_out_all_but_the_class() -> None:
    """Nothing of such an instance counts, nor is it looked at; subclasses do not inherit that."""
    jcache.register_key(Wheel, None)
    assert of(Wheel(1)) == of(Wheel(iter([1]))) != of(Big(1)) != of(Big(2))


def test_the_later_of_two_functions_holds() -> None:
    """Whoever registers a class again says anew what counts; a ready key gives way, too."""
    jcache.register_key(Wheel, lambda wheel: wheel.size)
    first = of(Wheel(1, 2))
    jcache.register_key(Wheel, lambda wheel: wheel.note)
    assert first != of(Wheel(1, 2)) == of(Wheel(2, 2))
    if "network" in kinds():
        networkx = pytest.importorskip("networkx")
        jcache.register_key(networkx.Graph, len)
        assert of(networkx.path_graph(3)) == of(networkx.empty_graph(3)) != of(networkx.empty_graph(4))


def test_a_class_that_says_it_itself_comes_before_its_bases() -> None:
    """The nearest class decides; of one that does both, the registered function."""

    class Keyed(Wheel):
        def __cache_key__(self) -> object:
            return self.note

    jcache.register_key(Wheel, lambda wheel: wheel.size)
    assert of(Keyed(1, 2)) == of(Keyed(2, 2)) != of(Keyed(1, 3))
    jcache.register_key(Keyed, lambda keyed: keyed.size)
    assert of(Keyed(1, 2)) == of(Keyed(1, 3)) != of(Keyed(2, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("", "lambda wheel: wheel.size"), ("", "lambda wheel: list(wheel.size)")),
        (("def key(wheel): return wheel.size", "key"), ("def key(wheel): return [wheel.size]", "key")),
        (("RATE = 1", "lambda wheel: (wheel.size, RATE)"), ("RATE = 2", "lambda wheel: (wheel.size, RATE)")),
        (("", "None"), ("", "lambda wheel: None")),
    ],
)
def test_the_functions_code_counts(tmp_path: Path, one: tuple[str, str], other: tuple[str, str]) -> None:
    """Another function, and another value that it uses, makes another key, though it returns the same."""
    made: list[str] = []
    for helper, function in (one, one, other):
        with imported(tmp_path / str(len(made)), PROGRAM.format(helper=helper, function=function)) as model:
            made.append(fingerprint(model.build).hash)
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("cls", "function", "why"),
    [
        (1, len, "is not a class"), (dict, len, "has one for it"), (object, len, "has one for it"),
        (int, None, "has one for it"), (type(len), len, "has one for it"), (Wheel, 1, "give a function, or None"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(cls: Any, function: Any, why: str) -> None:
    """Only classes that are not Python's own, with functions or None."""
    with pytest.raises(InvalidValue, match=why):
        jcache.register_key(cls, function)


def test_a_function_that_fails_is_a_refusal() -> None:
    """One that raises, and one that returns the object itself, leave the object without a key."""
    jcache.register_key(Wheel, lambda wheel: wheel.weight)
    with pytest.raises(GraphKeyError, match="AttributeError"):
        of(Wheel(1))
    jcache.register_key(Wheel, lambda wheel: wheel)
    with pytest.raises(GraphKeyError, match="the object itself"):
        of([Wheel(1)])
    jcache.register_key(Wheel, lambda wheel: Wheel(wheel.size))
    with pytest.raises(GraphKeyError, match="nested too deeply"):
        of(Wheel(1))


def test_a_change_meanwhile_is_seen() -> None:
    """What a call does to such an object is compared with what it was before."""
    jcache.register_key(Wheel, lambda wheel: [*wheel.size])
    wheel = Wheel([1])
    before = fingerprint(argument, (wheel,))
    wheel.size.append(2)
    assert changed_meanwhile(before, argument, (wheel,), {})
    before = fingerprint(argument, (wheel,))
    wheel.note = 1
    assert not changed_meanwhile(before, argument, (wheel,), {})


# -- ready ones


@pytest.mark.parametrize("change", [*changes()], ids=lambda change: f"{change.recipe[0]}: {change.name}")
def test_all_of_the_content_counts(change: Change) -> None:
    """Equal objects have one key, which reading does not change, and any change of the content does."""
    if change.recipe[0] not in kinds():
        pytest.skip(f"the library of a {change.recipe[0]} is not installed")
    value, same = build(change.recipe), build(change.recipe)
    before = keys(value)
    assert keys(same) == before
    read(value)
    assert keys(value) == before
    change.make(same)
    assert not {*keys(same)} & {*before}


def test_no_two_changes_share_a_key() -> None:
    """Each of the changes makes a key of its own."""
    found: list[str] = []
    for change in changes():
        if change.recipe[0] in kinds():
            value = build(change.recipe)
            change.make(value)
            found += keys(value)
    assert len({*found}) == len(found)


TEXT = st.text("ab", max_size=2)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.just(0.5), TEXT)
DATA = st.dictionaries(TEXT, st.one_of(PLAIN, st.lists(PLAIN, max_size=2)), max_size=2)
OF_DTYPE: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-2, 2), "float32": st.sampled_from([0.5, -0.0, 0.0]), "bool": st.booleans(),
    "object": PLAIN, "Int64": st.one_of(st.none(), st.integers(-2, 2)), "string": st.one_of(st.none(), TEXT),
    "category": TEXT, "datetime64[ns, Europe/Berlin]": st.sampled_from(["2020-01-01", "2021-01-01"]),
}  # fmt: skip
NODES = st.lists(st.tuples(st.integers(0, 4), DATA), max_size=4, unique_by=lambda node: node[0])


@st.composite
def tables(draw: st.DrawFn) -> Recipe:
    """Recipes of DataFrames."""
    index = draw(st.lists(st.integers(0, 9), max_size=3))
    dtypes = draw(st.lists(st.sampled_from(sorted(OF_DTYPE)), max_size=3))
    columns = [(draw(TEXT), each, [draw(OF_DTYPE[each]) for _ in index]) for each in dtypes]
    return "table", columns, index, draw(DATA)


@st.composite
def networks(draw: st.DrawFn) -> Recipe:
    """Recipes of graphs of networkx; with edges of no parallel ones, since adding one twice changes the first."""
    nodes = draw(NODES)
    names = st.sampled_from([name for name, _ in nodes]) if nodes else st.nothing()
    pairs = draw(st.lists(st.tuples(names, names), max_size=4, unique_by=frozenset)) if nodes else []
    edges = [(*pair, draw(DATA)) for pair in pairs]
    return "network", draw(st.sampled_from(["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])), nodes, edges


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 3))
FORMS = st.sampled_from(["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
RECIPES: dict[str, st.SearchStrategy[Recipe]] = {
    "table": tables(),
    "network": networks(),
    "sparse": st.tuples(
        st.just("sparse"), FORMS, st.sampled_from(["array", "matrix"]),
        st.dictionaries(PLACES, st.sampled_from([0.5, 1.0, -2.0]), max_size=4),
    ),
    "configuration": st.tuples(
        st.just("configuration"), st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(PLAIN, DATA, st.just("${a}"))),
        st.sampled_from([None, True, False]),
    ),
    "model": st.tuples(st.just("model"), st.fixed_dictionaries({"rate": st.integers(), "x": PLAIN}), st.integers(0, 3)),
    "physics": st.tuples(st.just("physics"), st.integers(1, 9), TEXT, st.integers(1, 9)),
    "yaml": st.tuples(st.just("yaml"), st.sampled_from(["a: 2020-01-01", "!!set {a, b, c}", "[1, .inf]", "a: &x [1]"])),
}  # fmt: skip


def typed(value: Any) -> object:
    """A recipe with what equality does not tell apart, such as 1 and True; the order of a dict is none of it."""
    if isinstance(value, Mapping):
        return "dict", frozenset((name, typed(each)) for name, each in value.items())
    return (type(value).__name__, *map(typed, value)) if isinstance(value, list | tuple) else (type(value), repr(value))


def content_of(recipe: Recipe, value: Any) -> object:
    """What tells an object's content: its recipe, but of a network what is found in it, node by node."""
    if recipe[0] != "network":
        return typed(recipe)
    near = [value.adj, *([value.pred] if value.is_directed() else [])]
    found = [(node, [*each[node].items()]) for each in near for node in value]
    return typed(
        [recipe[1], [*value.nodes.items()], [(node, [[name, data] for name, data in it]) for node, it in found]]
    )


@pytest.mark.parametrize("kind", kinds())
def test_different_objects_never_share_a_key(kind: str) -> None:
    """Of all pairs of generated objects those of equal content share a key, and no others."""
    by_key: dict[str, object] = {}
    by_content: dict[object, str] = {}

    @given(RECIPES[kind])
    @settings(max_examples=60)
    def check(recipe: Recipe) -> None:
        value = build(recipe)
        content, key = content_of(recipe, value), of(value)
        assert by_key.setdefault(key, content) == content
        assert by_content.setdefault(content, key) == key

    check()


@pytest.mark.full
def test_another_process_makes_the_same_keys(tmp_path: Path) -> None:
    """Generated objects have the same keys in two processes with other hash seeds and addresses."""
    recipes: list[Recipe] = []

    @given(st.one_of([RECIPES[kind] for kind in kinds()]))
    @settings(max_examples=300)
    def collect(recipe: Recipe) -> None:
        recipes.append(recipe)

    collect()
    path = tmp_path / "recipes"
    path.write_text(repr(recipes))
    made = []
    for seed in (1, 2):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": Path(__file__).parents[2]}
        made.append(run(RUN, path, env=env, new_interpreter=True).value)
    assert [recipe for recipe, one, other in zip(recipes, *made, strict=True) if one != other] == []


PANDAS: dict[str, Callable[[Any], Any]] = {
    "an index": lambda pd: pd.Index([1, 2], name="i"),
    "a range": lambda pd: pd.RangeIndex(3),
    "a multi-index": lambda pd: pd.MultiIndex.from_product([[1, 2], ["a", "b"]]),
    "dates": lambda pd: pd.date_range("2020", periods=3, tz="Europe/Berlin"),
    "dates elsewhere": lambda pd: pd.date_range("2020", periods=3, tz="Europe/Paris"),
    "days": lambda pd: pd.date_range("2020", periods=3, freq="2D"),
    "periods": lambda pd: pd.period_range("2020", periods=2, freq="M"),
    "intervals": lambda pd: pd.interval_range(0, 3),
    "durations": lambda pd: pd.timedelta_range(0, periods=2),
    "categories": lambda pd: pd.Categorical(["a", "b"]),
    "ordered categories": lambda pd: pd.Categorical(["a", "b"], ordered=True),
    "masked": lambda pd: pd.array([1, None], dtype="Int64"),
    "texts": lambda pd: pd.array(["a", None], dtype="string"),
    "sparse": lambda pd: pd.arrays.SparseArray([0, 1, 0]),
    "other sparse": lambda pd: pd.arrays.SparseArray([0, 0, 1]),
    "a series": lambda pd: pd.Series([1.0, 2.0], name="s"),
    "a series without a name": lambda pd: pd.Series([1.0, 2.0]),
    "objects": lambda pd: pd.Series([pd.Timestamp(0), pd.NA, pd.NaT, "a"], dtype=object),
    "a time": lambda pd: pd.Timestamp("2020", tz="UTC"),
    "a time elsewhere": lambda pd: pd.Timestamp("2020", tz="Europe/Paris"),
    "a duration": lambda pd: pd.Timedelta(1, "s"),
    "a period": lambda pd: pd.Period("2020-01"),
    "an interval": lambda pd: pd.Interval(0, 1),
    "no time": lambda pd: pd.NaT,
    "nothing": lambda pd: pd.NA,
    "an offset": lambda pd: pd.offsets.MonthEnd(2),
    "another offset": lambda pd: pd.DateOffset(months=2),
    "a dtype": lambda pd: pd.CategoricalDtype(["a"], ordered=True),
    "a dtype of times": lambda pd: pd.DatetimeTZDtype("ns", "UTC"),
}


def test_everything_of_pandas_is_told_apart() -> None:
    """Indexes, arrays, scalars, offsets and dtypes have keys of their own, equal ones the same, read or not."""
    pd = pytest.importorskip("pandas")
    found: dict[str, str] = {}
    for name, make in PANDAS.items():
        value = make(pd)
        key = of(value)
        assert of(make(pd)) == key and not fingerprint(argument, (value,)).loose, name
        read(value)
        assert of(value) == key, name
        assert found.setdefault(key, name) == name


def test_an_index_has_attributes_of_the_programs_own() -> None:
    """What a program has set on an index or a scalar counts."""
    pd = pytest.importorskip("pandas")
    for name in ("an index", "a multi-index", "dates", "a time"):
        plain, one, other = (PANDAS[name](pd) for _ in range(3))
        one.note, other.note = 1, 2
        assert len({of(plain), of(one), of(other)}) == 3


def test_how_a_table_lies_in_memory_does_not_count() -> None:
    """A table that was put together column by column has the key of one that was made at once."""
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    parts = pd.DataFrame({"a": [1, 2]})
    parts["b"] = [3, 4]
    assert of(parts) == of(whole) == of(whole.copy())


def test_a_part_of_a_configuration_has_its_parent() -> None:
    """What an interpolation refers to counts, though it lies outside of the part."""
    omegaconf = pytest.importorskip("omegaconf")
    one, same, other = (omegaconf.OmegaConf.create({"a": a, "b": {"c": "${a}"}}) for a in (1, 1, 2))
    assert of(one.b) == of(same.b) != of(other.b)


@pytest.mark.parametrize(
    ("module", "name"), [("pandas", "DataFrame"), ("pandas", "Series"), ("networkx", "Graph"), ("mujoco", "MjModel")]
)
def test_attributes_of_the_programs_own_count(module: str, name: str) -> None:
    """What a program has set on such an object, or on one of a subclass of its own, counts as well."""
    base = getattr(pytest.importorskip(module), name)
    own = type("Own", (base,), {"__module__": __name__})
    cls: Any
    for cls in (base, own) if name != "MjModel" else (own,):  # which has no attributes of a program's
        made = [cls.__new__(cls) if name == "MjModel" else cls() for _ in range(4)]
        for each in made if name == "MjModel" else ():
            each.__setstate__(build(PHYSICS).__getstate__())
        for number, each in enumerate(made[1:]):
            object.__setattr__(each, "note", max(number, 1))
        keys = [of(each) for each in made]
        assert keys[1] == keys[2] and len({*keys}) == 3


def test_managers_of_checkpoints_have_no_content(tmp_path: Path) -> None:
    """Wherever they write and whatever they wait for, no key changes, and none is refused."""
    orbax = pytest.importorskip("orbax.checkpoint")
    managers = [
        orbax.CheckpointManager(tmp_path / str(keep), options=orbax.CheckpointManagerOptions(max_to_keep=keep))
        for keep in (1, 2)
    ]
    writers = [orbax.StandardCheckpointer() for _ in range(2)]
    assert of(managers[0]) == of(managers[1]) != of(writers[0]) == of(writers[1])
    assert of([managers[0]] * 2) == of(managers)
    assert of(orbax.CheckpointManagerOptions(max_to_keep=1)) != of(orbax.CheckpointManagerOptions(max_to_keep=2))
    for each in (*managers, *writers):
        each.close()


FLAGS = """
from absl import flags
FLAGS = flags.FLAGS
flags.DEFINE_float("rate", 1.0, "")
flags.DEFINE_string("workdir", "", "")
HELD = flags.DEFINE_integer("size", 1, "")
def rated(): return FLAGS.rate
def sized(): return HELD.value
def rated_by_the_module(): return flags.FLAGS.rate
def rated_by_an_import():
    from absl.flags import FLAGS as given
    return given.rate
def rated_by_an_item(): return flags.FLAGS["rate"].value
FLAGS(["program", *ARGUMENTS])
"""


def test_of_the_flags_of_absl_those_count_that_code_names(tmp_path: Path) -> None:
    """By their values; all others are told beside the key, and none by the address of the module that defines it."""
    pytest.importorskip("absl")

    def made(*arguments: str, name: str = "rated") -> Any:
        program = f"ARGUMENTS = {arguments}\n{FLAGS}"
        code = (
            f"import json, model\nfrom jcache.fingerprint import fingerprint\nfound = fingerprint(model.{name})\n"
            "print(json.dumps([found.hash, dict(found.parts), sorted(dict(found.loose))]))"
        )
        (tmp_path / "model.py").write_text(program)
        return run(code, env={"PYTHONPATH": tmp_path}).value

    rated, parts, beside = made()
    assert made() == [rated, parts, beside] and made("--workdir=/a", "--size=2")[0] == rated
    assert parts["global FLAGS"].startswith("{'rate': 1.0}") and any("workdir" in label for label in beside)
    for name in ("rated", "rated_by_the_module", "rated_by_an_import", "rated_by_an_item"):
        assert made("--rate=2", name=name)[0] != made(name=name)[0] == made("--size=2", name=name)[0], name
    sized = made(name="sized")[0]
    assert made("--size=2", name="sized")[0] != sized == made("--rate=2", name="sized")[0]


def test_a_registry_of_units_counts_by_its_definitions() -> None:
    """Not by what it has computed; a quantity counts by its registry, too."""
    pint = pytest.importorskip("pint")
    registries = [pint.UnitRegistry() for _ in range(3)]
    registries[2].define("furlong_of_mine = 3 m")
    keys = [of(each) for each in registries]
    assert keys[0] == keys[1] != keys[2]
    length = registries[0]("3 mile")
    assert length.to("km").magnitude and of(registries[0]) == keys[0]
    assert of(length) == of(registries[1]("3 mile")) != of(registries[1]("3 km")) != of(registries[2]("3 km"))
    with registries[1].context("spectroscopy"):
        assert of(registries[1]) != keys[1]
    assert of(registries[1]) == keys[1]


def test_an_expression_counts_by_what_it_is_made_of() -> None:
    """Not by what sympy remembers of it: hashes, and what follows from assumptions, in an order of sets."""
    sympy = pytest.importorskip("sympy")
    x, positive = sympy.Symbol("x"), sympy.Symbol("x", positive=True)
    made = [sympy.sin(x) * x, sympy.sin(positive) * positive, sympy.cos(x) * x, sympy.Integer(1)]
    keys = [of(each) for each in made]
    assert len({*keys}) == len(made)
    assert hash(made[0]) and made[0].is_positive is None
    assert of(made[0]) == of(sympy.sin(sympy.Symbol("x")) * x) == keys[0]


def test_nothing_is_imported_to_find_out() -> None:
    """Classes of the names that ready keys have load no library, whatever they say of their module."""
    assert run(UNIMPORTED, new_interpreter=True).value == []


def test_fractions_are_still_told_apart() -> None:
    """The example of the reference registers what had a key before."""
    jcache.register_key(Fraction, lambda fraction: (fraction.numerator, fraction.denominator))
    assert of(Fraction(1, 2)) == of(Fraction(2, 4)) != of(Fraction(1, 3))


def test_a_mapping_of_a_library_counts_with_all_that_it_has() -> None:
    """What a dataset of xarray has beside its variables counts, and a hash that a mapping has noted does not."""
    xr, frozen = pytest.importorskip("xarray"), pytest.importorskip("immutabledict").immutabledict
    datasets = [
        xr.Dataset({"a": ("x", np.ones(2))}, coords={"z": ("y", [last])}, attrs={"unit": unit})
        for last, unit in [(1, "m"), (1, "m"), (2, "m"), (1, "s")]
    ]
    found = [of(each) for each in datasets]
    assert found[0] == found[1] and len({*found}) == 3
    one, other = frozen(a=1), frozen(a=1)
    assert hash(other) and of(one) == of(other) != of(frozen(a=2))


def test_what_was_opened_before_has_no_key(tmp_path: Path) -> None:
    """What a function reads through it may be another thing in another process."""
    h5py = pytest.importorskip("h5py")
    with sqlite3.connect(":memory:") as base, h5py.File(tmp_path / "a.h5", "w") as file, os.scandir(tmp_path) as found:
        group = file.create_group("g")
        for value in (base, base.cursor(), file, group, group.attrs, next(found)):
            with pytest.raises(GraphKeyError, match="open it in the function, or pass in what it reads"):
                of(value)
    base.close()
