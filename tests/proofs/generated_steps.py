"""Steps of random programs: each changes `x` by something that can be otherwise in the next process."""

import itertools
import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.proofs.changes import PACKAGES


class Step(NamedTuple):
    """A step of a function.

    Attributes:
        step: statements that change `x`.
        setup: what the module has for it.
        texts: further texts of the program, by names as in `generated.Mutation`.
        context: a context manager in which the function is called.
        may_be_refused: whether it is documented that a function with this step may not be served at its second start.
    """

    step: str
    setup: str = ""
    texts: Mapping[str, str] = {}
    context: str = ""
    may_be_refused: bool = False


Maker = Callable[[random.Random, str], Step]
NUMBERS: Final = ("0.5", "1.5", "2.0", "2.5", "3.0", "-1.0", "4")
DATA: Final = Path(__file__).parents[1] / "data" / "generated" / "steps.txt"


def changing(chance: random.Random) -> str:
    """Return a number that can become another one."""
    before, after = chance.sample(NUMBERS, 2)
    return f"{{{{{before}||{after}}}}}"


def filled(chance: random.Random, text: str, name: str) -> str:
    """Return a text in which N is a name, and each P a number that can change."""
    return re.sub(r"\bP\b", lambda _: changing(chance), re.sub(r"(?<![A-Za-z])N\b", name, text))


@cache
def plain_steps() -> list[tuple[str, str]]:
    """Return the setup and the statements of each step of `tests/data/generated/steps.txt`, where lines after ``>``
    are those of the function.
    """
    found = []
    for text in DATA.read_text().split("\n\n"):
        lines = text.strip("\n").splitlines()
        statements = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
        found.append(("\n".join(line for line in lines if not line.startswith("> ")), "\n".join(statements)))
    return found


def plain(chance: random.Random, name: str) -> Step:
    """A step that is only source."""
    setup, statements = chance.choice(plain_steps())
    may_be_refused = _is_compared(setup + statements)
    return Step(filled(chance, statements, name), filled(chance, setup, name), may_be_refused=may_be_refused)


def _is_compared(text: str) -> bool:
    """Return whether a step's second start compares, because it reaches a clock or all that this process has."""
    return "time.time()" in text or "sys.modules" in text


def from_file(chance: random.Random, name: str) -> Step:
    """A plain step whose numbers are read from a file before the call, so that no source shows their change."""
    setup, statements = chance.choice([each for each in plain_steps() if _has_numbers("\n".join(each))])
    numbers = itertools.count()
    parts = [re.sub(r"\bP\b", lambda _: f"D_{name}[{next(numbers)}]", part) for part in (setup, statements)]
    data = ", ".join(changing(chance) for _ in range(next(numbers)))
    read = f"with open(os.path.join(HERE, '{name}_data.json')) as file: D_{name} = json.load(file)\n"
    made = filled(chance, parts[1], name), read + filled(chance, parts[0], name)
    return Step(*made, {f"{name}_data.json": f"[{data}]"}, may_be_refused=_is_compared(setup + statements))


def _has_numbers(text: str) -> bool:
    """Return whether a plain step has numbers outside of quotes, which no library keeps."""
    quoted = re.findall(r"'[^'\n]*'", text)
    return "rtlib" not in text and re.search(r"\bP\b", text) is not None and not re.search(r"\bP\b", " ".join(quoted))


def module(chance: random.Random, name: str) -> Step:
    """A function of another module, of which the step has the name or the module itself."""
    own = f"{name}_own"
    texts = {f"{own}.py": f"RATE = {changing(chance)}\ndef act(x): return x * RATE + {changing(chance)}\n"}
    if chance.random() < 0.3:
        texts = {f"{own}.py": f"from {own}_too import *\n", f"{own}_too.py": texts[f"{own}.py"]}
    if chance.random() < 0.5:
        return Step(f"x = act_{name}(x)", f"from {own} import act as act_{name}", texts)
    return Step(f"x = {own}.act(x)", f"import {own}", texts)


def registering(chance: random.Random, name: str) -> Step:
    """A module that does something to a library when it is imported."""
    own = f"{name}_plugin"
    done = chance.choice(["rtlib.register('N', lambda x: x * P)", "rtlib.config.extra['N'] = P", "rtlib.extra_N = P"])
    step = {"reg": "x = rtlib.apply('N', x)", "con": "x = x * rtlib.config.extra['N']", "ext": "x = x * rtlib.extra_N"}
    texts = {f"{own}.py": "import rtlib\n" + filled(chance, done, name)}
    return Step(filled(chance, step[done[6:9]], name), f"import {own}", texts)


def library(chance: random.Random, name: str) -> Step:
    """A function of an installed library, whose version stays the same."""
    package = f"lib_{name}"
    text = f"RATE = {changing(chance)}\ndef act(x): return x * RATE\n"
    return Step(f"x = {package}.act(x)", f"import {package}", {f"{PACKAGES}{package}/__init__.py": text})


def file(chance: random.Random, name: str) -> Step:
    """A file that is read, in the function or before."""
    path = f"os.path.join(HERE, '{name}.json')"
    if chance.random() < 0.3:
        setup = f"with open({path}) as file: C_{name} = json.load(file)"
        return Step(f"x = x * C_{name}['a']", setup, {f"{name}.json": f'{{"a": {changing(chance)}}}'})
    read = chance.choice([
        f"with open({path}) as file: x = x * json.load(file)['a']",
        f"with open({path}, 'r+') as file: x = x * json.load(file)['a']",
        f"import pathlib\nx = x * json.loads(pathlib.Path({path}).read_text())['a']",
        f"d = os.open({path}, os.O_RDONLY)\nx = x * json.loads(os.read(d, 99))['a']\nos.close(d)",
        f"with ThreadPoolExecutor(1) as pool: x = x * pool.submit(read_{name}).result()",
        f"x = x * os.path.getsize({path})",
    ])  # fmt: skip
    before, after = chance.choice([("2.0", "3.5"), ("1", "2.25"), ("7", "15")])
    changed = f"{{{{{before}||{after}}}}}" if "getsize" not in read else "{{1||1.25}}"
    setup = _reader(name) if "ThreadPool" in read else ""
    return Step(read, setup, {f"{name}.json": f'{{"a": {changed}}}'})


def _reader(name: str) -> str:
    return (
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"def read_{name}():\n    with open(os.path.join(HERE, '{name}.json')) as file: return json.load(file)['a']"
    )


def cached_file(chance: random.Random, name: str) -> Step:
    """A file that is read within what is cached in the process, perhaps before the function is called."""
    is_filled = chance.random() < 0.5
    setup, texts = _reader(name), {f"{name}.json": f'{{"a": {changing(chance)}}}'}
    if chance.random() < 0.5:
        setup += f"\n@jax.jit\ndef h_{name}(x): return x * read_{name}()"
        filled_before = f"\nh_{name}(jnp.arange(4, dtype=jnp.float32))"
        return Step(f"x = h_{name}(x)", setup + filled_before * is_filled, texts, "", is_filled)
    setup += f"\nread_{name} = functools.cache(read_{name})" + f"\nread_{name}()" * is_filled
    return Step(f"x = x * read_{name}()", setup, texts, "", is_filled)


def variable(chance: random.Random, name: str) -> Step:
    """An environment variable, read in the function or before, by a constant or a name that is made."""
    own = f"RATE_{name.upper()}"
    made = chance.choice([f"'{own}'", f"'RATE_' + '{name}'.upper()"])
    read = chance.choice([f"float(os.environ[{made}])", f"float(os.getenv({made}, '1'))", f"rtlib.env_rate({made})"])
    texts = {f"environment {own}": changing(chance)}
    if chance.random() < 0.4:
        return Step(f"x = x * R_{name}", f"R_{name} = {read}", texts)
    return Step(f"x = x * {read}", "", texts)


def argument(chance: random.Random, name: str) -> Step:
    """An argument of the command line, read in the function or before."""
    own = f"--{name}"
    read = f"float(next(each for each in sys.argv if each.startswith('{own}=')).partition('=')[2])"
    texts = {f"argument {own}": changing(chance)}
    if chance.random() < 0.5:
        return Step(f"x = x * R_{name}", f"R_{name} = {read}", texts)
    return Step(f"x = x * {read}", "", texts)


def context(chance: random.Random, name: str) -> Step:
    """An option of JAX that is in effect while the function is called."""
    return chance.choice([
        Step("x = x * len(str(jax.config.jax_default_matmul_precision))", "", {},
             "jax.default_matmul_precision('{{float32||bfloat16_3x}}')"),
        Step("x = x * jnp.asarray(1.0 / 3.0).astype(jnp.float32)", "", {}, "jax.enable_x64({{False||True}})"),
        Step("x = x * (2.0 if jax.config.jax_numpy_rank_promotion == 'allow' else 3.0)", "", {},
             "jax.numpy_rank_promotion('{{allow||raise}}')"),
        Step("", "", {}, "jax.named_scope('{{a||b}}')"),
    ])  # fmt: skip


STEPS: Final[tuple[Maker, ...]] = (
    *[plain] * 10, from_file, from_file, module, module, registering, library, file, file, cached_file, variable,
    variable, argument, context,
)  # fmt: skip
