"""Prune a store: the plan of a root's prune over its listing and its batches of uses, carried out under a lease.

An entry that was stored less than the grace age ago stays: whoever has stored it may be about to use it. So it does if
the store's clock is ahead by less than that; a time that is later is wrong, and keeps nothing. Removing an entry that
somebody reads is a miss for them, and nothing worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from jcache import clock
from jcache.admin.filters import Filter
from jcache.admin.remote.listing import RemoteListing
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.remote.client import Remote
from jcache.remote.lease import holding
from jcache.remote.names import CLAIMS, RUNS
from jcache.remote.usage import batch_names, read_batch, write_batch
from jcache.store.entries import batches
from jcache.store.eviction import plan
from jcache.store.links import exact_name
from jcache.store.order import Order
from jcache.store.policy import Plan, Policy, Reason

GRACE_NS: Final = 3600 * 1_000_000_000
_CLAIM_NS: Final = 24 * 3600 * 1_000_000_000
_RUN_NS: Final = 90 * 24 * 3600 * 1_000_000_000
_AT_ONCE: Final = 1000
_MERGED_FROM: Final = 16  # batches of uses


class PrunePlan(NamedTuple):
    """What a prune removes from a store.

    Attributes:
        listing: all entries.
        plan: which go, which stay, and why.
        batches: number of batches of uses.
    """

    listing: RemoteListing
    plan: Plan
    batches: int


def plan_prune(
    remote: Remote,
    policy: Policy,
    kinds: Sequence[Kind],
    *,
    filters: Sequence[Filter] = (),
    grace_ns: int = GRACE_NS,
) -> PrunePlan:
    """Return what a policy removes from a store; change nothing.

    Args:
        remote: the store.
        policy: what to keep to.
        kinds: kinds of the entries that the policy applies to.
        filters: that the entries satisfy which the policy is about.
        grace_ns: entries that were stored less than this ago stay.

    Raises:
        InvalidValue: the policy has no limit, or one that is not about a store; or the store cannot list.
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    _check(policy)
    listing = RemoteListing.of(remote, kinds)
    number = listing.add_uses(remote)
    now_ns = clock.now_ns()
    listing.pinned = listing.written_between(now_ns - grace_ns, now_ns + grace_ns)
    only = {exact_name(listing[row]) for row in listing.matching(filters)} if filters else None
    made = plan(listing, policy, now_ns=now_ns, kinds=kinds, only=only)
    for at, row in enumerate(made.kept.rows):
        if row in listing.pinned:
            made.kept.change(at, Reason.YOUNG)
    return PrunePlan(listing, made, number)


def _check(policy: Policy) -> None:
    if policy.empty:
        raise InvalidValue(
            "prune needs to know what to remove from a store: give --max-size, --max-entries, --older-than or"
            " --keep-last; configured limits hold for directories only."
        )
    if policy.min_free_bytes is not None:
        raise InvalidValue("--min-free needs a disk, and a store does not report its free space: give --max-size.")
    if policy.legacy:
        raise InvalidValue("--legacy finds nothing in a store, which never has entries of jax <= 0.4.30: leave it out.")
    if policy.order is Order.COST:
        raise InvalidValue("--order cost needs build seconds, which a store does not list: give --order lru.")


def execute_prune(
    remote: Remote, planned: PrunePlan, progress: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Remove the victims of a plan and old claims, under the store's lease, and merge the batches of uses.

    Args:
        remote: the store.
        planned: the plan.
        progress: called with the number of entries that are removed so far, and with all.

    Raises:
        Locked: somebody else prunes the store now.
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    rows, done = planned.plan.victims.rows, 0
    with holding(remote) as lease:
        for some in batches(rows, _AT_ONCE):
            lease.renew()
            remote.delete(map(planned.listing.place, some))
            done += len(some)
            progress(done, len(rows))
        if planned.batches >= _MERGED_FROM:
            _merge_uses(remote)
        _remove_old_advice(remote)


def _merge_uses(remote: Remote) -> None:
    """Store one batch in place of all: first it, then without the others, so that no use is lost."""
    names = batch_names(remote)
    latest: dict[str, int] = {}
    for name in names:
        for short, used_ns in read_batch(remote, name):
            latest[short] = max(used_ns, latest.get(short, 0))
    if latest:
        write_batch(remote, (f"{short} {used_ns}\n" for short, used_ns in latest.items()), clock.now_ns())
    remote.transport.delete(names)


def _remove_old_advice(remote: Remote) -> None:
    """Remove claims of hosts that have died, and what commands used that nobody has pushed for long.

    A host that compiles renews its claim, and a push what its commands used.
    """
    for prefix, age_ns in ((CLAIMS, _CLAIM_NS), (RUNS, _RUN_NS)):
        before_ns = clock.now_ns() - age_ns
        old = [one.name for some in remote.transport.objects(prefix) for one in some if one.written_ns < before_ns]
        if old:
            remote.transport.delete(old)
