"""The side effects of this process's calls are settled once: when a function is looked up that uses them."""

from collections import deque
from collections.abc import Iterator

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.side_effects import Changed
from jcache.runtime import side_effects

counted: list[int] = []


def using() -> int:
    return len(counted)


def adding() -> None:
    counted.append(1)


def changed() -> Changed:
    """What a call changes; it is undone."""
    before = fingerprint(adding)
    adding()
    assert changed_meanwhile(before, adding, (), {}) == []
    counted.clear()
    return before.snapshot.changed


@pytest.fixture(autouse=True)
def _nothing_noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(side_effects, "_noted", deque())
    yield
    counted.clear()


def test_a_call_whose_log_another_function_uses_is_refused() -> None:
    """Once, and not where the other function adds to the log as well."""
    refused = list[str]()
    side_effects.note(changed(), refused.append)
    assert not side_effects.settle(fingerprint(adding).snapshot) and not refused
    for _ in range(2):
        assert not side_effects.settle(fingerprint(using).snapshot)
    assert refused == ["another function uses what it changes: `counted` changes, and is used for more"]


def test_what_a_served_call_has_missed_is_made_up_for() -> None:
    """Before the other function has its key; an error of the program's code changes nothing."""
    refused = list[str]()
    side_effects.note(changed(), refused.append, adding)
    side_effects.note(changed(), refused.append, lambda: 1 / 0)
    assert side_effects.settle(fingerprint(using).snapshot)
    assert counted == [1] and len(refused) == 2


def test_a_call_without_side_effects_is_not_noted() -> None:
    """Most calls have none."""
    side_effects.note(fingerprint(using).snapshot.changed, lambda _: pytest.fail("refused"))
    assert not side_effects.settle(fingerprint(using).snapshot)


def test_a_function_that_has_no_key_may_use_all_that_others_change() -> None:
    """Such as one that reaches a generator; JAX traces it without a look-up."""
    refused = list[str]()
    steps = (each for each in range(3))
    side_effects.note(changed(), refused.append, adding)
    side_effects.settle_for(adding)
    assert not refused
    side_effects.settle_for(lambda: next(steps))
    assert counted == [1] and "has no key, may use it" in refused[0]
    side_effects.note(changed(), refused.append)
    side_effects.settle_for(using)
    assert len(refused) == 2
