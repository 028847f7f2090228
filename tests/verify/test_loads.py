"""Which executables of a root load here, and which of the others are damaged."""

import sys
from pathlib import Path

import pytest

from jcache.findings import Damage
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.checks import Claim
from jcache.verify.load_check import LoadOutcome, LoadResult, check_loading
from tests.helpers.entries import add, digits, key
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture, h200_entry

KIND = Kind.EXECUTABLES


def claims(*keys: str) -> list[Claim]:
    return [Claim(KIND, a_key) for a_key in keys]


@pytest.mark.smoke
@pytest.mark.jax
def test_what_loads_here(plain: Root, cpu_entries: JaxEntries) -> None:
    """This machine's executables load; a GPU's cannot load here, which is no damage; a changed one is not
    called sound.
    """
    step, other = cpu_entries.path("jit_named_step"), f"jit_stage-{digits(1)}"
    mine = step.name.removesuffix("-cache")
    add(plain.path, mine, step.read_bytes())
    add(plain.path, other, h200_entry("jit_stage"))
    content = unpack_executable(step.read_bytes()).payload
    add(
        plain.path, key(3), pack_executable(content[: len(content) // 2], 1, unpack_executable(step.read_bytes()).codec)
    )
    seen: list[Path] = []

    def watch(paths: object) -> list[Path]:
        seen.extend(paths)  # type: ignore[arg-type]
        return seen

    with Store(plain) as store:
        loads = check_loading(store, claims(mine, other, key(3), key(4)), progress=watch)
    assert loads.results[mine].outcome is LoadOutcome.LOADS
    assert loads.results[other].outcome is LoadOutcome.ELSEWHERE and loads.results[other].evidence
    assert loads.results[key(3)].outcome is not LoadOutcome.LOADS
    assert loads.count(LoadOutcome.LOADS) == 1 and key(4) not in loads.results
    assert [path.name for path in seen] == [f"{a_key}-cache" for a_key in (mine, other, key(3))]


@pytest.mark.parametrize(
    ("loading", "writer", "damage"),
    [
        (LoadOutcome.LOADS, "0.9", None),
        (LoadOutcome.ELSEWHERE, "0.9", None),
        (LoadOutcome.REFUSED, "0.9", Damage.REFUSED),
        (LoadOutcome.REFUSED, "0.8", None),
        (LoadOutcome.REFUSED, None, None),
        (LoadOutcome.CRASHED, None, Damage.CRASHES),
        (LoadOutcome.CRASHED, "0.8", Damage.CRASHES),
        (LoadOutcome.TIMED_OUT, None, Damage.HANGS),
    ],
)
def test_what_is_damage(
    plain: Root, monkeypatch: pytest.MonkeyPatch, loading: LoadOutcome, writer: str | None, damage: Damage | None
) -> None:
    """Entries that crash or hang are damaged; refused ones only if the same version of jaxlib wrote them."""
    path = add(plain.path, key(1), b"x")
    answer = LoadResult(path, loading, "its words", "0.9")
    monkeypatch.setattr("jcache.verify.load_check.try_loading", lambda paths, python, progress: [answer])
    with Store(plain) as store:
        store.ledger.record([Known(KIND, key(1), jaxlib=writer)])
        loads = check_loading(store, claims(key(1)))
    assert [finding.damage for finding in loads.findings] == ([] if damage is None else [damage])
    if loading is LoadOutcome.REFUSED and damage is None:
        assert loads.results[key(1)].outcome is LoadOutcome.ELSEWHERE
    for finding in loads.findings:
        assert finding.stamp is not None and finding.path == path and "its words" in finding.evidence


def test_only_executables_are_opened(plain: Root) -> None:
    """Traces and graphs are passed over; without any other no process is started."""
    add(plain.directory(Kind.TRACES), key(1), b"x")
    others = [Claim(Kind.TRACES, key(1)), Claim(KIND, key(3))]
    before = sys.modules.get("jax")
    with Store(plain) as store:
        assert check_loading(store, others).results == {}
    assert sys.modules.get("jax") is before
