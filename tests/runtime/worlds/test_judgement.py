"""Whether an entry may be served in a world."""

import random

import pytest

from jcache.formats.envelope import read_header
from jcache.layout import Kind, Root
from jcache.runtime.worlds import judgement
from jcache.runtime.worlds.comparisons import Comparisons
from jcache.runtime.worlds.judgement import Check, Judgement, judge
from jcache.runtime.worlds.world import World
from tests.helpers.entries import key
from tests.helpers.imports import content

KEY, VARIANT = key(1, "mesh"), key(2, "mesh")
HEADER, OTHER = read_header(content(Kind.GRAPHS, KEY)), read_header(content(Kind.GRAPHS, VARIANT))
BASE = {"source a.py": "1", "distribution numpy": "1.0 aa", "arguments": "0"}


@pytest.fixture
def known(native: Root, monkeypatch: pytest.MonkeyPatch) -> Comparisons:
    """What is known of a call; no start is compared by chance."""
    monkeypatch.setattr(judgement, "_ONE_IN", 10**9)
    return Comparisons(native, Kind.GRAPHS)


def judged(known: Comparisons, check: Check = Check.FIRST, /, **changed: str) -> Judgement:
    """Return the judgement in a world with changed components; a name's blank is written as ``__``."""
    return judge(known, KEY, world(**changed), check)


def judged_in(known: Comparisons, changed: dict[str, str]) -> Judgement:
    """Return the judgement in a world with changed components."""
    return judge(known, KEY, World({**BASE, **changed}), Check.FIRST)


def world(**changed: str) -> World:
    """Return a world."""
    return World({**BASE, **{name.replace("__", " "): value for name, value in changed.items()}})


def test_an_entry_is_served_in_the_world_in_which_it_was_compared(known: Comparisons) -> None:
    """In no other, and with ``always`` in none; with ``never`` in every world."""
    assert not judged(known).may_serve
    known.add(KEY, HEADER, world())
    assert judged(known).may_serve and judged(known).is_of(HEADER) and not judged(known).is_of(OTHER)
    assert judged(known, Check.SAMPLE).may_serve and not judged(known, Check.ALWAYS).may_serve
    assert not judged(known, arguments="1").may_serve and judged(known, Check.NEVER, arguments="1").may_serve


def test_a_new_world_says_what_is_new(known: Comparisons) -> None:
    """Sources first, then distributions with their versions; compared with the nearest world."""
    known.add(KEY, HEADER, world(arguments="9"))
    known.add(KEY, HEADER, world())
    assert judged(known, arguments="1").new == "arguments changed"
    found = judged_in(known, {"arguments": "1", "distribution numpy": "1.1 bb", "source b.py": "1", "source a.py": "2"})
    assert found.new == "a.py changed, b.py is new, numpy 1.0 → 1.1 and 1 more"
    assert "made again and compared" in found.reason() and found.reason_now() == found.new
    assert Judgement().reason_now() == "it was not compared in this world"


def test_two_worlds_may_have_two_entries(known: Comparisons) -> None:
    """Each world has its own."""
    known.add(KEY, HEADER, world())
    known.add(KEY, OTHER, world(arguments="1"))
    assert judged(known).is_of(HEADER) and judged(known, arguments="1").is_of(OTHER)


def test_a_file_that_is_read_in_one_world_alone_differs_by_the_names_of_all(known: Comparisons) -> None:
    """Its own components say nothing then; of a file that both have, each setting does."""
    read = {"inputs": "a", "input a.cfg: (settings)": "0", "input a.cfg: rate": "1"}
    known.add(KEY, HEADER, World(BASE | read))
    assert judged_in(known, {**read, "input a.cfg: rate": "2"}).new == "a.cfg: rate changed"
    assert judged_in(known, {**read, "input b.cfg: (settings)": "0", "input b.cfg: rate": "2"}).may_serve
    assert judged_in(known, {**read, "inputs": "b", "input b.cfg": "0"}).new == "other files were read before"
    for value in "234":
        known.add(KEY, HEADER, World(BASE | read | {"input a.cfg: rate": value}))
    assert judged_in(known, {**read, "input a.cfg: rate": "5"}).may_serve
    assert judged_in(known, {**read, "input a.cfg: (settings)": "1"}).new == "a.cfg: (settings) changed"


def test_of_a_component_with_few_values_those_are_learnt_that_were_there(known: Comparisons) -> None:
    """After as many comparisons: of twenty that are on or off, each start has others."""
    for number in range(4):
        known.add(KEY, HEADER, world(environment__A=f"{number % 2}", environment__B=f"{number // 2}"))
        assert not judged(known, environment__A="2", environment__B="0").may_serve
    known.add(KEY, HEADER, world(environment__A="1", environment__B="0", environment__C="1"))
    assert judged(known, environment__A="0", environment__B="1", environment__C="1").may_serve
    assert not judged(known, environment__A="0", environment__B="2", environment__C="1").may_serve
    assert not judged(known, environment__A="0", environment__B="1", environment__C="2").may_serve


def test_what_is_learnt_holds_for_the_result_with_which_it_was_learnt(known: Comparisons) -> None:
    """A switch may give an effect to what had none before."""
    for number in range(5):
        known.add(KEY, HEADER, world(environment__RATE=f"{number}", environment__USES_RATE="0"))
    assert judged(known, environment__RATE="9", environment__USES_RATE="0").may_serve
    known.add(KEY, OTHER, world(environment__RATE="4", environment__USES_RATE="1"))
    assert judged(known, environment__RATE="4", environment__USES_RATE="1").is_of(OTHER)
    assert not judged(known, environment__RATE="9", environment__USES_RATE="1").may_serve
    assert judged(known, environment__RATE="9", environment__USES_RATE="0").may_serve


def test_a_new_setting_is_compared_however_often_others_were_new(known: Comparisons) -> None:
    """But for lines, and one more of a series, which the names of all settings tell."""
    read = {"inputs": "a", "input a.cfg: (settings)": "0", "input a.cfg: rate": "1", "input a.cfg: run1": "1"}
    for number in range(5):
        known.add(KEY, HEADER, World(BASE | read | {"input a.cfg: (settings)": f"{number}"}))
    assert judged_in(known, {**read, "input a.cfg: (settings)": "9"}).may_serve
    for name, may_serve in {"line 7": True, "line 7#2": True, "run2": True, "scale": False}.items():
        found = judged_in(known, {**read, "input a.cfg: (settings)": "9", f"input a.cfg: {name}": "1"})
        assert found.may_serve == may_serve, name
    del read["input a.cfg: rate"]
    assert judged_in(known, {**read, "input a.cfg: (settings)": "9"}).new == "a.cfg: rate is gone"


def test_what_is_learnt_holds_for_the_sources_with_which_it_was_learnt(known: Comparisons) -> None:
    """A changed source may use what had no effect before, even if the first program that it gives is the same."""
    for number in range(4):
        known.add(KEY, HEADER, world(arguments=f"{number}"))
    assert judged(known, arguments="9").may_serve
    changed = {"source a.py": "2"}
    known.add(KEY, HEADER, World(BASE | changed))
    assert judged_in(known, changed).may_serve and not judged_in(known, {**changed, "arguments": "9"}).may_serve
    assert judged_in(known, {**changed, "arguments": "9"}).reason_now() == "arguments changed"
    for number in range(1, 4):
        known.add(KEY, HEADER, World(BASE | changed | {"arguments": f"{number}"}))
    assert judged_in(known, {**changed, "arguments": "9"}).may_serve


def test_what_differs_thrice_without_effect_is_learnt(known: Comparisons) -> None:
    """After that it makes no world new; another component still does."""
    for number in range(4):
        assert not judged(known, arguments=f"{number}").may_serve
        known.add(KEY, HEADER, world(arguments=f"{number}"))
    assert judged(known, arguments="77").may_serve
    assert not judged(known, arguments="77", source__a__py="2").may_serve
    assert judged(known, arguments="77", source__a__py="2").new == "a py is new"


@pytest.mark.full
def test_some_starts_are_compared_all_the_same(known: Comparisons, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in 50 of those in a world that was never compared."""
    for number in range(4):
        known.add(KEY, HEADER, world(arguments=f"{number}"))
    monkeypatch.setattr(judgement, "_ONE_IN", 50)
    monkeypatch.setattr(judgement, "_chance", random.Random(1))
    due = sum(not judged(known, arguments="77").may_serve for _ in range(1_000))
    assert 5 <= due <= 45 and all(judged(known, arguments="3").may_serve for _ in range(100))


def test_sources_and_distributions_are_never_learnt(known: Comparisons) -> None:
    """Nobody knows which code ran."""
    for number in range(9):
        known.add(KEY, HEADER, world(**{"source__a.py": f"{number}", "distribution__numpy": f"1.0 {number}"}))
    assert not judged_in(known, {"source a.py": "77", "distribution numpy": "1.0 1"}).may_serve


def test_what_had_an_effect_once_is_not_learnt(known: Comparisons) -> None:
    """Two worlds with different entries must differ in something that counts."""
    for number in range(6):
        known.add(KEY, OTHER if number == 4 else HEADER, world(arguments=f"{number}"))
    assert not judged(known, arguments="77").may_serve


def test_values_that_no_code_names_are_learnt_at_once(known: Comparisons) -> None:
    """One comparison without effect is enough."""
    label = "loose attribute run_id of Trainer"
    for number in range(2):
        known.add(KEY, HEADER, World({**BASE, label: f"{number}"}))
    assert judged_in(known, {label: "77"}).may_serve
    assert judged_in(known, {label: "77", "source a.py": "2"}).new == "a.py changed"


def test_what_is_handed_to_functions_that_are_not_known_is_learnt_late(known: Comparisons) -> None:
    """Three comparisons without effect are needed for a field which these may show or compare."""
    label = "loose handed-on attribute run_id of Config"
    for number in range(4):
        assert not judged_in(known, {label: f"{number}"}).may_serve
        known.add(KEY, HEADER, World({**BASE, label: f"{number}"}))
    assert judged_in(known, {label: "77"}).may_serve


def test_what_code_may_read_of_a_module_is_learnt_by_its_parts(known: Comparisons) -> None:
    """A global that differs at each of four starts is learnt, and no other one of its module is."""
    of = "loose globals of model"
    for number in range(4):
        parts = {f"{of}: RUN": f"{number}", f"{of}: RATES.low": "1", f"{of}: (functions)": "1"}
        now = parts | {of: f"whole {number}", f"{of}: RATES": "1"}
        assert not judged_in(known, now).may_serve
        known.add(KEY, HEADER, World({**BASE, **now}))
    assert judged_in(known, {**now, of: "whole 5", f"{of}: RUN": "5"}).may_serve
    other = {**now, of: "whole 6", f"{of}: RATES": "2", f"{of}: RATES.low": "2", f"{of}: (functions)": "2"}
    assert judged_in(known, other).new == "globals of model: RATES.low changed"


def test_a_result_by_chance_is_compared_at_two_more_starts(known: Comparisons) -> None:
    """Then it is served; another result in the same world is refused for good."""
    assert Judgement().left_after(by_chance=True, same=False) == 2
    for left in (2, 1):
        known.add(KEY, HEADER, world(), left)
        found = judged(known)
        assert not found.may_serve and found.is_exact and f"{left} more starts" in found.reason()
        assert found.reason_now().startswith("it may be another in each process: this start compares it")
        assert found.left_after(by_chance=True, same=True) == left - 1
    known.add(KEY, HEADER, world(), 0)
    assert judged(known).may_serve
    known.refuse(KEY, world(), "line 3 differs")
    assert judged(known).refused == "line 3 differs" and judged(known, arguments="1").refused is None


def test_a_world_whose_components_are_gone_is_compared_again(known: Comparisons, native: Root) -> None:
    """It is known by its digest alone."""
    known.add(KEY, HEADER, world())
    for path in native.worlds.glob("world-*"):
        path.unlink()
    assert judged(known).may_serve and not judged(known, arguments="1").may_serve


def test_a_generator_without_a_seed_stores_only_a_few_results(known: Comparisons) -> None:
    """If its state is another one at each start and so is the result, nothing more is stored; a known state serves."""
    label = "loose state of the shared Random"
    for number in range(4):
        assert judged_in(known, {label: f"{number}"}).refused is None
        header = read_header(content(Kind.GRAPHS, key(number, "mesh")))
        known.add(KEY, header, World({**BASE, label: f"{number}"}))
    assert "seed it" in (judged_in(known, {label: "77"}).refused or "")
    assert judged_in(known, {label: "2"}).may_serve
    assert judged_in(known, {label: "77", "source a.py": "2"}).refused is None
