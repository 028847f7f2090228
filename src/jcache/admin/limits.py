"""Complete the policy of a `prune` with what is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from jcache.configuration.files import Configuration, configuration
from jcache.configuration.settings import LIMITS, Source
from jcache.errors import InvalidValue
from jcache.store.order import Order
from jcache.store.policy import Policy
from jcache.store.store import Store
from jcache.text import command

_FIELDS: Final = {"max_size": "max_bytes", "min_free": "min_free_bytes", "older_than": "max_age_ns"}  # of a `Policy`


def with_configured(
    policy: Policy, store: Store, root: str | os.PathLike[str] | None, environment: Mapping[str, str], *, xla: bool
) -> tuple[Policy, str]:
    """Complete a policy with what is configured: the order, what to keep, and the limits if it has none.

    Args:
        policy: what the arguments of `prune` ask for.
        store: store of the root.
        root: the argument ``root``, for hints.
        environment: environment of the process.
        xla: whether XLA's sub-caches go, so that no limit is needed.

    Returns:
        The policy, and a sentence on the configured limits; it is empty if none of them is used.

    Raises:
        InvalidValue: the policy has no limit and none is configured, or the configuration cannot be read.
    """
    found = configuration(store.root, environment)
    is_bare = policy.empty and not xla
    if is_bare and found.faults:
        raise InvalidValue(f"{' '.join(found.faults)} Give prune a limit, such as --max-size 20GiB.")
    store.notices.extend(found.faults)
    order = Order(found.value("order")) if policy.order is None else policy.order
    if policy.keep_last is not None or not (is_bare or policy.bounded):
        return replace(policy, order=order), ""
    policy = replace(policy, keep_last=found.value("keep_last"), order=order)
    if not is_bare:
        return policy, ""
    names = [name for name in LIMITS if _is_limit(found, name)]
    if not names:
        once = command("config set max_size 20GiB", root)
        raise InvalidValue(
            "prune needs to know what to remove: give --max-size, --max-entries, --min-free, --older-than, "
            f"--keep-last, --legacy or --xla, or store a limit once with `{once}`; "
            f"`{command('clear', root)}` removes everything."
        )
    limits = {_FIELDS.get(name, name): found.value(name) for name in names}
    return replace(policy, **limits), f"Limits: {', '.join(_told(found, name) for name in names)}."


def _is_limit(found: Configuration, name: str) -> bool:
    """Return whether a setting is a limit; 0 in JAX's variable stops JAX from storing, and asks for no removal."""
    setting = found.values[name]
    return setting.value is not None and not (setting.value == 0 and setting.source is Source.ENVIRONMENT)


def _told(found: Configuration, name: str) -> str:
    setting = found.values[name]
    return f"{name} {setting.text} ({setting.place})"
