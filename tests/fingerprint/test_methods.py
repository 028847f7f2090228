"""Which members of a class count: those that code may reach."""

from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint import Fingerprint, fingerprint
from jcache.fingerprint.methods import ANY_CLASS, add_names, constructor_of, is_reached, names_reaching
from tests.helpers.fingerprints import executed, imported

SOURCE = """
import copy
class Base:
    def __init__(self): self.lr = {made}
    def shown(self): return {shown}
class Trainer(Base):
    def __init__(self):
        super().__init__()
        self.own = {own}
    def loss(self, x): return x * self.lr * {loss}
    def step(self, x): return self.loss(x)
    def fit(self): return STAMP, self.step(1), {fit}
    @staticmethod
    def told(): return {told}
    @classmethod
    def again(cls): return cls()
    def __neg__(self): return {neg}
    @property
    def size(self): return {size}
    @property
    def held(self): return 1
    @held.setter
    def held(self, value): self.kept = {set}
    def __init_subclass__(cls): cls.made = {subclass}
    def __getstate__(self): return {state}
STAMP = {stamp}
trainer = Trainer()
trainer.lr = 1.0
trainer.own = 1.0
NAME = "fit"
def use(x): {use}
"""
PLACES = ("made", "own", "shown", "loss", "fit", "told", "neg", "size", "set", "stamp", "subclass", "state")
CALLED = {"loss", "neg", "set"}  # by the step and by operators; an assignment may call a property that has a setter
USES: dict[str, tuple[str, set[str]]] = {
    "a method": ("return trainer.step(x)", CALLED),
    "a method that calls all others": ("return trainer.fit()", CALLED | {"fit", "stamp"}),
    "a method by a computed name": ("return getattr(trainer, NAME)()", set(PLACES)),
    "a static method": ("return trainer.told()", (CALLED | {"told"}) - {"loss"}),
    "a property": ("return trainer.size * x", (CALLED | {"size"}) - {"loss"}),
    "a method of the base": ("return trainer.shown()", (CALLED | {"shown"}) - {"loss"}),
    "the class": ("return Trainer().step(x)", CALLED | {"made", "own"}),
    "the class of the object": ("return type(trainer)().step(x)", CALLED | {"made", "own"}),
    "the class of the object by its attribute": ("return trainer.__class__().step(x)", CALLED | {"made", "own"}),
    "a class method": ("return trainer.again().step(x)", CALLED | {"made", "own"}),
    "a class in a table": ("return [Trainer][0]().step(x)", CALLED | {"made", "own"}),
    "a copy": ("return copy.copy(trainer).step(x)", set(PLACES)),
}


def found(directory: Path, use: str, changed: str = "") -> Fingerprint:
    numbers: dict[str, Any] = {place: 2.0 if place == changed else 1.0 for place in PLACES}
    place = directory / f"{changed or 'as it was'} {len([*directory.iterdir()])}"  # no two have bytecode of one name
    with imported(place, SOURCE.format(use=use, **numbers)) as module:
        return fingerprint(module.use, (1.0,))


@pytest.mark.parametrize("case", USES)
def test_what_code_may_call_counts(case: str, tmp_path: Path) -> None:
    """What it may not call is told beside the key, with the globals that it names."""
    use, counted = USES[case]
    before = found(tmp_path, use)
    assert found(tmp_path, use) == before and found(tmp_path, use).loose == before.loose
    for place in PLACES:
        after = found(tmp_path, use, place)
        assert (after.hash != before.hash) is (place in counted), place
        assert place in counted or after.loose != before.loose, place


def test_the_method_at_which_the_walk_begins_counts_by_itself_alone(tmp_path: Path) -> None:
    """No code names it, and it is not told beside the key as well."""
    numbers: dict[str, Any] = dict.fromkeys(PLACES, 1.0)
    with imported(tmp_path, SOURCE.format(use="pass", **numbers)) as module:
        beside = fingerprint(module.trainer.step, (1.0,)).loose
        assert "method step of Trainer" not in beside and "method fit of Trainer" in beside


DATA = """
import dataclasses
@dataclasses.dataclass(order=True, unsafe_hash=True)
class Settings:
    rate: float
    run: str
settings = Settings({rate}, {run!r})
def use(x): return x * settings.rate
"""


def test_the_methods_that_dataclasses_makes_name_no_field(tmp_path: Path) -> None:
    """A field that no code names, such as the name of a run, is told beside the key."""
    settings: list[tuple[float, str]] = [(1.0, "a"), (1.0, "b"), (2.0, "a")]
    taken = []
    for number, (rate, run) in enumerate(settings):
        with imported(tmp_path / str(number), DATA.format(rate=rate, run=run)) as module:
            taken.append(fingerprint(module.use, (1.0,)))
    one, other, faster = taken
    assert one.hash == other.hash != faster.hash and one.loose != other.loose


def test_the_methods_of_named_tuples_and_signatures_make_no_instance(tmp_path: Path) -> None:
    """A signature that a library keeps, such as flax's of a module, names classes of which no code makes one."""
    source = """
import collections, functools, inspect, time
class Trainer:
    def __init__(self): self.started = time.time()
    def step(self, x): return x
Batch = collections.namedtuple("Batch", "x y")
def plain(trainer: Trainer) -> Trainer: return trainer
kept = functools.partial(plain)
kept.__signature__ = inspect.signature(plain)
trainer, batch = Trainer(), Batch(1, 2)
def use(x): return trainer.step(x) + batch.x, kept
"""
    with imported(tmp_path, source) as module:
        assert not fingerprint(module.use, (1.0,)).chance


def test_the_functions_that_equinox_makes_name_no_attribute(tmp_path: Path) -> None:
    """They read all fields of a module, and nothing of other objects."""
    source = """
import equinox, types
class Scale(equinox.Module):
    by: float
    def __call__(self, x): return x * self.by
scale, space = Scale({by}), types.SimpleNamespace(by=1.0, run={run!r})
def use(x): return scale(x) * space.by
"""
    taken = []
    for number, (by, run) in enumerate([(1.0, "a"), (1.0, "b"), (2.0, "a")]):
        with imported(tmp_path / str(number), source.format(by=by, run=run)) as module:
            taken.append(fingerprint(module.use, (1.0,)).hash)
    assert taken[0] == taken[1] != taken[2]


def test_operators_that_a_program_writes_count_wherever_it_is_from() -> None:
    """Also those of a class that was executed from a text; what `dataclasses` makes beside them does not."""
    fields = "    run: str\n    def __neg__(self): return self.run\n"
    made = executed(f"import dataclasses\n@dataclasses.dataclass\nclass Rate:\n{fields}", "<string>")["Rate"]
    assert is_reached(made, "__neg__", made.__neg__, set()) and not is_reached(made, "__eq__", made.__eq__, set())


MEMBERS = """
import functools, types
class Field:
    def __get__(self, instance, owner=None): return {field}
class Counted: pass
class Base:
    base = {base}
class Trainer(Base):
    rate = {rate}
    run = {run}
    table = [{table}]
    part = functools.partial(pow, {part})
    counted = types.SimpleNamespace(n={counted})
    field = Field()
    __array_priority__ = {special}
    class Config:
        depth = {depth}
    def step(self, x): return x * self.rate
NAME = "run"
def use(x): {use}
"""
_ALWAYS = {"rate", "special", "field"}
OF_CLASSES: dict[str, tuple[str, set[str]]] = {
    "one by its name": ("return Trainer().step(x)", _ALWAYS),
    "one of the base": ("return Trainer().step(x) * Trainer.base", _ALWAYS | {"base"}),
    "a list": ("return Trainer().step(x) * Trainer.table[0]", _ALWAYS | {"table"}),
    "a partial": ("return Trainer().step(x) * Trainer.part(2)", _ALWAYS | {"part"}),
    "a namespace": ("return Trainer().step(x) * Trainer.counted.n", _ALWAYS | {"counted"}),
    "a class in it": ("return Trainer().step(x) * Trainer.Config.depth", _ALWAYS | {"depth"}),
    "a computed name": ("return Trainer().step(x) * getattr(Trainer, NAME)", {
        "rate", "special", "field", "base", "run", "table", "part", "counted", "depth"}),
    "all": ("return Trainer().step(x) * vars(Trainer)['run']", {
        "rate", "special", "field", "base", "run", "table", "part", "counted", "depth"}),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_CLASSES)
def test_what_code_may_read_of_a_class_counts(case: str, tmp_path: Path) -> None:
    """Another value that the class has, such as the name of a run, is told beside the key."""
    use, counted = OF_CLASSES[case]
    places = ("field", "base", "rate", "run", "table", "part", "counted", "special", "depth")

    def taken(changed: str, number: int) -> Fingerprint:
        numbers: dict[str, Any] = {place: 2.0 if place == changed else 1.0 for place in places}
        with imported(tmp_path / str(number), MEMBERS.format(use=use, **numbers)) as module:
            return fingerprint(module.use, (1.0,))

    before = taken("", 0)
    for number, place in enumerate(places, 1):
        after = taken(place, number)
        assert (after.hash != before.hash) is (place in counted), place
        assert place in counted or after.loose != before.loose, place


@pytest.mark.parametrize("given", ["module.Given()", "[module.Given()]", "module.Given", "{'a': module.Derived}"])
@pytest.mark.parametrize("body", ["return x", "return x, Given, Derived"])
def test_all_that_the_class_of_an_argument_has_counts(given: str, body: str, tmp_path: Path) -> None:
    """A caller gives it for what it is; the code of its methods counts where they are called."""
    source = f"class Given:\n    run = 1\nclass Derived(Given): pass\ndef use(x): {body}\n"
    with imported(tmp_path, source) as module:
        before = fingerprint(module.use, (eval(given),)).hash
        module.Given.run = 2
        assert fingerprint(module.use, (eval(given),)).hash != before


MADE = """
import dataclasses, time
def made(): return {made}
@dataclasses.dataclass({options})
class Run:
    rate: float = 1.0
    began: float = dataclasses.field(default_factory=time.time)
    table: list = dataclasses.field(default_factory=made)
run = Run(began=1.0, table=[])
def use(x): {use}
"""


@pytest.mark.parametrize(
    ("use", "is_made"), [("return x * run.rate", False), ("return Run().rate * x", True), ("return type(run)()", True)]
)
@pytest.mark.parametrize("options", ["", "frozen=True"])
def test_what_makes_a_field_counts_where_an_instance_is_made(
    use: str, is_made: bool, options: str, tmp_path: Path
) -> None:
    """Else a time that each instance has would make a function that may be another in each process."""
    found = []
    for number, made in enumerate(["[1]", "[2]"]):
        with imported(tmp_path / str(number), MADE.format(made=made, use=use, options=options)) as module:
            found.append(fingerprint(module.use, (1.0,)))
    assert bool(found[0].chance) is (found[0].hash != found[1].hash) is is_made
    assert is_made or found[0].loose != found[1].loose


class Model:
    def __init__(self) -> None:
        self.of_init: Any = 1

    def step(self) -> Any:
        return self.helper, self.of_step

    def helper(self) -> Any:
        return [lambda: self.of_lambda]

    def other(self) -> Any:
        return self.of_other

    def __neg__(self) -> Any:
        return self.of_operator

    def __getattr__(self, name: str) -> Any: ...


def test_names_are_added_until_no_further_method_is_reached() -> None:
    """A method that another one calls has names, too, and so have functions within it."""
    names = {"step"}
    add_names([Model], names)
    assert names == {"step", "helper", "of_step", "of_lambda", "of_operator"}
    names |= {ANY_CLASS}
    assert is_reached(Model, "__init__", Model.__init__, names) and not is_reached(Model, "other", Model.other, names)
    assert not is_reached(Model, "rate", 1.0, names) and is_reached(Model, "rate", 1.0, {"rate"})
    assert names_reaching(Model, "other", Model.other) == {"other"}
    assert constructor_of(Model) in names_reaching(Model, "__init__", Model.__init__)
