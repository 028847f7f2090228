"""Which executables of a root load here, and what that says about them."""

import sys
from pathlib import Path

import pytest

from jcache.findings import Damage
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.checks import Claim
from jcache.verify.load_check import Loaded, Loading, load_sound
from tests.helpers.entries import add, digits, key
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture, h200_entry

KIND = Kind.EXECUTABLES


def claims(*keys: str) -> list[Claim]:
    return [Claim(KIND, a_key) for a_key in keys]


@pytest.mark.smoke
@pytest.mark.jax
def test_what_loads_here(plain: Root, cpu_entries: JaxEntries) -> None:
    """This machine's load; a GPU's are not loadable here, which is no damage; a changed one is not called sound."""
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
        loads = load_sound(store, claims(mine, other, key(3), key(4)), progress=watch)
    assert loads.verdicts[mine].loading is Loading.LOADS
    assert loads.verdicts[other].loading is Loading.ELSEWHERE and loads.verdicts[other].evidence
    assert loads.verdicts[key(3)].loading is not Loading.LOADS
    assert loads.count(Loading.LOADS) == 1 and key(4) not in loads.verdicts
    assert [path.name for path in seen] == [f"{a_key}-cache" for a_key in (mine, other, key(3))]


@pytest.mark.parametrize(
    ("loading", "writer", "damage"),
    [
        (Loading.LOADS, "0.9", None),
        (Loading.ELSEWHERE, "0.9", None),
        (Loading.REFUSED, "0.9", Damage.REFUSED),
        (Loading.REFUSED, "0.8", None),
        (Loading.REFUSED, None, None),
        (Loading.CRASHED, None, Damage.CRASHES),
        (Loading.CRASHED, "0.8", Damage.CRASHES),
        (Loading.TIMED_OUT, None, Damage.HANGS),
    ],
)
def test_what_is_damage(
    plain: Root, monkeypatch: pytest.MonkeyPatch, loading: Loading, writer: str | None, damage: Damage | None
) -> None:
    """What crashes or hangs is; what is refused only if the very jaxlib that wrote it refuses it."""
    path = add(plain.path, key(1), b"x")
    answer = Loaded(path, loading, "its words", "0.9")
    monkeypatch.setattr("jcache.verify.load_check.load", lambda paths, python, progress: [answer])
    with Store(plain) as store:
        store.ledger.record([Known(KIND, key(1), jaxlib=writer)])
        loads = load_sound(store, claims(key(1)))
    assert [finding.damage for finding in loads.findings] == ([] if damage is None else [damage])
    if loading is Loading.REFUSED and damage is None:
        assert loads.verdicts[key(1)].loading is Loading.ELSEWHERE
    for finding in loads.findings:
        assert finding.stamp is not None and finding.path == path and "its words" in finding.evidence


def test_only_executables_are_opened(plain: Root) -> None:
    """Traces and graphs are passed over; without any other no process is started."""
    add(plain.directory(Kind.TRACES), key(1), b"x")
    others = [Claim(Kind.TRACES, key(1)), Claim(KIND, key(3))]
    before = sys.modules.get("jax")
    with Store(plain) as store:
        assert load_sound(store, others).verdicts == {}
    assert sys.modules.get("jax") is before
