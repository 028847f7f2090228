"""Attributes that no code names, and readings of clocks: they are no part of a key, and their digests are told."""

import datetime
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from jcache.fingerprint import Fingerprint, fingerprint
from jcache.fingerprint.loose import LooseDigests
from tests.helpers.fingerprints import executed, imported

CLASS = """
import copy, operator
class Base:
    def scaled(self): return self.rate * 2
class Trainer(Base):
    {slots}
    def __init__(self):
        self.rate, self.run_id, self.depth = 1.0, 'a', 3
    def step(self, x): return self.scaled() * x
trainer = Trainer()
NAME, n = 'run_id', ''
def helper(model): return model.depth
def build(x=1):
    {body}
"""
STEP = "return trainer.step(x)"


def model_of(directory: Path, body: str = STEP, slots: str = "pass") -> Any:
    source = CLASS.format(body=body, slots=slots)
    with imported(directory, source) as model:
        return model


def of(model: Any) -> Fingerprint:
    return fingerprint(model.build, (1,))


@pytest.mark.parametrize("slots", ["pass", "__slots__ = ('rate', 'run_id', 'depth')"])
def test_an_attribute_that_no_code_names_is_no_part_of_the_key(slots: str, tmp_path: Path) -> None:
    """Its digest is told, which another value changes."""
    model = model_of(tmp_path, slots=slots)
    before = of(model)
    beside = {"attribute run_id of Trainer", "attribute depth of Trainer", "method __init__ of Trainer"}
    assert set(before.loose) == beside
    model.trainer.run_id = "b"
    after = of(model)
    assert after.hash == before.hash
    assert {label for label in before.loose if before.loose[label] != after.loose[label]} == {
        "attribute run_id of Trainer"
    }


@pytest.mark.parametrize(
    "body",
    [
        "return trainer.run_id",
        "return getattr(trainer, 'run_id')",
        "return getattr(trainer, 'run_id', None)",
        "return operator.attrgetter('run_id')(trainer)",
        "return getattr(trainer, NAME)",
        "return getattr(trainer, f'run{n}_id')",
        "return getattr(trainer, 'run' + '_' * len(n) + '_id')",
        "return getattr(*(trainer, NAME))",
        "return eval('trainer.run_id')",
        "exec('global n; n = trainer.run_id')",
        "return vars(trainer)",
        "return trainer.__dict__",
        "return copy.copy(trainer)",
        "return [x for x in (lambda t: t.run_id)(trainer)]",
        "match trainer:\n        case Trainer(run_id=r): return r",
    ],
)
def test_an_attribute_that_code_names_or_may_name_counts(body: str, tmp_path: Path) -> None:
    """As a name, as a text, or where any attribute can be reached."""
    model = model_of(tmp_path, body)
    before = of(model).hash
    model.trainer.run_id = "b"
    assert of(model).hash != before


@pytest.mark.parametrize("name", ["TABLE", "zoo"])
def test_an_attribute_that_code_names_which_only_a_value_leads_to_counts(name: str, tmp_path: Path) -> None:
    """The names are collected from all code that is reached, whatever leads to it, and before or after the object."""
    model = model_of(tmp_path, f"return [each.get(trainer) for each in {name}]")
    with imported(
        tmp_path / "more", "def get(t): return t.run_id\nclass Getter:\n  def get(self, t): return get(t)"
    ) as m:
        setattr(model, name, [m.Getter()])
        before = of(model)
        assert "attribute run_id of Trainer" not in before.loose
        model.trainer.run_id = "b"
        assert of(model).hash != before.hash


@pytest.mark.parametrize(
    "source",
    [
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n  n: int = 1",
        "class C:\n  n = 1\n  def __getattr__(self, name): return 1",
        "import string\nclass C(string.Formatter): pass",
    ],
)
def test_all_attributes_of_some_classes_count(source: str, tmp_path: Path) -> None:
    """Frozen dataclasses, classes that give any attribute, and those that a library's class may read."""
    with imported(tmp_path, f"{source}\nc = C()\ndef build(x=1): return c") as model:
        before = of(model).hash
        vars(model.c)["n"] = 2
        assert of(model).hash != before


def test_all_attributes_of_an_argument_count() -> None:
    """A caller gives it for what it is; of a method's own object those count that code names."""

    class Settings:
        rate, name = 1.0, "a"

        def step(self, x: float) -> float:
            return x * self.rate

    def build(settings: Settings) -> None: ...

    keys, methods = set(), set()
    for name in ("a", "b"):
        settings = Settings()
        settings.name = name
        keys.add(fingerprint(build, (settings,)).hash)
        methods.add(fingerprint(settings.step, (1.0,)).hash)
    assert len(keys) == 2 and len(methods) == 1


def test_what_an_attribute_that_does_not_count_holds_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Be it an iterator, a lock or anything that raises when it is looked at."""

    class Broken:
        def __reduce_ex__(self, version: object) -> str:
            raise ZeroDivisionError

    model = model_of(tmp_path)
    before = of(model).hash
    for value in (iter([1]), threading.Lock(), Broken(), lambda: 1, [1] * 20_000, Path("a")):
        model.trainer.run_id = value
        made = of(model)
        assert made.hash == before and made.loose["attribute run_id of Trainer"]


READINGS: list[Callable[[], object]] = [
    time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic, lambda: int(time.time()),
    datetime.datetime.now, lambda: datetime.datetime.now(datetime.UTC), uuid.uuid4, uuid.uuid1,
]  # fmt: skip


@pytest.mark.parametrize("kind", ["argparse.Namespace", "types.SimpleNamespace"])
def test_an_attribute_of_a_namespace_counts_by_its_name(kind: str, tmp_path: Path) -> None:
    """The results of a command line often hold the name of the run as well."""
    source = f"import argparse, types\nc = {kind}(rate=1, run='a')\ndef build(x=1): return c.rate\n"
    with imported(tmp_path, source + "def every(x=1): return vars(c)") as model:
        before = of(model), fingerprint(model.every)
        model.c.run = "b"
        assert of(model).hash == before[0].hash and of(model).loose != before[0].loose
        assert fingerprint(model.every).hash != before[1].hash
        model.c.rate = 2
        assert of(model).hash != before[0].hash


@pytest.mark.full
@pytest.mark.parametrize("read", READINGS)
def test_a_reading_of_a_clock_is_no_part_of_the_key(read: Callable[[], object], tmp_path: Path) -> None:
    """Nor is what was drawn at random, wherever it is kept; its label tells where."""
    source = "START = None\nTABLE = {}\ndef build(x=1): return START, TABLE, x"
    with imported(tmp_path, source) as model:
        keys, told = set(), set()
        for _ in range(3):
            vars(model)["START"] = read()
            model.TABLE["begun"] = read()
            made = of(model)
            keys.add(made.hash)
            assert set(made.loose) == {"global START", "global TABLE: begun"}
            told.add(made.loose["global START"])
            time.sleep(0.001 if read() != read() else 1.1)
        assert len(keys) == 1 and len(told) > 1


@pytest.mark.parametrize("value", [1.0, 0.1, 300.0, 1e9, 2**31, 10**10, 1_600_000_000, uuid.UUID(int=5)])
def test_a_number_that_somebody_wrote_is_a_part_of_the_key(value: object, tmp_path: Path) -> None:
    """A clock of this process has not shown it."""
    with imported(tmp_path, "N = None\ndef build(x=1): return N") as model:
        vars(model)["N"] = value
        assert of(model).loose == {}


def large(size: int, changed: object) -> list[Callable[[], Any]]:
    """Return functions that make containers in which the last scalar or the array's last number is `changed`."""
    return [
        lambda: [*range(size), changed],
        lambda: (*range(size), changed),
        lambda: {*range(size), changed},
        lambda: {str(each): each for each in range(size)} | {"last": changed},
        lambda: {changed: 1, **{str(each): [each] for each in range(size)}},
        lambda: [[each, [each, {"at": each}]] for each in range(size)] + [[0, [0, {"at": changed}]]],
        lambda: [Path("a"), [*range(size), changed]],
    ]


@pytest.mark.parametrize("which", range(len(large(0, 0))))
def test_the_last_of_many_values_counts(which: int) -> None:
    """They are encoded all at once, in an order that is the same in each process."""
    first, again, other, text = (LooseDigests().of(large(20_000, each)[which]()) for each in (-1, -1, -2, "-1"))
    assert first == again
    assert len({first, other, text}) == 3


def test_of_too_many_objects_the_first_count() -> None:
    """Numbers in objects are encoded one by one, up to a limit."""
    told = [LooseDigests().of([complex(first), *map(Path, "ab" * 10_000)]) for first in (1, 1, 2)]
    assert told[0] == told[1] != told[2]


@pytest.mark.parametrize("size", [300_000, 100 << 20])
@pytest.mark.parametrize("at", [0, -1])
def test_one_number_of_a_large_array_counts(size: int, at: int) -> None:
    """Of an array beyond 64 MiB count pieces that are evenly spread, its ends among them."""
    array = numpy.zeros(size, "f4" if size < 1 << 20 else "u1")
    told = [LooseDigests().of(array)]
    array[at] = 1
    told += [LooseDigests().of(array), LooseDigests().of(array), LooseDigests().of(array.reshape(2, -1))]
    assert told[0] != told[1] == told[2] != told[3]


class Items(dict[str, Any]):
    """A dict whose items are attributes, so that one that is missing raises `KeyError`."""

    __getattr__ = dict.__getitem__


def holding(rate: float) -> list[Any]:
    """Return a function, a class and objects that hold a number, two of them themselves as well."""

    def own() -> object:
        return own, rate

    class Model:
        made = rate

    Model.itself = Model  # type: ignore[attr-defined]
    named = executed("def use(): return inner()\ndef inner(): return RATE", "model.py", RATE=rate)["use"]
    return [own, lambda k=rate: k, Model, Model(), Items(rate=rate), named]


@pytest.mark.parametrize("number", range(6))
def test_what_functions_classes_and_objects_hold_is_told(number: int) -> None:
    """Their names alone would not tell when that has changed."""
    one, same, other = (LooseDigests().of(holding(rate)[number]) for rate in (2.0, 2.0, 3.0))
    assert one == same != other


HELD = """
import time, types, uuid
class Optimizer:
    def __init__(self): self.cfg = {"rate": 1, "run": uuid.uuid4().hex, "deep": types.SimpleNamespace(b=2)}
    def step(self, x): return x
optimizer = Optimizer()
def build(x=1): return optimizer.step(x)
"""


def test_each_part_of_an_attribute_is_told(tmp_path: Path) -> None:
    """So that what is learnt about the name of a run says nothing of a learning rate beside it."""
    found = []
    for number, (rate, deep) in enumerate([(1, 2), (1, 2), (9, 2), (1, 9)]):
        with imported(tmp_path / f"{number}", HELD) as module:
            module.optimizer.cfg["rate"], module.optimizer.cfg["deep"].b = rate, deep
            found.append(dict(fingerprint(module.build).loose))
    first, *others = found
    differ = [{label.rpartition(": ")[2] for label in first if first[label] != each[label]} for each in others]
    same = {"attribute cfg of Optimizer"}
    assert differ == [same, same | {".rate"}, same | {".deep", ".deep.b"}]


NAMED = """
import functools, types
class Called:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
    def __call__(self, x): return self.function(x) * {rate}
@Called
def scaled(x): return x
class Operator:
    def by_a_wrapper(self): return scaled(1)
    def by_a_module(self): return getattr(conf, "ra" + "te")
"""


@pytest.mark.parametrize("name", ["by_a_wrapper", "by_a_module"])
def test_objects_with_a_name_and_modules_of_the_user_are_told_by_what_they_hold(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that only a library calls may use them."""
    told = []
    for number, rate in enumerate([1, 1, 2]):
        conf = types.ModuleType("conf")
        vars(conf)["rate"] = rate
        monkeypatch.setitem(sys.modules, "conf", conf)
        with imported(tmp_path / f"{number}", NAMED.format(rate=rate)) as module:
            vars(module)["conf"] = conf
            told.append(LooseDigests().of(getattr(module.Operator(), name)))
    assert told[0] == told[1] != told[2]


def leading(*, changed: bool) -> list[Any]:
    """Return values that differ in their order, in what they share, in the class of a class or in what they import."""
    import jax

    module = types.ModuleType("imported_by_a_method")
    vars(module)["RATE"] = changed
    sys.modules["imported_by_a_method"] = module
    one: list[int] = []
    source = "class Operator:\n    def matvec(self):\n        import imported_by_a_method as m\n        return m.RATE"
    meta = type("Meta", (type,), {"rate": changed, "__module__": __name__})
    tree = type("Tree", (), {"__module__": __name__})
    jax.tree_util.register_pytree_node(tree, lambda _: ((), changed), lambda *_: None)
    return [
        {"b": 1, "a": 2} if changed else {"a": 2, "b": 1},
        [one, one] if changed else [one, []],
        meta("Made", (), {"__module__": __name__}),
        tree,
        executed(source, "model.py", __name__="model")["Operator"](),
    ]


@pytest.mark.parametrize("number", range(5))
def test_order_sharing_and_what_is_behind_classes_are_told(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that reaches a value as a whole may tell them apart."""
    monkeypatch.setitem(sys.modules, "imported_by_a_method", types.ModuleType("imported_by_a_method"))
    one, same, other = (LooseDigests().of(leading(changed=changed)[number]) for changed in (False, False, True))
    assert one == same != other


def test_each_global_of_a_module_and_its_parts_are_told(tmp_path: Path) -> None:
    """So that what is learnt about one says nothing of the others; a reading of a clock is no part of them."""
    source = """
        import importlib, time, types
        class Settings:
            def __init__(self): self.rate = {rate}; self.inner = {{"deep": [{deep}]}}
        def build(): return importlib.import_module("model")
        SETTINGS, TABLE, SPACE = Settings(), {{"a": {{"b": {b}}}, "c": 3}}, types.SimpleNamespace(x={x})
        BEGUN = time.time()
    """
    found = []
    for number, changed in enumerate([{}, {"rate": 9}, {"deep": 9}, {"b": 9}, {"x": 9}]):
        given = {"rate": 1, "deep": 2, "b": 3, "x": 4} | changed
        with imported(tmp_path / f"{number}", source.format(**given)) as module:
            found.append(dict(fingerprint(module.build).loose))
    of = "globals of model: "
    differ = [{label.removeprefix(of) for label in each if each[label] != found[0][label]} for each in found]
    assert not any("BEGUN" in label for label in found[0]) and differ[0] == set()
    paths = ["SETTINGS.rate", "SETTINGS.inner.deep", "TABLE.a.b", "SPACE.x"]
    for path, labels in zip(paths, differ[1:], strict=True):
        assert path in labels and not any(other in labels for other in paths if other != path)
