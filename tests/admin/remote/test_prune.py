"""A store is pruned by the plan that a root of the same entries would have; a million take little memory."""

import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from jcache import clock
from jcache.admin.filters import parse_filter
from jcache.admin.remote.listing import RemoteListing
from jcache.admin.remote.prune import execute_prune, plan_prune
from jcache.entry import Entry
from jcache.errors import InvalidValue, Locked
from jcache.layout import Kind
from jcache.remote.address import parse_address
from jcache.remote.client import Remote, open_remote
from jcache.remote.lease import holding
from jcache.remote.names import CLAIMS, claim_name, run_name
from jcache.remote.run_keys import read_run, write_run
from jcache.remote.transport import Fetched, Listed, ObjectHead, Pace
from jcache.remote.usage import batch_names, record_uses
from jcache.store.eviction import plan
from jcache.store.order import Order
from jcache.store.policy import Policy, Reason
from tests.helpers.entries import DAY, NOW, digits, key

SPACE = "0.10.2_cpu_cpu"


class SimulatedListing:
    """A store that lists so many objects, each of 1,000 bytes and a second younger than the one before."""

    keeps_metadata = True
    can_list = True

    def __init__(self, count: int) -> None:
        self.count = count
        self.removed = 0
        self.objects_by_name: dict[str, bytes] = {}

    def objects(self, prefix: str) -> Iterator[list[Listed]]:
        if prefix != "v1/executables/":
            return
        for start in range(0, self.count, 1000):
            yield [
                Listed(f"v1/executables/{SPACE}/jit_f-{number:064x}-cache", 1000, NOW + number * 10**9)
                for number in range(start, min(start + 1000, self.count))
            ]

    def get(self, name: str, pace: Pace | None = None) -> Fetched | None:
        return Fetched(self.objects_by_name[name], {}) if name in self.objects_by_name else None

    def start(self, name: str, size: int) -> bytes | None:
        return self.objects_by_name.get(name, b"")[:size]

    def head(self, name: str) -> ObjectHead | None:
        return None

    def put(self, name: str, data: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        self.objects_by_name[name] = data
        return True

    def delete(self, names: Iterable[str]) -> None:
        self.removed += sum(1 for _ in names)

    def close(self) -> None:
        pass


def filled(tmp_path: Path, count: int = 6) -> Remote:
    remote = open_remote(f"file://{tmp_path}/store")
    for number in range(count):
        remote.put(Kind.EXECUTABLES, SPACE, key(number), b"x" * 100)
    return remote


def kept(remote: Remote) -> set[str]:
    return {one.key for one in remote.list()}


@settings(max_examples=25)
@given(
    max_entries=st.none() | st.integers(0, 12),
    max_bytes=st.none() | st.integers(0, 1500),
    keep_last=st.none() | st.integers(0, 12),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=10),
)
def test_the_plan_is_that_of_a_root(
    tmp_path_factory: pytest.TempPathFactory,
    max_entries: int | None,
    max_bytes: int | None,
    keep_last: int | None,
    sizes: list[int],
) -> None:
    """For entries of any sizes and times, the plan is what `plan` makes of the same entries."""
    policy = Policy(max_entries=max_entries, max_bytes=max_bytes, keep_last=keep_last)
    if policy.empty:
        return
    remote = open_remote(f"file://{tmp_path_factory.mktemp('store')}")
    for number, size in enumerate(sizes):
        remote.put(Kind.TRACES, "", key(number), b"x" * size)
    now = clock.now_ns()
    record_uses(remote, {(Kind.TRACES, "", key(number)): now - number for number in range(0, len(sizes), 2)})
    planned = plan_prune(remote, policy, tuple(Kind), grace_ns=0).plan
    entries = [Entry(*entry) for entry in planned_entries(remote)]
    expected = plan(entries, policy, now_ns=now)
    assert [verdict.entry.key for verdict in planned.victims] == [verdict.entry.key for verdict in expected.victims]


def planned_entries(remote: Remote) -> list[Entry]:
    listing = RemoteListing.of(remote)
    listing.add_uses(remote)
    return list(listing)


def test_what_goes(tmp_path: Path) -> None:
    """The least recently used go, by the batches of uses, and the rest stays."""
    remote = filled(tmp_path)
    record_uses(remote, {(Kind.EXECUTABLES, SPACE, key(number)): clock.now_ns() + 1 for number in (0, 3)})
    planned = plan_prune(remote, Policy(max_entries=2), tuple(Kind), grace_ns=0)
    seen = list[tuple[int, int]]()
    execute_prune(remote, planned, lambda done, total: seen.append((done, total)))
    assert kept(remote) == {key(0), key(3)} and seen[-1] == (4, 4)
    again = plan_prune(remote, Policy(max_entries=2), tuple(Kind), grace_ns=0)
    assert len(again.plan.victims) == 0


def test_the_grace_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored a short time ago stays, with the reason, and goes once it is old enough."""
    remote = filled(tmp_path)
    planned = plan_prune(remote, Policy(max_entries=0), tuple(Kind))
    assert len(planned.plan.victims) == 0 and {reason for _, reason in planned.plan.kept} == {Reason.YOUNG}
    now = clock.now_ns()
    monkeypatch.setattr(clock, "now_ns", lambda: now + DAY)
    assert len(plan_prune(remote, Policy(max_entries=0), tuple(Kind)).plan.victims) == 6


def test_times_in_the_future(tmp_path: Path) -> None:
    """A store's clock that is a little ahead keeps young entries; a time that is far ahead keeps nothing for ever."""
    remote = open_remote(f"file://{tmp_path}/store")
    for number, ahead_ns in enumerate((DAY // 48, DAY * 400)):
        remote.put(Kind.TRACES, "", key(number), b"x")
        written_ns = clock.now_ns() + ahead_ns
        os.utime(tmp_path / "store" / "v1" / "traces" / f"{key(number)}-cache", ns=(written_ns, written_ns))
    planned = plan_prune(remote, Policy(max_entries=0), tuple(Kind))
    assert [verdict.entry.key for verdict in planned.plan.victims] == [key(1)]


def test_filters(tmp_path: Path) -> None:
    """A policy can be about some entries alone."""
    remote = filled(tmp_path)
    remote.put(Kind.EXECUTABLES, "0.9.0_cpu_cpu", key(50), b"x")
    planned = plan_prune(remote, Policy(max_entries=0), tuple(Kind), filters=[parse_filter("jaxlib<0.10")], grace_ns=0)
    assert [verdict.entry.key for verdict in planned.plan.victims] == [key(50)]


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(min_free_bytes=1), Policy(legacy=True), Policy(max_bytes=1, order=Order.COST)]
)
def test_limits_that_a_store_does_not_have(tmp_path: Path, policy: Policy) -> None:
    """They are refused in a sentence."""
    with pytest.raises(InvalidValue):
        plan_prune(filled(tmp_path), policy, tuple(Kind))


def test_one_at_a_time(tmp_path: Path) -> None:
    """While somebody prunes, another prune removes nothing."""
    remote = filled(tmp_path)
    planned = plan_prune(remote, Policy(max_entries=0), tuple(Kind), grace_ns=0)
    with holding(remote), pytest.raises(Locked):
        execute_prune(remote, planned)
    assert len(kept(remote)) == 6


def test_batches_are_merged(tmp_path: Path) -> None:
    """Many batches of uses become one, which tells the same."""
    remote = filled(tmp_path)
    for number in range(20):
        record_uses(remote, {(Kind.EXECUTABLES, SPACE, key(number % 6)): NOW + number})
    before = planned_entries(remote)
    execute_prune(remote, plan_prune(remote, Policy(max_entries=100), tuple(Kind), grace_ns=0))
    assert len(batch_names(remote)) == 1 and planned_entries(remote) == before


def test_what_commands_used_goes_when_nobody_pushes_it(tmp_path: Path) -> None:
    """What a command used goes if it was not pushed for three months, and stays otherwise."""
    remote = filled(tmp_path)
    for command in ("old", "new"):
        write_run(remote, [command], [key(1)])
    months_ago_s = time.time() - 91 * 24 * 3600
    os.utime(tmp_path / "store" / run_name(["old"]), (months_ago_s, months_ago_s))
    execute_prune(remote, plan_prune(remote, Policy(max_entries=100), tuple(Kind), grace_ns=0))
    assert read_run(remote, ["old"]) == () and read_run(remote, ["new"]) == (key(1),)


def test_old_claims_go(tmp_path: Path) -> None:
    """Claims of hosts that died more than a day ago go with the first prune, and later ones stay."""
    remote = filled(tmp_path)
    for number in (1, 2):
        remote.transport.put(claim_name(SPACE, key(number)), b"0" * 16 + b" 1", {}, replace=False)
    old = tmp_path / "store" / claim_name(SPACE, key(1))
    day_ago_s = time.time() - 25 * 3600
    os.utime(old, (day_ago_s, day_ago_s))
    execute_prune(remote, plan_prune(remote, Policy(max_entries=100), tuple(Kind), grace_ns=0))
    assert [one.name for some in remote.transport.objects(CLAIMS) for one in some] == [claim_name(SPACE, key(2))]
    assert len(kept(remote)) == 6


@pytest.mark.full
def test_a_million_objects(full: bool) -> None:
    """Listing and planning a prune over a million objects (a tenth in ordinary runs) takes a gigabyte at most."""
    count = 1_000_000 if full else 100_000
    store = SimulatedListing(count)
    remote = Remote(parse_address("s3://simulated"), store)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    planned = plan_prune(remote, Policy(max_entries=count // 10), tuple(Kind), grace_ns=0)
    seconds = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{seconds:.1f} s of CPU time, {grown / 1024:.0f} MiB more")
    assert len(planned.plan.victims) == count // 10 * 9 and grown < (1 << 20) * count // 1_000_000
    execute_prune(remote, planned)
    assert store.removed == count // 10 * 9 + 1 and digits(1)  # and the lease
