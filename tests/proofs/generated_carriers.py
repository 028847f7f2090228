"""A step of random programs: a value that is read from a file before the call, and held by one object in another."""

import random
import re
from functools import cache
from pathlib import Path
from typing import Final

from tests.proofs.generated_steps import Step, changing

# What the second start compares: all globals, and a cached property, which the first of two functions has filled.
COMPARED: Final = ("cached_property", "sys.modules", "import_module", "globals()")
DATA: Final = Path(__file__).parents[1] / "data" / "generated"


@cache
def blocks(name: str) -> list[tuple[str, str]]:
    """Return of each block of a data file the statements that make N from V, and the expression that reads V from N.

    The expression stands after ``>``. In `carried.txt` V is a number; in `carriers.txt` it is any object.
    """
    found = []
    for text in (DATA / name).read_text().split("\n\n"):
        statements, _, read = text.rpartition("\n> ")
        found.append((f"{statements}\n", read.strip()))
    return found


def carried(chance: random.Random, name: str) -> Step:
    """A number from a file, held by an object that up to three others hold in turn."""
    depth = chance.choice([0, 1, 1, 2, 2, 3])
    chain = [chance.choice(blocks("carried.txt")), *(chance.choice(blocks("carriers.txt")) for _ in range(depth))]
    setup = f"with open(os.path.join(HERE, '{name}_carried.json')) as file: V_{name} = json.load(file)\n"
    held = f"V_{name}"
    for number, (statements, _) in enumerate(chain):
        made = re.sub(r"\bV\b", held, statements)
        held = f"{name}_{number}"
        setup += re.sub(r"(?<![A-Za-z])N\b", held, made)
    for number, (_, read) in reversed(list(enumerate(chain))):
        holders = re.sub(r"(?<![A-Za-z_'])N\b", f"({held})".replace("\\", r"\\"), read)
        held = re.sub(r"(?<=[_'])N\b", f"{name}_{number}", holders)  # within names and in quotes
    step = chance.choice([f"x = x * jnp.float32({held})", f"x = x * ({held})"])
    may_be_refused = any(each in setup for each in COMPARED)
    return Step(step, setup, {f"{name}_carried.json": changing(chance)}, may_be_refused=may_be_refused)
