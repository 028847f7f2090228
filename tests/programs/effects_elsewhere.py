"""Functions that count or log what other functions use: calls of both in turn, and their results.

python tests/programs/effects_elsewhere.py jax|jcache ROOT first|all

With `first`, only the functions that count are called.
"""

import array
import asyncio
import collections
import contextvars
import dataclasses
import io
import json
import logging
import operator
import os
import queue
import sqlite3
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np

import jcache

WHOSE, ROOT, WHICH = sys.argv[1:]
N = M = 0
LOG, TEXTS, SEEN, LAST, TABLE, NUMBERS = [], [], set(), collections.deque(), {}, {"n": 0}
ORDER, COUNTS, GROUPS = collections.OrderedDict(), collections.Counter(), collections.defaultdict(list)
LIST, MAPPING, JOBS, JOBS_OF_C = collections.UserList(), collections.UserDict(), queue.Queue(), queue.SimpleQueue()
TASKS, EVENT, LOCAL, VARIABLE = asyncio.Queue(), threading.Event(), threading.local(), contextvars.ContextVar("v")
ARRAY, FILE, LOGGER = array.array("i"), io.StringIO(), logging.getLogger("elsewhere")
SPACE, MODULE = types.SimpleNamespace(n=0, log=[], table={}), types.ModuleType("module")
TENSOR, DATABASE = np.zeros(1), sqlite3.connect(":memory:")
LOCAL.n = MODULE.n = 0
VARIABLE.set(0)
DATABASE.execute("create table t(a)")


class Counted:
    n = 0
    __slots__ = ("own",)


SHARED, AGAIN, CALLED, SHARED_BY_DEFAULT = [], {"n": 0}, [], []
ALIAS, OTHER = SHARED, AGAIN


def count_again():
    AGAIN["n"] += 1


def recorded(into):
    def decorate(function):
        def wrapper():
            into.append(1)
            return function()

        return wrapper

    return decorate


@recorded(CALLED)
def record():
    return 1


class Trainer:
    def __init__(self):
        self.n, self.log, self.table = 0, [], {}

    def count(self):
        self.n += 1

    def note(self):
        self.log.append(1)

    def fill(self):
        self.table[len(self.table)] = 1


def function():
    """Carries attributes."""


trainer, slotted, function.n = Trainer(), Counted(), 0
slotted.own = 0


def count():
    global N
    N = N + 1


def count_more():
    global M
    M += 1


def around():
    n = 0

    def add():
        nonlocal n
        n += 1

    return add, lambda: n


def count_in(holder, name):
    setattr(holder, name, getattr(holder, name) + 1)


def count_item():
    NUMBERS["n"] += 1


def count_attribute():
    SPACE.n += 1


def count_in_class():
    Counted.n += 1


def count_in_slot():
    slotted.own += 1


def count_in_array():
    TENSOR[0] += 1


class ByName(dict):
    __getattr__ = dict.__getitem__


@dataclasses.dataclass
class Shown:
    log: list = dataclasses.field(default_factory=list)
    n: int = 0


@jax.tree_util.register_pytree_node_class
class Tree:
    def __init__(self):
        self.log = []

    def tree_flatten(self):
        return [self.log], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return children


def size_of(log=SHARED_BY_DEFAULT):
    log = list(log)
    return len(log)


def count_shown():
    shown.n += 1


def count_asked():
    ASKED["calls"] += 1


shown, of_getter, named, tree, GET = Shown(), Trainer(), ByName(log=[]), Tree(), operator.attrgetter("log")
ASKED = {"calls": 0, "lr": 1, "other": 5}
add, added = around()
PAIRS = {
    "a global": (count, lambda: N),
    "a global by an operator": (count_more, lambda: M),
    "a variable of a function": (add, added),
    "a list": (lambda: LOG.append(1), lambda: len(LOG)),
    "a list of texts": (lambda: TEXTS.append("a"), lambda: len(TEXTS)),
    "a set": (lambda: SEEN.add(len(SEEN)), lambda: len(SEEN)),
    "a deque": (lambda: LAST.append(1), lambda: len(LAST)),
    "a dict": (lambda: TABLE.update({len(TABLE): 1}), lambda: len(TABLE)),
    "an item": (count_item, lambda: NUMBERS["n"]),
    "an ordered dict": (lambda: ORDER.update({len(ORDER): 1}), lambda: len(ORDER)),
    "a counter": (lambda: COUNTS.update("a"), lambda: COUNTS["a"]),
    "a list in a dict": (lambda: GROUPS["a"].append(1), lambda: len(GROUPS["a"])),
    "a list of a library": (lambda: LIST.append(1), lambda: len(LIST)),
    "a mapping of a library": (lambda: MAPPING.update({len(MAPPING): 1}), lambda: len(MAPPING)),
    "a queue": (lambda: JOBS.put(1), lambda: JOBS.qsize()),
    "a queue of C": (lambda: JOBS_OF_C.put(1), lambda: JOBS_OF_C.qsize()),
    "a queue for coroutines": (lambda: TASKS.put_nowait(1), lambda: TASKS.qsize()),
    "an event": (lambda: EVENT.set(), lambda: int(EVENT.is_set())),
    "a value of a thread": (lambda: count_in(LOCAL, "n"), lambda: LOCAL.n),
    "a context variable": (lambda: VARIABLE.set(VARIABLE.get() + 1), lambda: VARIABLE.get()),
    "a list by another name": (lambda: SHARED.append(1), lambda: len(ALIAS)),
    "an item by another name": (count_again, lambda: OTHER["n"]),
    "a list of a decorator": (record, lambda: len(CALLED)),
    "an array of C": (lambda: ARRAY.append(1), lambda: len(ARRAY)),
    "a file in memory": (lambda: FILE.write("a"), lambda: FILE.tell()),
    "a logger": (lambda: LOGGER.setLevel(LOGGER.level + 1), lambda: LOGGER.level),
    "a namespace": (count_attribute, lambda: SPACE.n),
    "a list in a namespace": (lambda: SPACE.log.append(1), lambda: len(SPACE.log)),
    "a module": (lambda: count_in(MODULE, "n"), lambda: MODULE.n),
    "a class": (count_in_class, lambda: Counted.n),
    "a slot": (count_in_slot, lambda: slotted.own),
    "a function": (lambda: count_in(function, "n"), lambda: function.n),
    "an array": (count_in_array, lambda: int(TENSOR[0])),
    "a database": (
        lambda: DATABASE.execute("insert into t values(1)"),
        lambda: DATABASE.execute("select count(*) from t").fetchone()[0],
    ),
    "a variable of the environment": (
        lambda: os.environ.update(ELSEWHERE=str(int(os.environ.get("ELSEWHERE", "0")) + 1)),
        lambda: int(os.environ.get("ELSEWHERE", "0")),
    ),
    "an item of a dict beside others": (count_asked, lambda: ASKED["calls"]),
    "a list that a getter finds": (of_getter.note, lambda: len(GET(of_getter))),
    "a list of an object that is shown": (lambda: shown.log.append(1), lambda: len(str(shown))),
    "a number of an object that is shown": (count_shown, lambda: sum(map(int, filter(str.isdigit, str(shown))))),
    "a list that is a default": (lambda: SHARED_BY_DEFAULT.append(1), lambda: size_of()),
    "a list in a dict with attributes": (lambda: named.log.append(1), lambda: len(named["log"])),
    "a list in a tree": (lambda: tree.log.append(1), lambda: len(jax.tree.leaves(tree))),
    "a method that counts": (trainer.count, lambda: trainer.n),
    "a method that logs": (trainer.note, lambda: len(trainer.log)),
    "a method that fills": (trainer.fill, lambda: len(trainer.table)),
}


def jitted(name, change, read):
    """Return a function that counts, and one that uses the count."""

    def counting(x):
        change()
        return x * 2

    def using(x):
        return x * (read() + 1)

    jit = jax.jit
    if WHOSE == "jcache":
        jit = jcache.jit
    for each in (counting, using):
        each.__qualname__ = f"{each.__name__} {name}"
    return jit(counting), jit(using)


if WHOSE == "jcache":
    jcache.enable(ROOT, strict=True)
results = {}
for name, (change, read) in PAIRS.items():
    counting, using = jitted(name, change, read)
    for size in (1, 2, 3):
        found = [float(counting(jnp.ones(size))[0])]
        found += [float(using(jnp.ones(size))[0])] if WHICH == "all" else []
        results.setdefault(name, []).extend(found)
print(json.dumps({"results": results, "hits": jcache.stats().traces.hits if WHOSE == "jcache" else 0}))
