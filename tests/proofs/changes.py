"""Programs in two states, and what the caches make of the change.

    python -m tests.proofs.changes                 every case, in a table
    python -m tests.proofs.changes NAME…           those with one of these words in their names, as `world/cwd_abspath`

The cases stand in `tests/data/changes/*.md`, each as a name, options and a program (as text, which no formatter
changes). `{{before||after}}` is what changes, `--- name` begins another file of the program. `entry` is `jcache.jit` or
`jcache.graph`, or `jax.jit` or nothing for the answer that is right; `show(f, ...)` prints what `f(...)` returns. What
lies below `site-packages` is installed as a distribution, as `rtlib` always is.

Options: `kinds` (of entry), and pairs of `cwd`, `env`, `argv` and `host`, before and after; `chance`: the answer is
another one at each start, so that nothing may be served; `same`: the change has no effect but on what is stored.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.package import PACKAGE
from tests.helpers.installations import Site
from tests.helpers.interpreters import LIMIT_S, with_jax
from tests.helpers.jax_programs import environment

DATA: Final = Path(__file__).parents[1] / "data" / "changes"
RTLIB: Final = Path(__file__).parents[1] / "programs" / "rtlib" / "__init__.py"
KINDS: Final = ("jit", "graph")
ENTRIES: Final = {("jit", True): "jcache.jit", ("graph", True): "jcache.graph", ("jit", False): "jax.jit"}
CASE: Final = re.compile(r"^\*\*(\w+)\*\*(?: · (\{[^\n]*\}))?\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGE: Final = re.compile(r"\{\{(.*?)\|\|(.*?)\}\}", re.DOTALL)
FILE: Final = re.compile(r"^--- (\S+)\n", re.MULTILINE)
PACKAGES: Final = "site-packages/"
CALLS: Final = "calls of the caches: "
HEAD: Final = """import jax, jax.numpy as jnp, numpy as np
{enable}
entry = {entry}
def show(f, *args, **kwargs):
    print(jax.tree_util.tree_map(lambda leaf: np.asarray(leaf).tolist(), f(*args, **kwargs)))
"""
ENABLE: Final = "import jcache; jcache.enable()"
TAIL: Final = f"""
import json, sys
told = jcache.stats()
made = [[each.outcome, each.reason] for each in (*told.traces.calls, *told.graphs.calls)]
print({CALLS!r} + json.dumps(made), file=sys.stderr)
"""


@dataclass(frozen=True)
class Case:
    """A program in two states.

    Attributes:
        name: name of the case.
        text: its files, with the changes in them.
        options: see the module.
        category: the name of the file in which it stands.
    """

    name: str
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)
    category: str = ""

    @property
    def kinds(self) -> Sequence[str]:
        return tuple(self.options.get("kinds", KINDS))

    def files(self, state: int) -> dict[str, str]:
        """Return the texts of the files by name, before (0) or after (1) the change."""
        parts = FILE.split(CHANGE.sub(lambda match: match[state + 1], self.text))
        return {"main.py": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}

    def option(self, name: str, state: int, otherwise: Any = None) -> Any:
        """Return one of the pair of values of an option."""
        return self.options[name][state] if name in self.options else otherwise


class Start(NamedTuple):
    """One start of a program.

    Attributes:
        printed: its stdout.
        calls: the outcome and reason of each call of the caches.
        error: the end of its stderr if it has failed, else "".
    """

    printed: str
    calls: list[tuple[str, str | None]]
    error: str

    @property
    def is_served(self) -> bool:
        return bool(self.calls) and all(outcome == "hit" for outcome, _ in self.calls)


class Outcome(NamedTuple):
    """What came of a case under one kind of entry.

    Attributes:
        name: of the case.
        kind: of the entry.
        stale: what was served in place of the right answer, "" if the answer was right.
        served: whether the second start, of the unchanged program, was served.
        reason: the reason why it was not.
        error: what is wrong with the case itself, or what the caches made fail; else "".
    """

    name: str
    kind: str
    stale: str = ""
    served: bool = False
    reason: str = ""
    error: str = ""


def cases(words: Sequence[str] = (), data: Path = DATA) -> list[Case]:
    """Return the cases of a directory with one of some words in their categories and names, all without words."""
    found = [case for path in sorted(data.glob("*.md")) for case in read(path.read_text(), path.stem)]
    return [case for case in found if not words or any(word in f"{case.category}/{case.name}" for word in words)]


def read(text: str, category: str = "") -> Iterator[Case]:
    for match in CASE.finditer(text):
        yield Case(match[1], match[3], ast.literal_eval(match[2] or "{}"), category)


# -- a program on the disk


def write(path: Path, data: bytes) -> None:
    """Write a file, but leave one that is the same as it is."""
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)


class Program:
    """A case in a directory of its own, under one kind of entry, with a root of its own.

    Args:
        case: which.
        kind: of the entry.
        place: an empty directory.
    """

    def __init__(self, case: Case, kind: str, place: Path) -> None:
        self.case, self.kind, self.place = case, kind, place
        self._directory, self._site = place / "program", Site(place)
        self._written: set[str] = set()
        self._installed: dict[str, dict[str, str]] = {}
        self._install({"rtlib/__init__.py": RTLIB.read_text()})

    def start(self, state: int, *, cached: bool = True) -> Start:
        """Run the program in a state, with the caches or without."""
        self._put(state, cached)
        done = self._run(state)
        lines = [line for line in done.stderr.splitlines() if line.startswith(CALLS)]
        calls = [(outcome, reason) for outcome, reason in json.loads(lines[-1].removeprefix(CALLS))] if lines else []
        return Start(done.stdout, calls, done.stderr[-2000:] or "failed" if done.returncode else "")

    def _put(self, state: int, cached: bool) -> None:
        files = self.case.files(state)
        head = HEAD.format(enable=ENABLE if cached else "", entry=ENTRIES.get((self.kind, cached), "lambda f: f"))
        files["main.py"] = head + files["main.py"] + (TAIL if cached else "")
        own = {name: text for name, text in files.items() if not name.startswith(PACKAGES)}
        self._install({name.removeprefix(PACKAGES): files[name] for name in files.keys() - own.keys()})
        for name in self._written - own.keys():
            (self._directory / name).unlink(missing_ok=True)
        self._written = set(own)
        for name, text in own.items():
            write(self._directory / name, text.encode())

    def _install(self, files: Mapping[str, str]) -> None:
        """Install a distribution for each package, but leave one that is the same as it is."""
        for top in {name.split("/")[0] for name in files}:
            of = {name: text for name, text in files.items() if name.split("/")[0] == top}
            if self._installed.get(top) != of:
                self._site.install(top, of, local=False)
                self._installed[top] = of

    def _run(self, state: int) -> "subprocess.CompletedProcess[str]":
        case = self.case
        cwd = self._directory / case.option("cwd", state, ".")
        cwd.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(self._site.packages), os.path.dirname(PACKAGE)])
        variables = {"JCACHE_DIR": self.place / "root", "PYTHONPATH": path}
        env = environment(variables | case.option("env", state, {}))
        command = [str(self._directory / "main.py"), *case.option("argv", state, [])]
        host = case.option("host", state)
        if host is None:
            return with_jax.run(command, environment=env, cwd=cwd)
        under = ["unshare", "-u", "sh", "-c", f'hostname {host} && exec "$0" "$@"', sys.executable]
        return subprocess.run(
            [*under, *command], env=env, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )


def tried(case: Case, kind: str, place: Path) -> Outcome:
    """Start a case cold, unchanged and changed, and compare the last answer with that of a start without caches."""
    program = Program(case, kind, place)
    cold = program.start(0)
    warm = program.start(0) if not cold.error else cold
    changed = program.start(1) if not warm.error else warm
    right = program.start(1, cached=False)
    outcome = Outcome(case.name, kind, served=warm.is_served, reason=_reason(warm))
    if error := right.error or cold.error or warm.error or changed.error:
        return outcome._replace(error=f"{'without caches: ' if right.error else ''}{error}")
    if case.options.get("chance"):
        served = [each.printed for each in (warm, changed) if each.is_served]
        return outcome._replace(stale=served[0] if served else "")
    if cold.printed == right.printed and not case.options.get("same"):
        return outcome._replace(error=f"the change has no effect: {right.printed}")
    if warm.printed != cold.printed:
        return outcome._replace(error=f"the second start gives {warm.printed}, the first {cold.printed}")
    return outcome._replace(stale=changed.printed if changed.printed != right.printed else "")


def _reason(start: Start) -> str:
    return "; ".join(dict.fromkeys(reason or outcome for outcome, reason in start.calls if outcome != "hit"))


def can_name_hosts() -> bool:
    """Return whether a process may have a host name of its own here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-u", "hostname", "a"], capture_output=True, check=False).returncode == 0


def runnable(named: Sequence[Case]) -> list[tuple[Case, str]]:
    """Return each case with each of its kinds, but those that cannot be run on this host."""
    hosts = can_name_hosts()
    return [(case, kind) for case in named if hosts or "host" not in case.options for kind in case.kinds]


def main() -> None:
    pairs = runnable(cases(sys.argv[1:]))
    for _ in range(2):
        with_jax.run(["-c", "pass"], environment=environment())  # starts a server, which threads may not do at once
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="jcache-changes-") as place, ThreadPoolExecutor(2) as pool:
        run = [pool.submit(tried, case, kind, Path(place, f"{case.name}-{kind}")) for case, kind in pairs]
        for (case, _), future in zip(pairs, run, strict=True):
            each = future.result()
            what = "error" if each.error else "stale" if each.stale else "right"
            counts[what] += 1
            counts["served at the second start"] += each.served
            told = each.error.strip()[-400:] or each.stale.strip() or ("" if each.served else each.reason)
            served = "warm" if each.served else "cold"
            print(f"{what:6} {served} {each.kind:6} {case.category}/{each.name}  {told}", flush=True)
    print(f"{len(pairs)} in all: {dict(counts)}")


if __name__ == "__main__":
    main()
