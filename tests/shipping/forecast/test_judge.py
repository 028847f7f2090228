"""Executables are judged by their keys and bodies alone, without JAX."""

import subprocess
import sys
from contextlib import closing

from jcache.layout import Kind, Root
from jcache.shipping.forecast.judge import judge, judge_root
from jcache.store.store import Store
from tests.helpers.entries import add, executable, key
from tests.helpers.forecasts import CPU, MACHINE, NEW, item, manifest
from tests.helpers.jax_entries import H200


def test_only_executables_are_judged() -> None:
    """Traces and graphs have no verdict, since they are served anywhere."""
    items = tuple(item(number, kind=kind) for number, kind in enumerate(Kind))
    announced = judge(manifest(CPU, items=items), MACHINE, NEW, {})
    assert list(announced.verdicts) == [next(one.key for one in items if one.kind is Kind.EXECUTABLES)]
    nothing = judge(manifest(items=()), MACHINE, NEW, {})
    assert nothing.sentences == () and nothing.verdicts == {}


def test_without_jax_or_numpy() -> None:
    """Judging a root imports neither JAX nor numpy."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom jcache.shipping.forecast.judge import judge_root\n"
        "from jcache.shipping.forecast.machine import this_machine\n"
        "from jcache.store.roots import open_root\nfrom jcache.store.store import Store\n"
        "print(*judge_root(Store(open_root(Path(sys.argv[1]))), this_machine({}), {}).sentences)\n"
        "assert not {'jax', 'jaxlib', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, H200], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 of 3 executables can hit here: they are made for cuda")


def test_damaged_entries_are_left_out(plain: Root) -> None:
    """Entries that cannot be read have no verdict."""
    add(plain.path, key(1), executable())
    add(plain.path, key(2), b"nonsense")
    with closing(Store(plain)) as store:
        assert set(judge_root(store, MACHINE, {}).verdicts) == {key(1)}
