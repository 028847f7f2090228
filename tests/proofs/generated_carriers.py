"""Objects of random programs that hold a number which is read from a file before the call, one within another."""

import random
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.proofs.generated_forms import ARRAY, Form
from tests.proofs.generated_steps import Step, changing

# What the second start compares: all globals, addresses, and a cached property that the first of two functions fills.
COMPARED: Final = (
    "cached_property", "sys.modules", "import_module", "globals()", "deepcopy(", "pickle.dumps(", "CodeType.replace(",
    "eval('",
)  # fmt: skip
REFUSED: Final = ("c_make_encoder(", "mmap.mmap(", "zlib.decompressobj(")  # as an argument
DATA: Final = Path(__file__).parents[1] / "data" / "generated"


class Block(NamedTuple):
    """A block of a data file, whose expression stands after ``>``.

    Attributes:
        statements: they make N from V, a number in `carried.txt` and any object in `carriers.txt`.
        read: an expression that has V from N.
    """

    statements: str
    read: str


@cache
def blocks(name: str) -> list[Block]:
    """Return the blocks of a data file."""
    parts = [text.rpartition("\n> ") for text in (DATA / name).read_text().split("\n\n")]
    return [Block(f"{statements}\n", read.strip()) for statements, _, read in parts]


class Carried(NamedTuple):
    """A number that an object holds, which up to three others hold in turn.

    Attributes:
        name: of the outermost object; each object of the chain has this name with its number behind.
        chain: how they are made, the innermost first.
        texts: the file with the number.
    """

    name: str
    chain: list[Block]
    texts: dict[str, str]

    def setup(self) -> str:
        """Return the statements that make the objects."""
        made = f"with open(os.path.join(HERE, '{self.name}.json')) as file: V_{self.name} = json.load(file)\n"
        held = f"V_{self.name}"
        for number, block in enumerate(self.chain):
            statements = re.sub(r"\bV\b", held, block.statements)
            held = f"{self.name}_{number}"
            made += re.sub(r"(?<![A-Za-z])N\b", held, statements)
        return f"{made}{self.name} = {held}"

    def read(self, holder: str) -> str:
        """Return an expression that has the number from an expression that has the outermost object."""
        for number, block in reversed(list(enumerate(self.chain))):
            read = re.sub(r"(?<![A-Za-z_'])N\b", f"({holder})".replace("\\", r"\\"), block.read)
            holder = re.sub(r"(?<=[_'])N\b", f"{self.name}_{number}", read)  # within names and in quotes
        return holder

    def may_be_refused(self) -> bool:
        setup = self.setup()
        copies_generator = "deepcopy(" in self.read("") and "np.random" in setup  # numpy makes a new one from entropy
        return copies_generator or any(each in setup for each in COMPARED + REFUSED)


def carry(chance: random.Random, name: str) -> Carried:
    """Return a number that random objects hold."""
    depth = chance.choice([0, 1, 1, 2, 2, 3])
    chain = [chance.choice(blocks("carried.txt")), *(chance.choice(blocks("carriers.txt")) for _ in range(depth))]
    return Carried(f"{name}_carried", chain, {f"{name}_carried.json": changing(chance)})


def carried(chance: random.Random, name: str) -> Step:
    """A number from a file, which the function reads from an object that it names."""
    made = carry(chance, name)
    read = made.read(made.name)
    step = chance.choice([f"x = x * jnp.float32({read})", f"x = x * ({read})"])
    return Step(step, made.setup(), made.texts, may_be_refused=made.may_be_refused())


def given(chance: random.Random, name: str) -> Form:
    """A function that is given an object, which is a static argument of `jit`."""
    made = carry(chance, name)
    head, read = f"def f_{name}(x, given):\n", made.read("given")
    call = f"return entry(f_{name}, static_argnums=1)({ARRAY}, {made.name})"
    return Form(head, f"x * ({read})", call, " " * 4, made.setup(), made.texts, made.may_be_refused())


def receiver(chance: random.Random, name: str) -> Form:
    """A method of an instance, one of whose attributes is an object."""
    made = carry(chance, name)
    head = f"class Model_{name}:\n    def __init__(self, k):\n        self.k = k\n    def act(self, x):\n"
    call = f"return entry(Model_{name}({made.name}).act)({ARRAY})"
    return Form(head, f"x * ({made.read('self.k')})", call, " " * 8, made.setup(), made.texts, made.may_be_refused())
