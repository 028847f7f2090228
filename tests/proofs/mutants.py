"""Plausible mistakes, planted one at a time in a copy of the package: a test must catch each of them.

    python -m tests.proofs.mutants            all of them
    python -m tests.proofs.mutants 3 17       the third and the seventeenth

For each one the tests run that are named with it, and, if they all pass, the whole first tier; the test that fails is
run again without the mistake, where it has to pass. Prints a table; the exit code is 1 if one was not caught.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
PACKAGE: Final = REPOSITORY / "src" / "jcache"
TIERS: Final = (("not full and not jax", 300.0), ("not full", 1800.0))  # seconds; tests that do not end have failed
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake.

    Attributes:
        module: path of the file in the package.
        original: text that occurs there once.
        mutated: text that replaces it.
        wrong: sentence on the effect.
        tests: names of the tests' files that should catch it.
    """

    module: str
    original: str
    mutated: str
    wrong: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """The module's text with the mistake in it."""
        if text.count(self.original) != 1:
            raise ValueError(f"{self.module}: {self.original!r} is there {text.count(self.original)} times, not once")
        return text.replace(self.original, self.mutated)


MUTANTS: Final = (
    Mutant(
        "store/store.py",
        "        with suppress(OSError):  # a read-only root serves",
        "        if self.max_bytes is not None:  # a read-only root serves",
        "A hit in an unbounded store is not a use.",
        ("store/test_store",),
    ),
    Mutant(
        "store/entry_writer.py",
        "        if is_there(key + ENTRY_SUFFIX, directory):\n            return Outcome.PRESENT\n        occupancy",
        "        occupancy",
        "An entry that came while the put waited for the lock is overwritten.",
        ("store/test_entry_writer",),
    ),
    Mutant(
        "store/evictor.py",
        "{key for of, key in self._pins or () if of is kind}",
        "{key for of, key in self._pins or () if of is not kind}",
        "A bounded put evicts pinned entries.",
        ("store/test_evictor",),
    ),
    Mutant(
        "store/evictor.py",
        "                    self._queue.forget(kind, entry.key)\n",
        "",
        "The ledger keeps the digest of an entry that was evicted.",
        ("store/test_evictor",),
    ),
    Mutant(
        "store/entry_writer.py",
        "if self._rules.always_recency and not is_there(sidecar, directory):",
        "if self._rules.always_recency and is_there(sidecar, directory):",
        "An unbounded put leaves an entry without a sidecar if a bounded process evicts its predecessor in between.",
        ("store/test_entry_writer",),
    ),
    Mutant(
        "store/maintenance.py",
        "if entry.created_ns < settled_ns and ",
        "if ",
        "The digest of an entry that is still being written is recorded.",
        ("store/test_maintenance",),
    ),
    Mutant(
        "store/maintenance.py",
        "for kind in (Kind.TRACES, Kind.EXECUTABLES, Kind.GRAPHS)",
        "for kind in (Kind.EXECUTABLES, Kind.TRACES, Kind.GRAPHS)",
        "Executables go before the traces that need them.",
        ("store/test_maintenance",),
    ),
    Mutant(
        "store/sidecar.py",
        "IN_PLACE | os.O_EXCL, 0o666",
        "IN_PLACE, 0o666",
        "Adopting overwrites the sidecar that JAX has made meanwhile.",
        ("store/test_maintenance", "store/test_sidecar"),
    ),
    Mutant(
        "store/maintenance.py",
        "self._remove_in_batches(kind, removing(self._root, victims, removal, pins, plan.because))",
        "list(removing(self._root, victims, removal, pins, plan.because))",
        "A plan's victims are removed without the lock.",
        ("store/test_maintenance",),
    ),
    Mutant(
        "store/publishing.py",
        "                if arrival.replace:\n",
        "                if arrival.replace and always:\n",
        "An entry that an import replaces is lost instead of kept in quarantine.",
        ("shipping/importer/test_archive_import",),
    ),
    Mutant(
        "store/publishing.py",
        "if always and (arrival.replace or not is_there(entry, directory)):",
        "if always:",
        "An import that leaves the entry that is there sets back when that one was used.",
        ("shipping/importer/test_archive_import",),
    ),
    Mutant(
        "store/files.py",
        "                view = view[os.write(descriptor, view) :]\n",
        "                os.write(descriptor, view)\n                break\n",
        "A short write makes a torn entry.",
        ("store/test_files",),
    ),
    Mutant(
        "store/pending_file.py",
        " if replace else None  # no link",
        "  # no link",
        "An entry that arrives takes the place of one that came meanwhile.",
        ("shipping/importer/test_archive_import",),
    ),
    Mutant(
        "store/lru_index.py",
        "            if now > recency:",
        "            if now < recency:",
        "A hit by another process does not save an entry from eviction.",
        ("store/test_lru_index",),
    ),
    Mutant(
        "store/listing.py",
        "old is not None and old.names_final and old.changed_ns",
        "old is not None and old.changed_ns",
        "An entry that came within a tick of the clock after a look is never listed.",
        ("store/test_listing",),
    ),
    Mutant(
        "store/eviction_order.py",
        "        uses = self.recency\n",
        '        uses = array("q", (-time for time in self.recency))\n',
        "The most recently used entries go first.",
        ("store/test_eviction",),
    ),
    Mutant(
        "store/eviction.py",
        "oldest_ns is not None and table.used_ns(row) < oldest_ns",
        "oldest_ns is not None and table.used_ns(row) <= oldest_ns",
        "An entry goes as soon as it is as old as allowed.",
        ("store/test_eviction",),
    ),
    Mutant(
        "store/removal.py",
        "    size = files.remove(name, directory=directory)",
        "    files.remove(entry.key + SIDECAR_SUFFIX, directory=directory)\n"
        "    size = files.remove(name, directory=directory)",
        "The sidecar goes before its entry, which stops a bounded JAX.",
        ("store/test_removal",),
    ),
    Mutant(
        "store/removal.py",
        "(entry.kind, entry.key) in pins",
        "entry.key in pins",
        "An entry that was pinned after the plan was made goes.",
        ("store/test_removal",),
    ),
    Mutant(
        "formats/executable.py",
        'compress(seconds.to_bytes(4, "big") + executable, codec)',
        "compress(executable, codec)",
        "JAX takes the first bytes of the executable for seconds.",
        ("formats/test_executable",),
    ),
    Mutant(
        "formats/envelope.py",
        "_digest([stored]) != header.payload_sha256:",
        "len(header.payload_sha256) != 64:",
        "A trace whose payload has changed is taken for sound.",
        ("formats/test_envelope",),
    ),
    Mutant(
        "formats/compression.py",
        "max_output_size=size, allow_extra_data=False)\n        return _streamed",
        "max_output_size=size, allow_extra_data=True)\n        return _streamed",
        "Bytes behind an entry's end go unnoticed.",
        ("formats/test_executable",),
    ),
    Mutant(
        "store/ledger.py",
        "coalesce(excluded.{c}, {c})",
        "coalesce({c}, excluded.{c})",
        "The ledger keeps the digest of old bytes when new ones are recorded.",
        ("store/test_ledger",),
    ),
    Mutant(
        "store/ledger.py",
        "pinned_ns = coalesce(excluded.pinned_ns, pinned_ns)",
        "pinned_ns = excluded.pinned_ns",
        "A pin is lost as soon as something else is learnt of its entry.",
        ("store/test_ledger",),
    ),
    Mutant(
        "store/ledger.py",
        "hits = hits + excluded.hits",
        "hits = excluded.hits",
        "Hits of the last run count, those before do not.",
        ("store/test_ledger",),
    ),
    Mutant(
        "store/ledger_connection.py",
        "if not (anew and sqlite_connection.is_damaged(self._path, error)):",
        "if not anew:",
        "A ledger that is only busy is set aside, and its pins with it.",
        ("store/test_sqlite",),
    ),
    Mutant(
        "store/sqlite.py",
        'os.unlink(f"{path.name}-journal", dir_fd=directory)',
        "pass",
        "The journal of a damaged ledger is rolled back into the new one.",
        ("store/test_sqlite",),
    ),
    Mutant(
        "store/sqlite.py",
        "os.link(aside.name, path.name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)",
        "os.replace(aside.name, path.name, src_dir_fd=directory, dst_dir_fd=directory)",
        "A process that makes the ledger overwrites what another one has just written to it.",
        ("store/test_sqlite",),
    ),
    Mutant(
        "store/quarantine.py",
        "_transfer((name, directory), (record.id + _ENTRY, here), stays=stays)",
        "_transfer((name, directory), (record.id + _ENTRY, here), stays=False)",
        "An entry that is to be replaced is gone for a moment, or for ever if the process is killed then.",
        ("store/test_quarantine",),
    ),
    Mutant(
        "store/quarantine.py",
        "if os.lstat(name, dir_fd=directory).st_mtime_ns >= before_ns:",
        "if not os.lstat(name, dir_fd=directory):",
        "Temporary files that another process is writing are swept away.",
        ("store/test_quarantine",),
    ),
)


class Trial:
    """A copy of the package, and tests run with it.

    Args:
        source: package to copy.
        place: directory of the copy, which is made.
        mutant: mistake to plant in the copy; None for none.
    """

    def __init__(self, source: Path, place: Path, mutant: Mutant | None = None) -> None:
        self.package = place / "jcache"
        shutil.copytree(source, self.package)
        if mutant is not None:
            path = self.package / mutant.module
            path.write_text(mutant.planted(path.read_text()))
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()
        found = self._run([sys.executable, "-c", "import jcache; print(jcache.__file__)"], 60)[1].strip()
        if Path(found) != self.package / "__init__.py":
            raise RuntimeError(f"jcache is {found}, and not the copy")

    def failure(self, marks: str, limit: float, tests: Sequence[str], but: Sequence[str] = ()) -> str | None:
        """The first test that fails, some apart; None if all pass."""
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no", "-m", marks]
        place = f"--basetemp={self.package.parent / 'tests'}"
        command = [sys.executable, "-m", "pytest", *options, place, *(f"--deselect={test}" for test in but), *tests]
        code, output = self._run(command, limit)
        if code == 0:
            return None
        if failed := FAILED.search(output):
            return failed[1]
        if code > 0:
            raise RuntimeError(f"no test has failed, but pytest:\n{output}")
        return f"ended by signal {-code}"

    def _run(self, command: list[str], limit: float) -> tuple[int, str]:
        place = self.package.parent
        path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))
        more = {"PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis")}
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=os.environ | more, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as child:
            try:
                output, _ = child.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                output, _ = child.communicate()
        return child.returncode, output


def caught_by(mutant: Mutant, without: Trial, place: Path) -> str | None:
    """The test that fails with the mistake and passes without it, None if there is none."""
    mistaken = Trial(without.package, place, mutant)
    named = [f"tests/{name}.py" for name in mutant.tests]
    anyway: list[str] = []  # fails without the mistake as well
    for (marks, limit), tests in zip(TIERS, (named, ["tests"]), strict=False):
        while failed := mistaken.failure(marks, limit, tests, anyway):
            again = [failed] if failed.startswith("tests/") else tests
            if without.failure(marks, limit, again) is None:
                return failed
            print(f"     {failed} fails anyway", flush=True)
            if failed in anyway or again is tests:
                break
            anyway.append(failed)
    return None


def main() -> int:
    numbers = [int(text) for text in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    survived = 0
    with tempfile.TemporaryDirectory(prefix="jcache-mutants-") as place:
        without = Trial(PACKAGE, Path(place, "without"))
        for number in numbers:
            mutant = MUTANTS[number - 1]
            with tempfile.TemporaryDirectory(dir=place) as own:
                test = caught_by(mutant, without, Path(own, "mistaken"))
            survived += test is None
            print(f"{number:3}  {'SURVIVED' if test is None else 'caught  '}  {mutant.module}: {mutant.wrong}")
            print(f"     {test or ''}".rstrip(), flush=True)
    print(f"{len(numbers) - survived} of {len(numbers)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
