"""A value whose state is another one later is told by its name."""

from jcache.fingerprint.states import States


def states(**of: list[object]) -> States:
    made = States()
    for name, state in of.items():
        made.add(VALUES[name], name, state)
    return made


VALUES = {name: object() for name in ("lock", "queue")}


def test_a_state_that_has_changed_is_told() -> None:
    """By its parts: scalars by their values, anything else by identity, and by how many there are."""
    held: list[int] = []
    before = states(lock=[1, "a", held], queue=[held])
    assert before.changed(states(lock=[1, "a", held], queue=[held])) == set()
    assert before.changed(states(lock=[2, "a", held], queue=[held])) == {"lock"}
    assert before.changed(states(lock=[1.0, "a", held], queue=[[]])) == {"lock", "queue"}
    assert before.changed(states(lock=[1, "a", held, 2])) == {"lock"}


def test_names_and_addresses_find_one_another() -> None:
    """As the effects of a call are kept by names, and those of a process by addresses."""
    made = states(lock=[1], queue=[2])
    at = made.addresses({"queue", "other"})
    assert at == {id(VALUES["queue"])} and made.names(at) == {"queue"}
