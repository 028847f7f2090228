"""Forms of the functions of random programs, and of their calls."""

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple


class Form(NamedTuple):
    """A way to write and to call a function.

    Attributes:
        head: what stands before its body.
        result: the expression that it returns.
        call: how it is called by `entry`.
        indent: of its body.
        setup: what the module has for it.
        texts: further texts of the program, by names as in `generated.Mutation`.
        may_be_refused: whether it is documented that the function may not be served at its second start.
    """

    head: str
    result: str
    call: str
    indent: str = "    "
    setup: str = ""
    texts: Mapping[str, str] = {}
    may_be_refused: bool = False


ARRAY: Final = "np.arange(4, dtype=np.float32)"


def _plain(chance: random.Random, name: str) -> Form:
    donated = chance.choice(["", ", donate_argnums=0", ", keep_unused=True", ", inline={{True||False}}"])
    return Form(f"def f_{name}(x):\n", "x", f"return entry(f_{name}{donated})(jnp.asarray({ARRAY}))")


def _keywords(chance: random.Random, name: str) -> Form:
    given = [f"x={ARRAY}", "y=np.float32({{2.0||3.0}})", "z=np.float32(5.0)"]
    chance.shuffle(given)
    left_out = [each for each in given if not each.startswith("z=") or chance.random() < 0.5]
    head = f"def f_{name}(x, y=1.0, *, z={{{{7.0||8.0}}}}):\n"
    return Form(head, "(x * y, {'z': x + z})", f"return entry(f_{name})({', '.join(left_out)})")


def _static(chance: random.Random, name: str) -> Form:
    static = chance.choice(["static_argnames='mode'", "static_argnums=1", "static_argnames=('mode',)"])
    body = "x * 2 if mode == 'double' else x * 3"
    call = f"return entry(f_{name}, {static})({ARRAY}, {chance.choice(['', 'mode='])}'{{{{double||triple}}}}')"
    return Form(f"def f_{name}(x, mode):\n", body, call.replace("mode='", "mode='" if "names" in static else "'"))


def _trees(chance: random.Random, name: str) -> Form:
    tree = chance.choice(["{{('a', 'b')||('b', 'a')}}", "{{'ab'||'ba'}}"])
    call = f"return entry(f_{name})(dict(zip({tree}, ({ARRAY}, np.ones(4, np.float32)))))"
    return Form(f"def f_{name}(tree):\n    x = tree['a'] - 2 * tree['b']\n", "[x, (tree['b'], None)]", call)


def _method(chance: random.Random, name: str) -> Form:
    head = f"class Model_{name}:\n    def __init__(self, k):\n        self.k = k\n    def act(self, x):\n"
    call = f"return entry(Model_{name}({{{{2.0||3.0}}}}).act)({ARRAY})"
    return Form(head, "x * self.k", call, " " * 8)


def _partial(chance: random.Random, name: str) -> Form:
    call = f"return entry(functools.partial(f_{name}, {{{{2.0||3.0}}}}))({ARRAY})"
    return Form(f"def f_{name}(k, x):\n", "x * k", call)


def _twice(chance: random.Random, name: str) -> Form:
    call = f"made = entry(f_{name})\nreturn made({ARRAY}), made({ARRAY}[:{{{{3||2}}}}])"
    return Form(f"def f_{name}(x):\n", "x", call)


def _nested(chance: random.Random, name: str) -> Form:
    head = f"def make_{name}(k):\n    def f_{name}(x):\n"
    return Form(head, "x * k\n    return f_" + name, f"return entry(make_{name}({{{{2.0||3.0}}}}))({ARRAY})", " " * 8)


def _node(chance: random.Random, name: str) -> Form:
    head = f"""class Node_{name}:
    def __init__(self, a, b):
        self.a, self.b = a, b
jax.tree_util.register_pytree_node(
    Node_{name}, lambda node: (({{{{node.a, node.b||node.b, node.a}}}}), {{{{2.0||3.0}}}}),
    lambda rate, leaves: Node_{name}(leaves[0], {{{{leaves[1]||leaves[1] * rate}}}}))
def f_{name}(node):
    x = node.a - 5 * node.b
"""
    return Form(head, "{'x': x}", f"return entry(f_{name})(Node_{name}({ARRAY}, np.ones(4, np.float32)))")


FORMS: Final[tuple[Callable[[random.Random, str], Form], ...]] = (
    _plain, _plain, _keywords, _static, _trees, _node, _method, _partial, _twice, _nested,
)  # fmt: skip
