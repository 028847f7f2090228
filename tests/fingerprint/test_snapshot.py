"""What a function does to the values that it reaches: growth and counting are no change of its key, all else is."""

import concurrent.futures
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

HEAD = """
from collections import Counter, OrderedDict, defaultdict, deque
from string import Formatter
from types import SimpleNamespace
from collections import ChainMap, UserDict, UserList
import logging
from omegaconf import OmegaConf
import asyncio, concurrent.futures, mmap, queue as queues, threading
import numpy as np
library = Formatter()
jobs, texts, event, free = queues.Queue(), queues.SimpleQueue(), threading.Event(), threading.Semaphore()
future, memory, tasks = concurrent.futures.Future(), mmap.mmap(-1, 8), asyncio.Queue()
class Jobs(queues.Queue): ...
named_jobs, own_jobs = {'a': queues.Queue()}, Jobs()
library._unset, library._set, library.public, library._is_filled, library._is_on = None, 'a', None, False, True
n, log, seen, by, first, many = 0, [], set(), {'f': 0}, [0], Counter()
alias, space = log, SimpleNamespace(n=0, sums={'f': 0.5}, log=['a'])
sums, tables = {'f': 0.0}, {'t': ()}
text, rate, queue, groups, order, last = '', 1.0, deque(), defaultdict(list), OrderedDict(), deque([0], maxlen=1)
logger = logging.getLogger('jcache.test')
users, table, maps = UserList(), UserDict(), ChainMap({})
config = OmegaConf.create({'n': 0, 'log': []})
nested, rows = {'k': [], 'lr': 1, 'deep': {'a': [], 'n': {'c': 0}}}, [[], []]
alias_of_one = nested['k']
class Writer:
    def __init__(self, written): self.written = written
class Reader:
    def __init__(self, read): self.read = read
losses = {'loss': [], 'all': [[]]}
writer, reader = Writer(losses), Reader(losses)
class Metrics:
    def __init__(self): self.kept = {}
    def log(self, name, value=0): self.kept[name] = value
class Runs:
    n, kept = 0, ()
class Counted:
    def __init__(self):
        self.n, self.log, self.word, self.seconds = 0, [], 'a', 0.5
run = Counted()
def decorated(): ...
decorated.n = 0
def make():
    n, log, word = 0, [], 'a'
    def counted():
        nonlocal n
        n += 1
        log.append(1)
    def said():
        nonlocal word
        word += 'a'
    def numbered():
        nonlocal n
        n += 1
        return n
    return counted, said, numbered
counted, said, numbered = make()
"""
TOLERATED = {
    "a number": "global n\n    n += 1",
    "a number by one that is no constant": "global n\n    n += x * 2",
    "a number that is printed": "global n\n    n += 1\n    print(f'traced {n} times')",
    "a number that is logged": "run.n += 1\n    logger.debug('%d', run.n)\n    logger.info(run.n)",
    "a number in the long form": "global n\n    n = n + 1\n    run.n = run.n - 1",
    "a list": "log.append(x)",
    "a queue that is only filled": "jobs.put(x)\n    event.set()",
    "a list in a dict": "groups['a'].append(x)\n    groups['a'].append(x)",
    "a list in a dict beside what is used": "nested['k'].append(x)\n    x += nested['lr']",
    "a list in a dict that is asked by get": "nested.get('k').append(x)\n    x += nested.get('lr')",
    "a list in a list": "rows[0].append(x)",
    "a list deep in a dict": "nested['deep']['a'].append(x)",
    "a count deep in a dict": "nested['deep']['n']['c'] += 1",
    "a set": "seen.add(1)",
    "a deque": "queue.append(1)",
    "a memo": "by[x] = x * 2",
    "a memo that is asked first": "if x not in by: by[x] = np.arange(x)\n    x += by[x].sum() + by.get(x).sum()",
    "a memo of functions": "if x not in by: by[x] = pow\n    x += by[x](2, x)",
    "a memo of points and their number": "if x not in by: by[x] = np.arange(x), x\n    x += by[x][1]",
    "texts, times and nothing in a dict": "order[x], order['t'], order['n'] = 'done', (0.5, 1.5), None",
    "objects in a list": "log.append(run)",
    "records in a list": "log.append({'shape': (x, 'a'), 'seconds': [1.5, None]})",
    "times in a dict": "order[x] = 1.5",
    "a memo with a name of its own": "memo = by\n    memo.setdefault(x, np.ones(x))",
    "a list in a dict that setdefault makes": "by.setdefault(x, []).append(1)",
    "a list in a dict that setdefault makes, by a name of its own": "own = by.setdefault(x, [])\n    own.append(1)",
    "an ordered memo": "order[x] = x * 2",
    "an item that counts": "by['f'] += 1",
    "an item of a list that counts": "first[0] += 2",
    "a counter": "many['f'] += 1",
    "an attribute of a class": "Runs.n += 1",
    "an attribute of an object": "run.n += 1",
    "a list of an object": "run.log.append(x)",
    "an attribute of a namespace": "space.n += 1",
    "an attribute of a function": "decorated.n += 1",
    "variables of a function around it": "counted()",
    "a private attribute of a library's object": "library._memo = (x, 'a')\n    return library._memo",
    "one that was None": "library._unset = (x, 'a')",
    "one that was False": "library._is_filled = True",
}
CHANGES = {
    "a number that a logger of the program keeps": "run.n += 1\n    m = Metrics()\n    m.log(run.n)\n    x = m.kept",
    "an item that a logger of the program keeps": "by['f'] += 1\n    m = Metrics()\n    m.log(by['f'])\n    x = m.kept",
    "the length of a list that a logger of the program keeps": "log.append(1)\n    m = Metrics()\n    m.log(len(log))",
    "an item that counts and is used": "by['f'] += 1\n    x += by['f']",
    "a memo of numbers, which may count": "if x not in by: by[x] = x * 2\n    x += by[x]",
    "a memo of texts, which may number something": "if x not in by: by[x] = 'a'\n    return by[x]",
    "a memo of functions that hold something": "by.setdefault('a', lambda y, n=x: y * n)\n    x = by['a'](x)",
    "a memo of objects that may change": "by.setdefault(x, Counted()).n += 1\n    x += by[x].n",
    "a scale that the first call sets": "if 'scale' not in by: by['scale'] = 1 / x\n    x *= by['scale']",
    "names that are counted": "n = many[x]\n    many[x] = n + 1\n    x += n",
    "names that were seen": "while x in by: x += 1\n    by[x] = True",
    "a list that setdefault makes and that is used": "by.setdefault(x, []).append(2)\n    x += sum(by[x])",
    "a list that setdefault makes, by another name": "o = by.setdefault(x, [])\n    o.append(1)\n    x += len(o)",
    "a set that setdefault makes and that is asked": "by.setdefault(x, set()).add(1)\n    x += 2 in by[x]",
    "an item of a list that counts and is used": "first[0] += 1\n    x += first[0]",
    "a counter that is used": "many['f'] += 1\n    x += many['f']",
    "a counter that is updated and used": "many.update('f')\n    x += many['f']",
    "an item that counts by get, and is used": "by[x] = by.get(x, 0) + 1\n    x += by[x]",
    "a dict with a default for what is missing": "x += by.get(3, 5)\n    by[x] = x",
    "a dict in which a constant is looked for": "x += 'g' in by\n    by['g'] = x",
    "a set in which something is looked for": "x += x in seen\n    seen.add(x)",
    "a list by a name of the function's own": "own = log\n    own.append(x)\n    x += len(own)",
    "a list that a helper is given": "log.append(x)\n    x += int(np.sum(log))",
    "a list that is unpacked": "log.append(x)\n    a, *b = log\n    x += sum(b)",
    "lists of a dict": "groups[x].append(x)\n    x += sum(groups[x])",
    "a list in a dict whose length counts": "nested['k'].append(1)\n    x += len(nested['k'])",
    "a list in a dict that is found by a computed key": "nested['k'].append(1)\n    x += len(nested['kl'[0]])",
    "a list in a dict that get finds": "nested['k'].append(1)\n    x += len(nested.get('k'))",
    "a list in a dict that setdefault finds": "nested['k'].append(1)\n    x += len(nested.setdefault('k', 1))",
    "a list in a dict among all": "nested['k'].append(1)\n    for each in nested.values(): x += each == [1]",
    "a list in a dict by a name of the function's own": "own = nested['k']\n    own.append(1)\n    x += len(own)",
    "a list in a dict by another name": "nested['k'].append(1)\n    x += len(alias_of_one)",
    "a list in a dict that its other name fills": "alias_of_one.append(1)\n    x += len(nested['k'])",
    "a list in a dict of which a part is used": "nested['k'].append(1)\n    x += nested['k'][-1]",
    "a list in a list whose length counts": "rows[0].append(1)\n    x += len(rows[0])",
    "a list in a dict that another object holds, too": (
        "writer.written['loss'].append(1)\n    x += len(reader.read['loss'])"
    ),
    "a list deep in what another object holds, too": (
        "writer.written['all'][0].append(1)\n    x += len(reader.read['all'][0])"
    ),
    "a list deep in a dict whose length counts": "nested['deep']['a'].append(1)\n    x += len(nested['deep']['a'])",
    "a count deep in a dict that is used": "nested['deep']['n']['c'] += 1\n    x += nested['deep']['n']['c']",
    "a list that is found by a computed name": "run.log.append(1)\n    x += len(getattr(run, 'log'[:x + 9]))",
    "a list that is found among all globals": "queue.append(1)\n    x += len(globals()['queue'])",
    "a list that is found among all attributes": "run.log.append(1)\n    x += len(vars(run)['log'])",
    "an attribute of a class that no code reads": "Runs.shape = (x,)",
    "an attribute of a class that no code reads and that it had": "Runs.kept = (x,)",
    "a list of a library": "users.append(1)\n    x += len(users)",
    "a dict of a library": "table[x] = 1\n    x += len(table)",
    "a memo of numbers in a dict of a library": "if 'a' not in table: table['a'] = x\n    x += table['a']",
    "maps of a library": "maps[x] = 1\n    x += len(maps)",
    "a number in a configuration of a library": "config.n += 1\n    x += config.n",
    "a list in a configuration of a library": "config.log.append(1)\n    x += len(config.log)",
    "an attribute that is used by a computed name": "run.n += 1\n    x += getattr(run, 'nm'[0])",
    "an attribute that is used among all": "run.n += 1\n    x += vars(run)['n']",
    "a register that numbers its items": "x += by.setdefault(x, len(by))",
    "a list that is asked whether it is empty": "if not log: log.append(x)",
    "a list that is added up": "log.append(x)\n    x += sum(log)",
    "the last one of a list": "log.append(x)\n    x += log[-1]",
    "a list of an object that is iterated over": "run.log.append(x)\n    for each in run.log: x += each",
    "a dict that is asked for its items": "by[x] = x\n    x += max(each for _, each in by.items())",
    "a list of an object whose length counts": "run.log.append(x)\n    x += len(run.log)",
    "a dict that gets shapes for other code": "by[x] = (x,)",
    "a dict that gets shapes under computed keys": "order[f'{x + 1}', str(x)] = (x, 2)",
    "a list that gets functions for other code": "log.append(decorated)",
    "a set that gets functions for other code": "seen.update([decorated])",
    "a dict that is updated for other code": "by.update(shape=(x,))",
    "a number that is returned": "global n\n    n += 1\n    return n",
    "a number that is used before": "global n\n    x += n\n    n += 1",
    "a number that it counts by itself": "global n\n    n += n + 1",
    "an attribute that is used": "run.n += 1\n    x += run.n",
    "an attribute of a class that is used": "Runs.n += 1\n    x += Runs.n",
    "an attribute that is used by its name": "run.n += 1\n    x += getattr(run, 'n')",
    "a variable of a function around it that is used": "x += numbered()",
    "a text": "global text\n    text += 'f'",
    "a number of another type": "global rate\n    rate += 1",
    "an item that is replaced": "by['f'] = 'a'",
    "a deque that forgets": "last.append('a')",
    "an item that is gone": "del by['f']",
    "a list that is rebound": "global log\n    log = [x]",
    "a list that is read by another name": "alias.append(x)\n    x += len(log)",
    "the front of a list": "first.insert(0, 'a')",
    "an attribute of an object": "run.word = run.word + 'b'",
    "a new attribute of an object": "run.more = 'b'\n    return run.more",
    "a queue whose size counts": "x += jobs.qsize()\n    jobs.put(x)",
    "a queue by a name of its own": "q = jobs\n    x += q.qsize()\n    q.put(x)",
    "a queue in a dict": "x += named_jobs['a'].empty()\n    named_jobs['a'].put(x)",
    "a queue of a class of the program's": "x += own_jobs.qsize()\n    own_jobs.put(x)",
    "a queue of C": "x += texts.qsize()\n    texts.put(x)",
    "a queue for coroutines": "x += tasks.qsize()\n    tasks.put_nowait(x)",
    "an event that is asked for": "x += event.is_set()\n    event.set()",
    "a semaphore": "x += free.acquire(False)",
    "a result to come": "x += future.done() or bool(future.set_result(x))",
    "memory of C": "x += memory[0]\n    memory[0] = x + 1",
    "an attribute that no code reads": "run.shape = (x,)",
    "a variable of a function around it": "said()",
    "a private attribute of a library's object that was set": "library._set = library._set + 'b'",
    "one that was True": "library._is_on = False",
    "one that is gone": "del library._set",
    "a public attribute of a library's object": "library.public = 'b'",
    "a private attribute of the user's object": "run._memo = 'b'\n    return run._memo",
}


def the(body: str, directory: Path) -> Callable[[int], object]:
    with imported(directory, f"{HEAD}def f(x):\n    {body}\n    return x\n") as model:
        function: Callable[[int], object] = model.f
        return function


def changes(function: Callable[[int], object]) -> list[str]:
    """Return what a call changes of that which the key of the call was made of."""
    before = fingerprint(function, (1,))
    function(1)
    return changed_meanwhile(before, function, (1,), {})


@pytest.mark.parametrize("body", TOLERATED.values(), ids=TOLERATED)
def test_growth_and_counting_are_no_change(body: str, tmp_path: Path) -> None:
    """A result is stored though its function fills a memo, writes a log or counts its calls."""
    assert changes(the(body, tmp_path)) == []


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES)
def test_any_other_change_is_told(body: str, tmp_path: Path) -> None:
    """A result is not stored where its function changes a value that its key was made of."""
    assert len(changes(the(body, tmp_path))) == 1


@pytest.mark.parametrize("body", (TOLERATED | CHANGES).values(), ids=TOLERATED | CHANGES)
def test_two_results_of_one_call_have_two_keys(body: str, tmp_path: Path) -> None:
    """What a call leaves behind is a part of the next key if that gives another result, even if no call is stored; the
    state of a queue is none, since no call that changes it and asks for it is stored.
    """
    function = the(body, tmp_path)
    results = dict[str, str]()
    for _ in range(4):
        before, result = fingerprint(function, (1,)), ""
        with contextlib.suppress(
            LookupError, TypeError, ValueError, AttributeError, concurrent.futures.InvalidStateError
        ):
            result = repr(function(1))
        if any(each.startswith("the state of") for each in changed_meanwhile(before, function, (1,), {})):
            return
        assert results.setdefault(before.hash, result) == result


def test_what_has_grown_is_part_of_the_next_key(tmp_path: Path) -> None:
    """The key of a call is made of what is there when it begins."""
    function = the("log.append(x)\n    x += x in log", tmp_path)
    before = fingerprint(function, (1,))
    function(1)
    assert fingerprint(function, (1,)).hash != before.hash


def test_an_argument_may_not_grow_and_a_default_may() -> None:
    """The caller may look for what was added to a container that it gave, and nobody does so in a default."""

    def f(given: list[list[int]], kept: list[int] = []) -> None:  # noqa: B006
        given[0].append(1)

    def g(kept: list[int] = []) -> None:  # noqa: B006
        kept.append(2)

    given: list[list[int]] = [[]]
    before, other = fingerprint(f, (given,)), fingerprint(g)
    f(given)
    g()
    assert len(changed_meanwhile(before, f, (given,), {})) == 1
    assert changed_meanwhile(other, g, (), {}) == []
