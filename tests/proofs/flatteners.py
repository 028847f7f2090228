"""Pytrees that are unflattened differently than flattened: does `jcache.jit` return the results of `jax.jit`?

python -m tests.proofs.flatteners DIRECTORY SEED COUNT VARIANT

Prints JSON: the number of calls, how often `jcache.jit` traced, how many traces it served, and each difference. A case
is a module with a class that is registered in some way, with functions that flatten and unflatten it (drop, swap,
repeat, scale or add leaves, change what is beside them, or read the order from a file), and a function that takes it,
returns it, or uses it inside. A variant changes some cases: the functions, or the file that they read.
"""

import importlib
import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

HEAD: Final = """
import dataclasses, functools, pathlib
import jax
from jax import tree_util as tu
traced = []
def order():
    return pathlib.Path(__file__).with_suffix(".txt").read_text().split()
def is_array(value):
    return hasattr(value, "dtype")
class P:
    def __init__(self, a, b, mode="m0"):
        self.a, self.b, self.mode, self.cache, self.real = a, b, mode, None, None
    def filled(self):
        self.cache = self.a * 7 + self.b
        return self
    def derived(self):
        return self.a * 5 if is_array(self.a) else self.a
"""
LEAVES: Final = {
    "plain": "[p.a, p.b]",
    "swapped": "[p.b, p.a]",
    "cached": "[p.a, p.b, p.cache]",
    "cached first": "[p.cache, p.a, p.b]",
    "derived": "[p.a, p.b, p.derived()]",
    "twice": "[p.a, p.b, p.a]",
    "one": "[p.b]",
    "scaled": "[p.a * 2 if is_array(p.a) else p.a, p.b]",
    "by file": "[getattr(p, name) for name in order()]",
}
BESIDE: Final = {"nothing": "None", "mode": "p.mode", "real": "p.real or p.mode", "names": "('a', 'b')"}
MADE: Final = {
    "plain": "P(ch[0], ch[1])",
    "swapped": "P(ch[1], ch[0])",
    "last two": "P(*ch[-2:])",
    "scaled": "P(ch[0] * 2 if is_array(ch[0]) else ch[0], ch[1])",
    "filled": "P(ch[0], ch[1]).filled() if is_array(ch[0]) and is_array(ch[1]) else P(ch[0], ch[1])",
    "by file": "P(**dict(zip(order(), ch)))",
}
KEPT: Final = {
    "nothing": "",
    "cache": "    p.cache = parts[-1]\n",
    "mode": "    p.mode = aux if isinstance(aux, str) else p.mode\n",
    "real": "    p.real = aux\n",
    "mode that grows": "    p.mode = f'{aux}+'\n",
}
FUNCTIONS: Final = """
def flat(p):
    return LEAVES, BESIDE
def unflat(aux, parts):
    ch = [*parts, 3.0, 4.0][: max(2, len(parts))]
    p = MADE
KEPT    return p
"""
WAYS: Final = {
    "functions": "tu.register_pytree_node(P, flat, unflat)\n",
    "lambdas": "tu.register_pytree_node(P, lambda p: flat(p), lambda aux, parts: unflat(aux, parts))\n",
    "partials": "tu.register_pytree_node(P, functools.partial(flat), functools.partial(unflat))\n",
    "objects": """
class Flattener:
    def __init__(self, function): self.function = function
    def __call__(self, *args): return self.function(*args)
tu.register_pytree_node(P, Flattener(flat), Flattener(unflat).__call__)
""",
    "class": """
P.tree_flatten = lambda self: flat(self)
P.tree_unflatten = classmethod(lambda cls, aux, parts: unflat(aux, parts))
tu.register_pytree_node_class(P)
""",
    "keys": """
def with_keys(p):
    leaves, aux = flat(p)
    return [(tu.SequenceKey(i), leaf) for i, leaf in enumerate(leaves)], aux
tu.register_pytree_with_keys(P, with_keys, unflat)
""",
    "keys in another order": """
def with_keys(p):
    leaves, aux = flat(p)
    return [(tu.SequenceKey(i), leaf) for i, leaf in enumerate(leaves)][::-1], aux
tu.register_pytree_with_keys(P, with_keys, unflat, flat)
""",
    "dataclass": """
@dataclasses.dataclass
class P:
    a: object
    b: object
    mode: str = "m0"
    cache = real = None
    def __post_init__(self):
        made = unflat(self.mode, [self.a, self.b])
        self.a, self.b = made[0], made[1]
    def filled(self):
        return self
def unflat(aux, ch):
    return POSTINIT
tu.register_dataclass(P, data_fields=FIELDS, meta_fields=["mode"])
""",
}
USES: Final = {
    "argument": ("return p.a * 3 + x", "(P(A, B), X)"),
    "argument, other": ("return p.b * 3", "(P(A, B), X)"),
    "argument, cached": ("return p.a * 3 + x", "(P(A, B).filled(), X)"),
    "argument, what follows": ("return x * 2", "(P(A, B).filled(), X)"),
    "argument, leaves": ("return sum((i + 1) * leaf for i, leaf in enumerate(tu.tree_leaves(p)))", "(P(A, B), X)"),
    "argument, mode": ("return x * {None: 2, 'm0': 3, 'm1': 5}.get(p.real, 7) * len(p.mode)", "(P(A, B, 'MODE'), X)"),
    "argument, nested": ("return p['k'][1].a * 3 + x", "({'k': [X, P(A, B).filled()]}, X)"),
    "argument, result": ("return p", "(P(A, B), X)"),
    "argument, results": ("return {'p': p, 'x': x, 'q': [p]}", "(P(A, B).filled(), X)"),
    "result": ("return P(p * 2, x * 3)", "(A, X)"),
    "result, filled": ("return P(p * 2, x * 3).filled()", "(A, X)"),
    "result of arguments": ("return [x, P(x, p)]", "(A, X)"),
    "result, mode": ("return P(p * 2, x * 3, 'MODE')", "(A, X)"),
    "inside": ("l, d = tu.tree_flatten(P(p, x)); return tu.tree_unflatten(d, [7 * v for v in l]).a", "(A, X)"),
    "inside, mapped": ("return tu.tree_leaves(tu.tree_map(lambda v: v * 11, P(p, x)))[0]", "(A, X)"),
    "inside, scan": (
        "c, _ = jax.lax.scan(lambda c, _: (tu.tree_map(lambda v: v + 1, c), None), [P(p, x)], None, length=2); "
        "return tu.tree_leaves(c)[0]",
        "(A, X)",
    ),
    "inside, jitted": ("return jax.jit(lambda q: q.a * 3)(P(p, x))", "(A, X)"),
    "inside, gradient": ("return tu.tree_leaves(jax.grad(lambda q: q.a * q.b)(P(p, x)))[0]", "(A, X)"),
    "global": ("return x * tu.tree_leaves(G)[0]", "(A, X)"),
    "static": ("return x * tu.tree_leaves(s.value)[0]", "(A, X, Static(P(2.0, 3.0)))"),
}
TAIL: Final = """
class Static:
    def __init__(self, value): self.value = value
    def __hash__(self): return 1
    def __eq__(self, other): return type(other) is Static
A, B, X = (jax.numpy.float32(value) for value in (1, 10, 100))
G = P(2.0, 3.0)
def f(p, x, s=None):
    traced.append(1)
    BODY
def call(jitted): return jitted(*CALL)
"""


class Case(NamedTuple):
    """The text of a module, and the file that it may read."""

    way: str
    leaves: str
    beside: str
    made: str
    kept: str
    use: str
    mode: str
    file: str

    def text(self) -> str:
        """The module."""
        body, call = USES[self.use]
        functions = FUNCTIONS.replace("LEAVES", LEAVES[self.leaves]).replace("BESIDE", BESIDE[self.beside])
        functions = functions.replace("MADE", MADE[self.made]).replace("KEPT", KEPT[self.kept])
        tail = TAIL.replace("BODY", body).replace("CALL", call).replace("MODE", self.mode)
        way = WAYS[self.way].replace("FIELDS", "['b', 'a']" if self.leaves == "swapped" else "['a', 'b']")
        odd = "[ch[1], ch[0]]" if self.made == "swapped" else "[ch[0] * 2 if is_array(ch[0]) else ch[0], ch[1]]"
        return HEAD + functions + way.replace("POSTINIT", "ch" if self.made == "plain" else odd) + tail


def case(chance: random.Random) -> Case:
    """Draw a case; a class that is unflattened unchanged is not rare."""

    def one(of: dict[str, Any]) -> str:
        return chance.choice(list(of)) if chance.random() < 0.6 else next(iter(of))

    way, use = chance.choice(list(WAYS)), chance.choice(list(USES))
    return Case(way, one(LEAVES), one(BESIDE), one(MADE), one(KEPT), use, chance.choice(["m0", "m1"]), "a b")


def other(chance: random.Random, of: Case) -> Case:
    """The same case after an edit, or after another one of its file; or as it was."""
    new = case(chance)
    field = chance.choice(["leaves", "beside", "made", "kept", "mode", "file", "", ""])
    if field == "file":
        return of._replace(file="b a")
    return of._replace(**{field: getattr(new, field)}) if field else of


def shown(value: Any) -> Any:
    """Return a result as JSON."""
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if hasattr(value, "mode"):
        return [shown(value.a), shown(value.b), shown(value.cache), value.mode, value.real]
    return None if value is None else float(value)


def outcome(module: Any, jit: Any) -> Any:
    """Return the result of the case, or the type of its exception."""
    try:
        return shown(module.call(jit(module.f, static_argnums=2 if "static" in module.__doc__ else ())))
    except Exception as error:  # noqa: BLE001  they are compared
        return type(error).__name__


def main() -> None:
    import jax

    import jcache

    warnings.simplefilter("ignore")
    directory, seed, count, variant = Path(sys.argv[1]), *map(int, sys.argv[2:])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(directory))
    jcache.enable(directory / "root")
    chance = random.Random(seed)
    differences, traced = [], 0
    for number in range(count):
        first = case(chance)
        chosen = [first, other(chance, first)][variant]
        name = f"case_{number}"
        path = directory / f"{name}.py"
        path.unlink(missing_ok=True)
        path.write_text(f'"""{chosen.use}"""\n{chosen.text()}')
        os.utime(path, (variant + 1, variant + 1))  # what is younger than the process may not be what was loaded
        (directory / f"{name}.txt").write_text(chosen.file)
        module = importlib.import_module(name)
        got = outcome(module, jcache.jit)
        traced += len(module.traced)
        wanted = outcome(module, jax.jit)
        if got != wanted:
            differences.append(f"{chosen}: {got} != {wanted}")
    traces = jcache.stats().traces
    print(json.dumps({"calls": count, "traced": traced, "hits": traces.hits, "differences": differences}))


if __name__ == "__main__":
    main()
