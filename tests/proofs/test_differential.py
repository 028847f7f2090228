"""Random programs and random changes of them: `jcache.jit` and `jcache.graph` against `jax.jit` and plain Python."""

import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment
from tests.proofs.changes import RTLIB
from tests.proofs.generated import BATCH, MODULE, SORTS, Batch, Program
from tests.proofs.generated_carriers import Carried, blocks

pytestmark = [pytest.mark.jax, pytest.mark.whole]
PARTS = 10  # which several workers can run at once, or one session after the other
NOT_SERVED = "not served again"
FILES = ("carried", "carriers")
RIGHT = {"jit": "jax.jit", "graph": "plain Python"}
ASKED = """
import os, sys, types, warnings
import rtlib
from jcache.fingerprint import fingerprint
HERE = os.path.dirname(os.path.abspath(__file__))
warnings.simplefilter("ignore")
def take(given): return 0
for path in sys.argv[1:]:
    name = os.path.basename(path).removesuffix(".py")
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(open(path).read(), path, "exec"), vars(module))
    try:
        fingerprint(take, (vars(module)[f"{name}_carried"],), {})
        if any(label.startswith("globals of") for label in fingerprint(module.named, (), {}).loose):
            print(name, "compares all globals")
    except Exception as error:
        print(name, error)
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_answer_is_stale_and_no_program_is_refused(
    part: int, tmp_path: Path, chance: random.Random, full: bool
) -> None:
    """Of random programs none has a stale answer, neither when it starts again nor when something has changed; each
    is served when it starts again in a world that is as it was, unless it is documented that it may not be.
    """
    wrong: list[str] = []
    for number in range(part, (20_000 if full else 200) // BATCH, PARTS):
        batch = Batch(chance, SORTS[number % len(SORTS)], tmp_path / str(number))
        wrong += failures(batch, returns=full)
        shutil.rmtree(tmp_path / str(number))
    wrong.sort(key=lambda each: NOT_SERVED in each)
    refused = sum(NOT_SERVED in each for each in wrong)
    assert not wrong, "\n\n".join([f"{len(wrong) - refused} wrong answers, {refused} not served", *wrong])


def failures(batch: Batch, *, returns: bool = False) -> Iterator[str]:
    """Run a batch cold, again and changed, and yield each failure with its program.

    Args:
        batch: the programs.
        returns: whether they run as before the change once more.
    """
    cold, warm, changed = batch.run(False), batch.run(False, compared=False), batch.run(True)
    again = batch.run(False, compared=False) if returns else warm
    for each in batch.programs:
        starts = {"cold": (cold, cold), "warm": (warm, cold), "changed": (changed, changed), "again": (again, cold)}
        for kind, right in RIGHT.items():
            answers = {
                name: (told[each.name].answers[kind], wanted[each.name].answers[right])
                for name, (told, wanted) in starts.items()
            }
            is_kept = not each.may_be_refused and not answers["cold"][1].startswith("raised ")
            refused = warm[each.name].unserved[kind] if is_kept else []
            for failure in [*_stale(answers), *([f"{NOT_SERVED}: {refused}"] if refused else [])]:
                yield f"{batch.sort} {kind} {failure}\n{each.told()}"


def _stale(answers: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, (given, wanted) in answers.items():
        if given != wanted:
            yield f"{name}: {given} in place of {wanted}"


@pytest.mark.smoke
def test_programs_are_the_same_for_a_seed_and_change_once(tmp_path: Path) -> None:
    """A seed gives the same programs each time; each is valid Python in both states, which differ in one text."""
    for sort in dict.fromkeys(SORTS):
        one, other = (Batch(random.Random(5), sort, tmp_path / f"{sort}{n}").programs for n in range(2))
        assert one == other
        for each in one:
            assert len(_changed(each)) == (each.mutation is not None)


def test_each_object_has_a_key_as_an_argument(tmp_path: Path) -> None:
    """And is served at the second start, but for those that may be refused: else the test above fails by chance."""
    (tmp_path / "rtlib").mkdir()
    (tmp_path / "rtlib" / "__init__.py").write_text(RTLIB.read_text())
    (tmp_path / "main.py").write_text(ASKED)
    made = {f"{file}_{at}": [block] for file in FILES for at, block in enumerate(blocks(f"{file}.txt"))}
    may_be_refused = set()
    for name, chain in made.items():
        of = Carried(f"{name}_carried", chain, {})
        (tmp_path / f"{name}_carried.json").write_text("2.5")
        text = MODULE.format(setup=of.setup(), function=f"def named(): return {of.read(of.name)}", call="    pass")
        (tmp_path / f"{name}.py").write_text(text)
        may_be_refused |= {name} if of.may_be_refused() else set()
    paths = [str(tmp_path / f"{name}.py") for name in made]
    done = with_jax.run(["main.py", *paths], environment=environment({}), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.split()[0] not in may_be_refused]


@pytest.mark.smoke
@pytest.mark.parametrize("file", FILES)
def test_each_expression_of_a_carrier_reads_from_any_other(file: str) -> None:
    """Also from one that has both kinds of quotes, which no f-string may hold before Python 3.12."""
    for block in blocks(f"{file}.txt"):
        compile(Carried("N0", [block], {}).read("""(a['b'].c["d"])"""), block.read, "eval")


def _changed(program: Program) -> list[str]:
    before, after = program.rendered(False), program.rendered(True)
    for name in before:
        if name.endswith(".py"):
            compile(before[name], name, "exec")
            compile(after[name], name, "exec")
    return [name for name in before if before[name] != after[name]]
