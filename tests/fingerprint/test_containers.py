"""Which function uses what another one has added to a container or counted, whatever way it reaches that."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

SOURCE = """
import argparse, collections, dataclasses, enum, functools, io, operator, types, weakref
import jax
log, seen, counts, memo, last = [], set(), {'f': 0, 'lr': 1, 'other': 5}, {}, collections.deque()
many, rows, alias, pair = collections.Counter(), {'a': [], 'b': []}, log, (log, 1)
class Model:
    def __init__(self): self.log, self.n = [], 0
    def filled(self): self.log.append(1)
    def counted(self): self.n += 1
    def total(self): return sum(self.log)
class Sized(Model):
    def __len__(self): return len(self.log)
class Named(dict):
    __getattr__ = dict.__getitem__
class Derived(dict): ...
@dataclasses.dataclass
class Shown:
    log: list = dataclasses.field(default_factory=list)
    n: int = 0
@dataclasses.dataclass(frozen=True)
class Frozen:
    log: list = dataclasses.field(default_factory=list)
@functools.partial(jax.tree_util.register_dataclass, data_fields=['log'], meta_fields=[])
@dataclasses.dataclass
class Tree:
    log: list = dataclasses.field(default_factory=list)
class Kinds(enum.Enum):
    A = (log,)
class Holder:
    def __init__(self, held): self.held = held
class Lengthy:
    __len__ = log.__len__
model, other, sized, shown, frozen, tree = Model(), Model(), Sized(), Shown(), Frozen(), Tree()
space, named, derived = types.SimpleNamespace(log=[]), Named(log=[]), Derived(k=log)
deep, in_tuple, holder, lengthy = {'p': collections.OrderedDict(k=log)}, ({'a': {'k': log}},), Holder(rows), Lengthy()
get, of_partial, length = operator.attrgetter('log'), functools.partial(len, log), log.__len__
getter = [lambda: size(log)]
view, partials = rows.values(), {'scale': functools.partial(len, log)}
def size(container): return len(container)
def bound_again(log=log):
    log = list(log)
    return len(log)
def defaults(*, log=log): return len(log)
def counted_again(): counts['f'] = n = counts.get('f', 0) + 1; return n
def printed():
    file = io.StringIO()
    print(len(log), file=file)
    return file.getvalue()
class Sched:
    def __init__(self, h): self.h = h
losses = {'loss': []}
recorder, sched = Holder(losses), Sched(losses)
out = io.StringIO()
def told():
    out = []
    print(out.append(len(log)))
    return out
class Logger:
    def keep(self, n): self.n = n
    log = keep
logger_of = Logger()
def f(x): %s
def g(x): return %s
"""
LOG = "log.append(x)"
USED: list[tuple[str, Sequence[str]]] = [
    (LOG, ["len(log)", "len(alias)", "size(log)", "[*log]", "log == [1]", "(y := log)", "of_partial()", "length()"]),
    (LOG, ["len(pair[0])", "bound_again()", "defaults()", "printed()", "getter[0]()", "len(lengthy)", "str(pair)"]),
    (LOG, ["len(derived['k'])", "len(deep['p']['k'])", "len(in_tuple[0]['a']['k'])", "len(Kinds.A.value[0])"]),
    (LOG, ["partials['scale']()", "getattr(log, '__len__')()", "len(globals()['log'])", "max(log, [])"]),
    (LOG, ["print(len(log), file=out) or out.getvalue()", "told()", "logger_of.log(len(log)) or logger_of.n"]),
    ("recorder.held['loss'].append(x)", ["len(sched.h['loss'])", "recorder.held and len(sched.h['loss'])"]),
    ("seen.add(x)", ["len(seen)", "x in seen", "bool(seen)"]),
    ("counts['f'] += 1", ["counts['f']", "counted_again()", "sum(counts.values())", "counts.get('f')"]),
    ("many[x] += 1", ["many[x]", "many.total()", "len(many)"]),
    ("rows['a'].append(x)", ["len(rows['a'])", "holder.held['a'][-1]", "sum(map(len, view))", "str(rows)"]),
    ("model.filled()", ["model.total()", "len(model.log)", "len(get(model))", "len(vars(model)['log'])"]),
    ("sized.filled()", ["len(sized)", "len(get(sized))", "bool(sized)"]),
    ("shown.log.append(x)", ["str(shown)", "f'{shown}'", "shown == Shown()", "len(dataclasses.asdict(shown))"]),
    ("shown.n += 1", ["str(shown)", "shown == Shown()", "shown.n", "get(shown) or shown.n"]),
    ("frozen.log.append(x)", ["str(frozen)", "frozen == Frozen()", "len(frozen.log)"]),
    ("space.log.append(x)", ["str(space)", "len(space.log)", "space == types.SimpleNamespace(log=[])"]),
    ("tree.log.append(x)", ["len(jax.tree.leaves(tree))", "len(tree.log)", "str(jax.tree.structure(tree))"]),
    ("named.log.append(x)", ["len(named['log'])", "len(named.log)", "str(named)", "len([*named.values()][0])"]),
]
UNUSED = [
    (LOG, "len(seen)"), (LOG, "model.total()"), (LOG, "log.append(2)"),
    ("model.filled()", "len(log)"), ("model.filled()", "model.filled()"), ("model.filled()", "other.n"),
    ("rows['a'].append(x)", "len(rows['b'])"), ("many[x] += 1", "log"),
]  # fmt: skip


def used(change: str, read: str, directory: Path) -> list[str]:
    """Return a text for each thing that one function changes and another one may use."""
    with imported(directory, SOURCE % (change, read)) as module:
        before = fingerprint(module.f, (1,))
        module.f(1)
        if own := changed_meanwhile(before, module.f, (1,), {}):
            return own  # it is not stored
        code = fingerprint(module.g, (1,)).snapshot
        return code.named(before.snapshot.changed).used_by(code, elsewhere=True)


@pytest.mark.parametrize(("change", "read"), [(change, read) for change, reads in USED for read in reads])
def test_what_another_function_uses(change: str, read: str, tmp_path: Path) -> None:
    """By any name, as a part of an object that it shows or compares, in a partial, a pytree or a default."""
    assert used(change, read, tmp_path)


@pytest.mark.parametrize(("change", "read"), UNUSED)
def test_what_another_function_does_not_use(change: str, read: str, tmp_path: Path) -> None:
    """Something else, or the same only to add to it."""
    assert not used(change, read, tmp_path)
