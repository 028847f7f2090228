"""Functions of any signature, called in any form: does `jcache.jit` return what `jax.jit` returns?

python -m tests.proofs.calls ROOT SEED COUNT

Prints JSON: how many calls were made, how many functions were traced by `jcache.jit`, and each difference. Parameters
have names that do not sort as they stand, so that positional and keyword arguments come in different orders.
"""

import contextlib
import functools
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

NAMES = ("z", "label", "pred", "a", "m", "self_", "kw")
KINDS = ("plain function", "method", "partial", "keyword partial", "callable object")


@dataclass
class Signature:
    """The parameters of a function: their names in order, by how they may be given."""

    only_positional: list[str]
    either: list[str]
    only_keyword: list[str]
    defaults: set[str]
    variable: bool
    static: set[str]

    def text(self) -> str:
        """The parameters as Python writes them."""

        def one(name: str) -> str:
            return f"{name}=0.25" if name in self.defaults else name

        parts = [*map(one, self.only_positional), *(["/"] if self.only_positional else []), *map(one, self.either)]
        parts += ["*rest"] if self.variable else (["*"] if self.only_keyword else [])
        parts += [*map(one, self.only_keyword), *(["**more"] if self.variable else [])]
        return ", ".join(parts)

    def body(self) -> str:
        """Return a sum in which each argument has its own weight."""
        names = [*self.only_positional, *self.either, *self.only_keyword]
        terms = [f"{3 ** (i + 1)} * {name}" for i, name in enumerate(names)]
        if self.variable:
            terms += ["sum(1000 * (i + 1) * x for i, x in enumerate(rest))"]
            terms += ["sum(7000 * (i + 1) * more[n] for i, n in enumerate(sorted(more, reverse=True)))"]
        return " + ".join(terms) or "0.0"


def signature(chance: random.Random) -> Signature:
    """Some parameters; the ones with a default come last among those that go by position."""
    names = chance.sample(NAMES, chance.randint(1, 5))
    first, second = sorted(chance.choices(range(len(names) + 1), k=2))
    positional = names[:second]
    with_default = set(positional[chance.randint(0, len(positional)) :])
    with_default |= {name for name in names[second:] if chance.random() < 0.4}
    static = {name for name in names[first:] if chance.random() < 0.2}
    return Signature(names[:first], names[first:second], names[second:], with_default, chance.random() < 0.3, static)


def form(chance: random.Random, of: Signature, value: Callable[[str], Any]) -> tuple[list[Any], dict[str, Any]]:
    """A call: some arguments by position, the others by name, in any order; some of those with a default left out."""
    given = of.only_positional + of.either
    by_position = chance.randint(len(of.only_positional) if chance.random() < 0.9 else 0, len(given))
    args = [value(name) for name in given[:by_position]]
    left_out = {name for name in sorted(of.defaults) if chance.random() < 0.5}  # in the same order in each process
    rest = [name for name in given[by_position:] + of.only_keyword if name not in left_out]
    chance.shuffle(rest)
    kwargs = {name: value(name) for name in rest}
    if of.variable and chance.random() < 0.5:
        others = chance.sample(("q", "b", *of.only_positional), 2)
        kwargs |= {name: value(name) for name in others if name not in kwargs}
        if by_position == len(given):
            args += [value("rest") for _ in range(chance.randint(0, 2))]
    return args, kwargs


def made(kind: str, of: Signature, number: int) -> Callable[..., Any]:
    """A function of this signature, as this kind of callable; it prints when it is traced."""
    head = {"method": "self, ", "callable object": "self, "}.get(kind, "")
    extra = {"partial": "first, ", "keyword partial": ""}.get(kind, "")
    text = f"def f{number}({head}{extra}{of.text()}):\n    print('traced')\n    return {of.body()}"
    if kind == "partial":
        text += " + 50000 * first"
    namespace: dict[str, Any] = {"__name__": "calls"}
    exec(text, namespace)
    function: Callable[..., Any] = namespace[f"f{number}"]
    if kind == "partial":
        return functools.partial(function, 2.0)
    if kind == "keyword partial":
        bound = next((name for name in reversed(of.only_keyword) if name not in of.static), None)
        return functools.partial(function, **{bound: 0.5}) if bound else function
    if kind == "method":
        return getattr(type("Model", (), {"f": function})(), "f")  # type: ignore[no-any-return]  # noqa: B009
    if kind == "callable object":
        return type("Model", (), {"__call__": function, "__hash__": object.__hash__})()  # type: ignore[no-any-return]
    return function


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result, or the type of the exception."""
    try:
        return [float(each) for each in call().ravel()]
    except Exception as error:  # noqa: BLE001  they are compared
        return type(error).__name__


def calls(chance: random.Random, count: int) -> Iterator[tuple[str, Signature, list[tuple[list[Any], dict[str, Any]]]]]:
    import jax.numpy as jnp

    for _ in range(count):
        of = signature(chance)
        values: dict[str, Any] = {}

        def value(name: str, of: Signature = of, values: dict[str, Any] = values) -> Any:
            if name in of.static:
                return values.setdefault(name, chance.choice([1, 2.5]))
            return jnp.arange(2.0) + chance.randint(1, 9)

        yield chance.choice(KINDS), of, [form(chance, of, value) for _ in range(4)]


def main() -> None:
    import jax

    import jcache

    warnings.simplefilter("ignore")
    root, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jcache.enable(root)
    chance = random.Random(seed)
    differences, made_calls = [], 0
    ours_traced = 0
    for number, (kind, of, forms) in enumerate(calls(chance, count)):
        function = made(kind, of, number)
        static: dict[str, Any] = {"static_argnames": sorted(of.static)} if of.static else {}
        donated: dict[str, Any] = (
            {"donate_argnums": 0} if chance.random() < 0.2 and forms[0][0] and not of.static else {}
        )
        theirs = jax.jit(function, **static)
        ours = jcache.jit(function, **static, **donated)
        for args, kwargs in forms:
            made_calls += 1
            with contextlib.redirect_stdout(io.StringIO()):
                wanted = outcome(lambda: theirs(*args, **kwargs))  # noqa: B023  called at once
            copies = [each + 0 if hasattr(each, "shape") else each for each in args]
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                got = outcome(lambda: ours(*copies, **kwargs))  # noqa: B023
            ours_traced += printed.getvalue().count("traced")
            if got != wanted:
                what = f"{kind} ({of.text()}) static {sorted(of.static)} {donated}: {args} {kwargs}"
                differences.append(f"{what}: {got} != {wanted}")
    print(json.dumps({"calls": made_calls, "traced": ours_traced, "differences": differences}))


if __name__ == "__main__":
    main()
