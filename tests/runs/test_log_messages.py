"""JAX's log messages give the key, the outcome and the reason of each executable."""

import json
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.log_messages import ABSENT_IN_ANOTHER, PRESENT
from tests.helpers.reports import collect
from tests.runs.test_report import START, TOOK, WRITING, counts, damaged, end, event, hit, log, refused, report, stored

ABSENT = {"e": "absent", "t": 1, "th": 1, "key": "f-1"}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([*stored(1, "f-1", 1)[:3], log(2, WRITING, "f", "f-1", present=True), event(2, "cache_misses")],
         "an entry with this key was there already"),
        ([*stored(1, "f-1", 1)[:2], log(2, "Not writing persistent cache entry since process_id != 0")],
         "only process 0 writes"),
        ([*stored(1, "f-1", 1)[:5], log(2, "Cache value for key 'f-1' of size 9 bytes exceeds the maximum cache size")],
         "larger than the cache may grow"),
        ([*stored(1, "f-1", 1)[:5], refused(2, "f-1", "full")], "full"),
        ([*stored(1, "f-1", 1)[:2], refused(2, "f-1", "full")], "full"),
        ([stored(1, "f-1", 1)[0], ABSENT, *stored(1, "f-1", 1)[1:5], refused(2, "f-1", PRESENT)], ABSENT_IN_ANOTHER),
        ([stored(1, "f-1", 1)[0], ABSENT, *stored(1, "f-1", 1)[1:3], log(2, WRITING, "f", "f-1", present=True)],
         ABSENT_IN_ANOTHER),
        ([stored(1, "f-1", 1)[0], ABSENT, *stored(1, "f-1", 1)[1:5], refused(2, "f-1", "full")], "full"),
        (stored(1, "f-1", 1)[:2], "its compilation failed, or JAX gave no reason"),
    ],
)  # fmt: skip
def test_reasons(tmp_path: Path, lines: list[dict[str, Any]], reason: str) -> None:
    """Each way of not storing a program has its own reason."""
    found = report(tmp_path, *lines, end(3, 2))
    assert counts(found) == (0, 0, 1, 0)
    assert found.reasons == {"not_stored": {reason: 1}}


@pytest.mark.parametrize("announced", [False, True], ids=["jax 0.10", "jax 0.4.31"])
def test_key_that_cannot_be_made(tmp_path: Path, announced: bool) -> None:
    """Without a key there is no look-up: the program is a bypass, even if an old JAX announces a request first."""
    message = log(1, "compile_or_get_cached: unable to generate cache key, skipping the cache: %s", "BOOM")
    found = report(tmp_path, *[event(1, "compile_requests_use_cache")] * announced, message, end(2, 1))
    assert counts(found) == (0, 0, 0, 1)
    assert found.reasons == {"bypassed": {"no key could be made: BOOM": 1}}


def test_messages_that_jax_no_longer_writes(tmp_path: Path) -> None:
    """JAX's events alone give the right counts; keys and reasons are then unknown."""
    lines = [line for part in (hit(1, "f-1", 0, 0.1), stored(2, "g-1", 1)) for line in part if line["e"] != "log"]
    found = report(tmp_path, *lines, log(5, TOOK, "other arguments"))
    assert counts(found) == (1, 1, 0, 0)
    assert {program.key for program in found.programs} == {None}


def test_damage_that_is_raised_is_the_reason(tmp_path: Path) -> None:
    """Under jax_raise_persistent_cache_errors, damage ends the request: it is the reason why nothing was stored."""
    for number, last in enumerate(([], [end(2.0, 0.1)])):
        log_dir = tmp_path / str(number)
        log_dir.mkdir()
        lines = [START, event(1.0, "compile_requests_use_cache"), damaged(1.0, "jit_f-1", "changed"), *last]
        (log_dir / "1-a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        found = collect(log_dir, run_id="r", command=["x"], started_ns=0, seconds=0.0, exit_code=1)
        assert found.reasons == {"not_stored": {"the entry was damaged: changed": 1}}
