"""Random programs, each with one random mutation, and processes that run many of them at once.

A program is a module with a function of some steps (`tests/proofs/generated_steps.py`), in one of the forms of
`tests/proofs/generated_forms.py`, with its files, variables and arguments. Each step has places that can change,
`{{before||after}}` as in `tests/proofs/changes.py`; one of all is the mutation of the program. What changes in a batch
of programs is of one sort (their source, a module of theirs, a library, a file, the environment, the arguments), since
each sort is noticed in a way of its own.
"""

import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from jcache.package import PACKAGE
from tests.helpers.installations import Site
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment
from tests.proofs.changes import CHANGE, PACKAGES, RTLIB, write
from tests.proofs.generated_carriers import carried, given, receiver
from tests.proofs.generated_forms import FORMS, Form
from tests.proofs.generated_steps import STEPS, Step

SORTS: Final = ("source", "source", "module", "library", "file", "environment", "arguments")
BATCH: Final = 20
ALL_STEPS: Final = (*STEPS, *[carried] * 6)
ALL_FORMS: Final = (*FORMS, given, receiver)
UNCHANGED: Final = 0.2  # of the programs of a batch in its changed state
# Graphs are compared however long building takes: on a busy machine it may take the 10 s from which on they are not.
MAIN: Final = """import importlib, json, re, sys
with open("asked.json") as asked:  # before jcache, and so no part of the world, as `main.py` and its arguments are
    ASKED = json.load(asked)
import jax, numpy as np
import jcache
jcache.enable()
ENTRIES = {{
    "jit": jcache.jit, "graph": lambda function, **_: jcache.graph(check="first")(function),
    "jax.jit": jax.jit, "plain Python": lambda function, **_: function,
}}
def answer(module, entry):
    try:
        return repr(jax.tree_util.tree_map(lambda leaf: np.asarray(leaf).tolist(), module.call(ENTRIES[entry])))
    except RecursionError:  # its text depends on where the stack ended
        return "raised RecursionError"
    except Exception as error:
        told = f"raised {{type(error).__name__}}: {{error}}".partition("The error was:")[0]  # and a traceback
        return re.sub("0x[0-9a-fA-F]+", "", told)  # without addresses
def calls():
    told = jcache.stats()
    return [*told.traces.calls], [*told.graphs.calls]
told = []
for module in [importlib.import_module(name) for name in {modules}]:
    before = [len(each) for each in calls()]
    answers = {{entry: answer(module, entry) for entry in ("jit", "graph")}}
    new = [each[count:] for each, count in zip(calls(), before)]
    served = {{
        kind: [each.reason or each.outcome for each in of if each.outcome != "hit"] if of else ["not called"]
        for kind, of in zip(("jit", "graph"), new)
    }}
    told.append((module, answers, served))
for module, answers, served in told:  # what these read is no part of the worlds before
    answers |= {{entry: answer(module, entry) for entry in ASKED}}
    print(json.dumps([module.__name__, answers, served]))
"""
MODULE: Final = """import collections, dataclasses, enum, functools, json, operator, os, sys, types
import jax, jax.numpy as jnp, numpy as np, rtlib
HERE = os.path.dirname(os.path.abspath(__file__))
{setup}
{function}
def call(entry):
{call}
"""


class Mutation(NamedTuple):
    """The change of a program: which place in which of its texts.

    Attributes:
        text: the name of a file, or `environment NAME` or `argument NAME`.
        place: the number of the place in the text.
    """

    text: str
    place: int


@dataclass
class Program:
    """A random program.

    Attributes:
        name: the name of its module.
        texts: its texts, in which all places that can change are marked, by names as in `Mutation`.
        mutation: the place that changes, None if nothing does.
        may_be_refused: whether it is documented that the function may not be stored.
    """

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    mutation: Mutation | None = None
    may_be_refused: bool = False

    def rendered(self, is_changed: bool) -> dict[str, str]:
        """Return the texts before or after the change."""
        return {name: self._rendered(name, text, is_changed) for name, text in self.texts.items()}

    def _rendered(self, name: str, text: str, is_changed: bool) -> str:
        changed = self.mutation.place if is_changed and self.mutation and self.mutation.text == name else -1
        places = iter(range(text.count("{{")))
        return CHANGE.sub(lambda match: match[2] if next(places) == changed else match[1], text)

    def told(self) -> str:
        """Return the whole program, with its change alone marked."""
        before, after = self.rendered(False), self.rendered(True)
        parts = []
        for name, text in before.items():
            lines = zip(text.splitlines(), after[name].splitlines(), strict=False)
            marked = [one if one == other else f"{one}\n# ^ becomes ^\n{other}" for one, other in lines]
            parts.append(f"--- {name}\n" + "\n".join(marked))
        return "\n".join(parts)


def sort_of(name: str, of: str) -> str:
    """Return the sort of change that a change of a text is."""
    if name.startswith(("environment ", "argument ")):
        return "environment" if name.startswith("environment ") else "arguments"
    if name.startswith(PACKAGES):
        return "library"
    return "source" if name == f"{of}.py" else "module" if name.endswith(".py") else "file"


def program(chance: random.Random, name: str, sort: str) -> Program:
    """Return a program with a mutation of some sort."""
    while True:
        steps = [chance.choice(ALL_STEPS)(chance, f"{name}_{number}") for number in range(chance.randint(1, 4))]
        form = chance.choice(ALL_FORMS)(chance, name)
        made = Program(name, {f"{name}.py": _module(form, steps), **form.texts})
        made.may_be_refused = form.may_be_refused or any(step.may_be_refused for step in steps)
        for step in steps:
            made.texts |= step.texts
        places = [
            Mutation(text, place)
            for text, content in made.texts.items()
            if sort_of(text, name) == sort
            for place in range(len(CHANGE.findall(content)))
        ]
        if places:
            made.mutation = chance.choice(places) if chance.random() > UNCHANGED else None
            return made


def _module(form: Form, steps: list[Step]) -> str:
    lines = [line for step in steps for line in step.step.splitlines()]
    function = form.head + "".join(f"{form.indent}{line}\n" for line in lines) + f"{form.indent}return {form.result}"
    contexts = [step.context for step in steps if step.context]
    call = "".join(f"{'    ' * (depth + 1)}with {each}:\n" for depth, each in enumerate(contexts))
    margin = "    " * (len(contexts) + 1)
    call += "".join(f"{margin}{line}\n" for line in form.call.splitlines())
    return MODULE.format(setup="\n".join([*(step.setup for step in steps), form.setup]), function=function, call=call)


# -- processes


class Told(NamedTuple):
    """What a process prints of a program.

    Attributes:
        answers: by entries.
        unserved: for `jit` and `graph`, the reasons why calls were not served.
    """

    answers: Mapping[str, str]
    unserved: Mapping[str, list[str]]


class Batch:
    """Programs that run together, one process after the other.

    Args:
        chance: for what they are.
        sort: of their mutations.
        place: an empty directory.
        size: how many there are.
    """

    def __init__(self, chance: random.Random, sort: str, place: Path, size: int = BATCH) -> None:
        self.programs = [program(chance, f"case_{number}", sort) for number in range(size)]
        self.sort = sort
        self._place, self._site = place, Site(place)
        self._installed: dict[str, str] = {}
        self._install({"rtlib/__init__.py": RTLIB.read_text()})

    def run(self, is_changed: bool, *, compared: bool = True) -> dict[str, Told]:
        """Run all programs in a new process, before or after the change.

        Args:
            is_changed: in which state.
            compared: whether the answers without jcache are given as well.
        """
        texts = {name: text for each in self.programs for name, text in each.rendered(is_changed).items()}
        entries = ["jax.jit", "plain Python"] if compared else []
        modules = [each.name for each in self.programs]
        texts["main.py"] = MAIN.format(modules=modules)
        write(self._place / "asked.json", json.dumps(entries).encode())
        self._install({name.removeprefix(PACKAGES): text for name, text in texts.items() if name.startswith(PACKAGES)})
        variables = {name.split()[1]: text for name, text in texts.items() if name.startswith("environment ")}
        arguments = [f"{name.split()[1]}={text}" for name, text in texts.items() if name.startswith("argument ")]
        for name, text in texts.items():
            if not name.startswith((PACKAGES, "environment ", "argument ")):
                write(self._place / "programs" / name, text.encode())
        return dict(self._told(variables, arguments))

    def _told(self, variables: Mapping[str, str], arguments: list[str]) -> Iterator[tuple[str, Told]]:
        path = os.pathsep.join([str(self._site.packages), os.path.dirname(PACKAGE)])
        more = {"JCACHE_DIR": self._place / "root", "PYTHONPATH": path, **variables}
        command = [str(self._place / "programs" / "main.py"), *arguments]
        done = with_jax.run(command, environment=environment(more), cwd=self._place)
        assert done.returncode == 0, done.stderr + "\n".join(each.told() for each in self.programs)
        for line in done.stdout.splitlines():
            if line.startswith("["):
                name, answers, unserved = json.loads(line)
                yield name, Told(answers, unserved)

    def _install(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            if self._installed.get(name) != text:
                self._site.install(name.split("/")[0], {name: text}, local=False)
                self._installed[name] = text
