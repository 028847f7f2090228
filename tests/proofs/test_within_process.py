"""Objects that change within one process: a graph that reads their number from them is never served for another one."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.jax_programs import environment
from tests.proofs.changes import RTLIB
from tests.proofs.generated import MODULE
from tests.proofs.generated_carriers import Carried, blocks

pytestmark = pytest.mark.jax
PARTS = 4
_AT_ONCE = 20  # objects in one process, whose modules count in each call
NUMBERS = (2.0, 3.0, 2.0)
MAIN = """import importlib, json, pathlib
import jcache
{imports}
{decorated}
def arguments(kind, name):
    return (getattr(globals()[name], f"{{name}}_carried"),) if kind == "given" else ()
wrong = []
for name in {names}:
    module = globals()[name]
    for number in {numbers}:
        pathlib.Path(f"{{name}}_carried.json").write_text(str(number))
        for kind in ("named", "given"):
            try:
                expected = getattr(importlib.reload(module), kind)(*arguments(kind, name))
            except Exception:
                continue
            importlib.reload(module)  # some objects can be read once
            found = globals()[f"{{kind}}_{{name}}"](*arguments(kind, name))
            if repr(found) != repr(expected):
                wrong.append(f"{{name}} {{kind}}: {{found!r}} in place of {{expected!r}}")
print(json.dumps(wrong))
"""
DECORATED = """
@jcache.graph
def named_{name}(): return {name}.named()
@jcache.graph
def given_{name}(held): return {name}.given(held)
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_graph_is_stale_within_a_process(part: int, tmp_path: Path, chance: random.Random) -> None:
    """Each kind of object is made again with other numbers; the graph names it, or is given it as an argument."""
    (tmp_path / "rtlib").mkdir()
    (tmp_path / "rtlib" / "__init__.py").write_text(RTLIB.read_text())
    texts: dict[str, str] = {}
    for at, block in enumerate(blocks("carried.txt")):
        if at % PARTS == part:
            around = [chance.choice(blocks("carriers.txt")) for _ in range(chance.choice([0, 0, 1, 2]))]
            name = f"case_{at}"
            made = Carried(f"{name}_carried", [block, *around], {})
            reads = made.read(made.name), made.read("held")
            functions = "def named():\n    return {}\ndef given(held):\n    return {}".format(*reads)
            texts[name] = MODULE.format(setup=made.setup(), function=functions, call="    pass")
            (tmp_path / f"{name}.py").write_text(texts[name])
            (tmp_path / f"{name}_carried.json").write_text("1.0")
    wrong: list[str] = []
    for first in range(0, len(texts), _AT_ONCE):
        wrong += wrong_answers(tmp_path, list(texts)[first : first + _AT_ONCE])
    assert not wrong, "\n\n".join(f"{each}\n{texts[each.split()[0]]}" for each in wrong)


def wrong_answers(place: Path, names: list[str]) -> list[str]:
    """Return which graphs of one process had a wrong answer."""
    imports, decorated = f"import {', '.join(names)}", "".join(DECORATED.format(name=name) for name in names)
    program = place / f"main_{names[0]}.py"
    program.write_text(MAIN.format(imports=imports, decorated=decorated, names=names, numbers=NUMBERS))
    done = subprocess.run(
        [sys.executable, program.name], capture_output=True, text=True, cwd=place, check=False,
        env=environment({"JCACHE_DIR": place / "root"}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    wrong: list[str] = json.loads(done.stdout.splitlines()[-1])
    return wrong
