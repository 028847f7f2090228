"""The configured limits of a `prune` that is given none."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.admin.limits import with_configured
from jcache.configuration.settings import LIMITS
from jcache.errors import InvalidValue
from jcache.layout import Root
from jcache.store.order import Order
from jcache.store.policy import Policy
from jcache.store.store import Store

TEXTS = {"max_size": "20GiB", "max_entries": 7, "min_free": "1MiB", "older_than": "2d", "keep_last": 3, "order": "cost"}
POLICY = {
    "max_size": ("max_bytes", 20 << 30), "max_entries": ("max_entries", 7), "min_free": ("min_free_bytes", 1 << 20),
    "older_than": ("max_age_ns", 2 * 86400 * 10**9), "keep_last": ("keep_last", 3), "order": ("order", Order.COST),
}  # fmt: skip


def configured(root: Root, names: set[str], given: Policy, **environment: str) -> tuple[Policy, str]:
    """The policy where a root's file sets some settings."""
    root.state.mkdir(exist_ok=True)
    root.settings.write_text("".join(f"{name} = {TEXTS[name]!r}\n" for name in names))
    with Store(root) as store:
        return with_configured(given, store, None, {"JCACHE_CONFIG": "/dev/null", **environment}, xla=False)


@given(st.sets(st.sampled_from(list(TEXTS))))
def test_a_bare_prune_obeys_all_that_is_configured(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    """Each configured limit holds, with the order and what to keep, and is told with the place it comes from."""
    root = Root(tmp_path_factory.mktemp("root"), plain=True)
    if not names & set(LIMITS):
        with pytest.raises(InvalidValue, match="prune needs to know what to remove"):
            configured(root, names, Policy())
        return
    policy, told = configured(root, names, Policy())
    expected = dict(POLICY[name] for name in names)
    assert policy == Policy(**{"order": Order.LRU, **expected})  # type: ignore[arg-type]
    assert all((f"{name} {TEXTS[name]} ({root.settings})" in told) == (name in names) for name in LIMITS)


@given(
    st.sets(st.sampled_from(list(TEXTS))), st.sampled_from(["max_bytes", "max_entries", "min_free_bytes", "max_age_ns"])
)
def test_a_limit_that_is_given_holds_alone(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], field: str
) -> None:
    """Configured limits never remove more than what was asked for; what is configured to be kept is kept."""
    root = Root(tmp_path_factory.mktemp("root"), plain=True)
    policy, told = configured(root, names, Policy(**{field: 5}))  # type: ignore[arg-type]
    keep = 3 if "keep_last" in names else None
    order = Order.COST if "order" in names else Order.LRU
    assert policy == Policy(**{field: 5}, keep_last=keep, order=order) and not told  # type: ignore[arg-type]


def test_an_option_wins(plain: Root) -> None:
    """The order and the number to keep that are given hold; --legacy alone asks for nothing else."""
    policy, _ = configured(plain, set(TEXTS), Policy(max_bytes=1, keep_last=0, order=Order.LRU))
    assert (policy.keep_last, policy.order) == (0, Order.LRU)
    assert configured(plain, set(TEXTS), Policy(legacy=True))[0] == Policy(legacy=True, order=Order.COST)


@pytest.mark.parametrize(("text", "limit"), [("5", 5), ("0", None), ("-1", None), ("", None), ("x", None)])
def test_the_bound_of_the_environment(plain: Root, text: str, limit: int | None) -> None:
    """JAX's variable is a limit; 0, with which JAX stores nothing, and -1 ask for no removal."""
    variable = {"JAX_COMPILATION_CACHE_MAX_SIZE": text}
    if limit is None:
        with pytest.raises(InvalidValue, match="prune needs to know"):
            configured(plain, set(), Policy(), **variable)
    else:
        assert configured(plain, set(), Policy(), **variable)[0].max_bytes == limit


def test_a_root_whose_file_is_damaged(plain: Root) -> None:
    """A bare prune removes nothing, since the root may have asked to keep something; a limit that is given holds."""
    plain.state.mkdir()
    plain.settings.write_text("keep_last = ")
    with Store(plain) as store:
        with pytest.raises(InvalidValue, match=r"is not TOML.*Give prune a limit"):
            with_configured(Policy(), store, None, {"JCACHE_CONFIG": "/dev/null"}, xla=False)
        policy, _ = with_configured(Policy(max_bytes=1), store, None, {"JCACHE_CONFIG": "/dev/null"}, xla=False)
        assert policy.max_bytes == 1 and "is not TOML" in store.notices[0]


def test_hints_name_the_root(plain: Root) -> None:
    """Without a limit anywhere, the message says how to store one for this root."""
    with Store(plain) as store, pytest.raises(InvalidValue, match=r"config set max_size 20GiB --root /some/where"):
        with_configured(Policy(), store, Path("/some/where"), {"JCACHE_CONFIG": "/dev/null"}, xla=False)
