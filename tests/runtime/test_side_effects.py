"""The side effects of this process's calls are settled once: when a function is looked up that uses them."""

from collections.abc import Iterator

import pytest

from jcache.fingerprint import fingerprint
from jcache.fingerprint.side_effects import SideEffects
from jcache.runtime import side_effects

counted: list[int] = []


def using() -> int:
    return len(counted)


def adding() -> None:
    counted.append(1)


@pytest.fixture(autouse=True)
def _nothing_noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(side_effects, "_noted", [])
    yield
    counted.clear()


def test_a_call_whose_log_another_function_uses_is_refused() -> None:
    """Once, and not where the other function adds to the log as well."""
    refused = list[str]()
    side_effects.note(SideEffects(more=frozenset({"counted"})), refused.append)
    assert not side_effects.settle(fingerprint(adding).snapshot) and not refused
    for _ in range(2):
        assert not side_effects.settle(fingerprint(using).snapshot)
    assert refused == ["another function uses what it changes: `counted` changes, and is used for more"]


def test_what_a_served_call_has_missed_is_made_up_for() -> None:
    """Before the other function has its key; an error of the program's code changes nothing."""
    refused = list[str]()
    side_effects.note(SideEffects(more=frozenset({"counted"})), refused.append, adding)
    side_effects.note(SideEffects(more=frozenset({"counted"})), refused.append, lambda: 1 / 0)
    assert side_effects.settle(fingerprint(using).snapshot)
    assert counted == [1] and len(refused) == 2


def test_a_call_without_side_effects_is_not_noted() -> None:
    """Most calls have none."""
    side_effects.note(SideEffects(), lambda _: pytest.fail("refused"))
    assert not side_effects.settle(fingerprint(using).snapshot)
