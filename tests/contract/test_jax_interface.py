"""Programs behave with jcache's cache as with JAX's own: same entries, events, warnings and results for each
setting.  One process for each cache runs the same programs, cold and then warm, in separate directories, and
the observations are compared. `test_conformance` tests the cache objects; this module has what JAX's own
tests check beyond.
"""

import json
import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from jcache.layout import Kind, Root
from jcache.runtime.lru_cache import PlainDirectoryCache
from jcache.store.quarantine import Quarantine
from tests.contract.sides import NEEDS_SIDECARS, jax_version
from tests.helpers.entries import add, executable, files_of, key
from tests.helpers.jax_entries import run_python

pytestmark = pytest.mark.jax

SIDES: Final = ("JAX", "plain", "root")
PROGRAM: Final = """
import json, logging, sys, threading, warnings
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
from jax._src import compilation_cache as private
from jax.experimental.compilation_cache import compilation_cache as cc

warnings.simplefilter("ignore", DeprecationWarning)  # is_initialized, in some versions
side, base = sys.argv[1], Path(sys.argv[2])
made = []


def make(path):
    from jcache.runtime.executable_cache import ExecutableCache
    from jcache.layout import Root
    from jcache.runtime.lru_cache import PlainDirectoryCache

    bound = jax.config.jax_compilation_cache_max_size
    if side == "plain":
        made.append(PlainDirectoryCache(path, max_size=bound))
    else:
        made.append(ExecutableCache(Root(Path(path), plain=True), max_size=bound))
    return made[-1]


if side != "JAX":
    from jcache.jax_internals import cache_hook

    assert not isinstance(cache_hook.install(make), str)

events = Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
jax.monitoring.register_event_duration_secs_listener(lambda event, _, **__: events.update([event]))
USUAL = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_persistent_cache_enable_xla_caches": "none",  # else the path is in the keys
    "jax_compilation_cache_max_size": -1,
    "jax_compilation_cache_check_contents": False,
    "jax_raise_persistent_cache_errors": False,
    "jax_enable_compilation_cache": True,
    "jax_enable_x64": False,
}


def configure(directory, **settings):
    for name, value in (USUAL | settings).items():
        if hasattr(jax.config, name):
            jax.config.update(name, value)
    cc.set_cache_dir(str(directory))
    cc.reset_cache()
    jax.clear_caches()


def calculate():
    @jax.jit
    def named_step(x, w):
        return jnp.tanh(x @ w).sum() / 3

    @jax.jit
    def another(x):
        return (x * 2).astype(jnp.int32)

    return [float(named_step(jnp.ones((8, 4)), jnp.ones((4, 2)))), str(another(jnp.arange(3.0)))]


def observe(directory, action):
    events.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = action()
        except Exception as error:
            result = type(error).__name__
    return {
        "result": result,
        "events": {name: n for name, n in sorted(events.items()) if name.startswith("/jax/compilation_cache/")},
        "warnings": sorted(str(w.message) for w in said),
        "entries": sorted(p.name for p in directory.glob("*-cache")) if directory.is_dir() else [],
        "sidecars": sorted(p.name for p in directory.glob("*-atime")) if directory.is_dir() else [],
    }


def setting(name, **settings):
    directory = base / name
    seen = []
    for _ in ("cold", "warm"):
        configure(directory, **settings)
        seen.append(observe(directory, calculate))
    return seen


def directories():
    seen = []
    for name in ("one", "other", "one"):
        cc.set_cache_dir(str(base / name))
        seen.append(private.is_initialized())
        seen.append(observe(base / name, calculate))  # without a reset JAX stays with the first
        cc.reset_cache()
        jax.clear_caches()
        seen.append(observe(base / name, calculate))
        cc.reset_cache()
    return seen


def threads():
    configure(base / "threads")

    def together():
        workers = [threading.Thread(target=calculate) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    seen = observe(base / "threads", together)
    return [{name: seen[name] for name in ("warnings", "entries")}]


def broken(*, raising):
    (base / "file").touch()
    configure(base / "file" / "below", jax_raise_persistent_cache_errors=raising)
    return [observe(base / "file" / "below", calculate)]


def log():
    configure(base / "log", jax_explain_cache_misses=True)
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger = logging.getLogger("jax._src")
    logger.addHandler(handler)
    logger.propagate = False
    calculate()
    cc.reset_cache()
    jax.clear_caches()
    calculate()
    logger.removeHandler(handler)
    logger.propagate = True
    jax.config.update("jax_explain_cache_misses", False)
    return [line for line in records if "persistent compilation cache" in line.lower()]


print(json.dumps({
    "usual": setting("usual"),
    "x64": setting("x64", jax_enable_x64=True),
    "min size": setting("size", jax_persistent_cache_min_entry_size_bytes=10**9),
    "min time": setting("time", jax_persistent_cache_min_compile_time_secs=10**6),
    "bounded": setting("bounded", jax_compilation_cache_max_size=10**8),
    "too large": setting("large", jax_compilation_cache_max_size=100),
    "nothing": setting("nothing", jax_compilation_cache_max_size=0),
    "contents checked": setting("checked", jax_compilation_cache_check_contents=True),
    "disabled": setting("disabled", jax_enable_compilation_cache=False),
    "directories": (configure(base / "one"), directories())[1],
    "threads": threads(),
    "log": log(),
    "broken": broken(raising=False),
    "broken, raising": broken(raising=True),
}))
for cache in made:
    cache.close()
"""


class Seen:
    """The observations of the programs of one side."""

    def __init__(self, side: str, base: Path) -> None:
        self.base = base / side
        self.base.mkdir()
        self._seen = json.loads(run_python("-c", PROGRAM, side, str(self.base)))

    def __getitem__(self, setting: str) -> list[Any]:
        """The observations of one setting, with nothing in them that differs from run to run."""
        text = json.dumps(self._seen[setting]).replace(str(self.base), "BASE")
        seen: list[Any] = json.loads(re.sub(r"of size \d+ bytes", "of size N bytes", text))
        return seen


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    base = tmp_path_factory.mktemp("sides")
    return {side: Seen(side, base) for side in SIDES}


def without_torn_reads(observations: Iterable[Any]) -> list[Any]:
    """Return the warnings without those of a JAX that read a half-written entry of another thread, which
    jcache prevents.
    """
    torn = "Error reading persistent compilation cache entry"
    return [
        {**o, "warnings": [text for text in o["warnings"] if not text.startswith(torn)]} if isinstance(o, dict) else o
        for o in observations
    ]


def without_sidecars(observations: Iterable[Any]) -> list[Any]:
    return [{k: v for k, v in o.items() if k != "sidecars"} if isinstance(o, dict) else o for o in observations]


OURS = pytest.mark.parametrize("ours", ["plain", "root"])


@OURS
@pytest.mark.parametrize(
    "setting",
    [
        "usual", "x64", "min size", "min time", "bounded", "too large", "nothing", "contents checked", "disabled",
        "directories", "threads",
    ],
)  # fmt: skip
def test_everything_is_as_with_jax(sides: dict[str, Seen], ours: str, setting: str) -> None:
    """Results, JAX's events, warnings and the names of the entries, cold and warm."""
    expected, found = sides["JAX"][setting], sides[ours][setting]
    assert without_sidecars(found) == without_torn_reads(without_sidecars(expected))


def test_the_settings_are_not_idle(sides: dict[str, Seen]) -> None:
    """The compared observations differ between the settings: hits, misses, stores and warnings."""
    hits, misses = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"
    (cold, warm) = sides["plain"]["usual"]
    stored = len(cold["entries"])
    assert stored >= 2 and cold["events"][misses] == warm["events"][hits] == stored
    assert hits not in cold["events"] and misses not in warm["events"]
    assert cold["result"] == warm["result"] and warm["warnings"] == []
    x64 = sides["plain"]["x64"][1]
    assert x64["events"][hits] >= 2 and x64["result"] != warm["result"] and x64["entries"] != warm["entries"]
    for setting in ("min size", "min time", "too large", "nothing", "disabled"):
        assert [seen["entries"] for seen in sides["plain"][setting]] == [[], []]
        assert hits not in sides["plain"][setting][1]["events"]
    for setting in ("too large", "nothing"):
        assert all("exceeds the maximum cache size of" in text for text in sides["plain"][setting][0]["warnings"])
        assert sides["plain"][setting][0]["warnings"]
    assert [seen for seen in sides["plain"]["directories"] if isinstance(seen, bool)] == [True] * 3


def test_sidecars_are_as_with_jax(sides: dict[str, Seen]) -> None:
    """Under a bound each entry has a sidecar; without one, a plain directory has as many as JAX's or none,
    and a root has all.
    """
    for side in SIDES:
        bounded = sides[side]["bounded"][1]
        assert [name.replace("-atime", "-cache") for name in bounded["sidecars"]] == bounded["entries"] != []
    assert sides["plain"]["usual"][1]["sidecars"] in ([], sides["JAX"]["usual"][1]["sidecars"])
    usual = sides["root"]["usual"][1]
    assert [name.replace("-atime", "-cache") for name in usual["sidecars"]] == usual["entries"]


@OURS
def test_the_log_is_as_with_jax(sides: dict[str, Seen], ours: str) -> None:
    """With ``jax_explain_cache_misses``, JAX logs the same for each miss and each write."""
    assert sides[ours]["log"] == sides["JAX"]["log"] != []


@OURS
@pytest.mark.parametrize("setting", ["broken", "broken, raising"])
def test_a_directory_that_cannot_be(sides: dict[str, Seen], ours: str, setting: str) -> None:
    """A directory that cannot exist gives one warning and right results, even under
    ``jax_raise_persistent_cache_errors``, where JAX's own cache raises.  `jcache.enable()` passes that
    setting on; the cache alone raises nothing.
    """
    (theirs,), (seen,) = sides["JAX"][setting], sides[ours][setting]
    assert seen["result"] == sides["JAX"]["usual"][0]["result"] and seen["entries"] == []
    (warning,) = seen["warnings"]
    assert "jcache cannot store" in warning
    if setting == "broken, raising":
        assert theirs["result"] == "NotADirectoryError"


# -- the objects


def _jax(directory: object, max_size: int) -> Any:
    from jax._src.lru_cache import LRUCache

    return LRUCache(str(directory), max_size=max_size)


def _said(cache: Any, sizes: Iterable[int]) -> list[tuple[str, type[Warning]]]:
    """Return the warnings for puts of some sizes."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number, size in enumerate(sizes):
            cache.put(key(number), b"x" * size)
    return [(str(warning.message), warning.category) for warning in said]


@pytest.mark.parametrize("max_size", [-1, -2, -(10**6), 0, 1, 5, 8])
def test_every_bound_means_the_same(tmp_path: Path, max_size: int) -> None:
    """-1 is none, any other number is one, and below zero nothing fits; warnings are equal to a letter."""
    sizes = (0, 1, 5, 6, 0, 9, 2)
    theirs, ours = _jax(tmp_path / "j", max_size), PlainDirectoryCache(tmp_path / "o", max_size=max_size)
    assert theirs.eviction_enabled == ours.eviction_enabled
    assert _said(ours, sizes) == _said(theirs, sizes)
    assert files_of(tmp_path / "o") == files_of(tmp_path / "j")
    assert {p.name for p in (tmp_path / "o").glob(".lockfile")} == {p.name for p in (tmp_path / "j").glob(".lockfile")}
    ours.close()


def test_what_else_lies_there_stays(tmp_path: Path) -> None:
    """Notes, sub-directories, sidecars and links beside the entries are no entries, and survive every eviction."""
    for name, make in (("j", _jax), ("o", PlainDirectoryCache)):
        directory = tmp_path / name
        (directory / "xla_gpu_per_fusion_autotune_cache_dir").mkdir(parents=True)
        for other in ("README", "lost-atime", "cache", "model-cache.bin"):
            (directory / other).write_bytes(b"kept")
        (directory / "link").symlink_to("README")
        before = {path.name for path in directory.iterdir()}
        cache = make(directory, max_size=10)
        for number in range(5):
            cache.put(key(number), b"x" * 6)
        assert set(files_of(directory)) == {key(4)}
        assert before <= {path.name for path in directory.iterdir()}


@pytest.mark.parametrize("older", [False, True], ids=["old", "older jcache"])
def test_an_unbounded_directory_is_bounded(tmp_path: Path, older: bool) -> None:
    """A later bound counts existing entries, the oldest first, whatever their names."""
    for number, name in enumerate(["old", key(1), key(2)]):
        add(tmp_path, name, 100, written_ns=10**18 + number, used_ns=10**18 + number if older else None)
    cache = PlainDirectoryCache(tmp_path, max_size=250)
    cache.put(key(3), b"x" * 100)
    assert set(files_of(tmp_path)) == {key(2), key(3)}
    if older or jax_version() > NEEDS_SIDECARS:
        _jax(tmp_path, 250).put(key(4), b"x" * 100)
        assert set(files_of(tmp_path)) == {key(3), key(4)}
    cache.close()


@pytest.mark.parametrize("max_size", [-1, 4 * len(executable())], ids=["unbounded", "bounded"])
@pytest.mark.parametrize("theirs", [False, True], ids=["two of ours", "ours and JAX's"])
def test_two_at_once(tmp_path: Path, max_size: int, theirs: bool) -> None:
    """Each of two caches serves the other's entries at once, and together they keep the bound."""
    ours = PlainDirectoryCache(tmp_path, max_size=max_size)
    other = _jax(tmp_path, max_size) if theirs else PlainDirectoryCache(tmp_path, max_size=max_size)
    for number in range(0, 20, 2):
        ours.put(key(number), executable())
        other.put(key(number + 1), executable(number + 1))
        assert ours.get(key(number + 1)) == executable(number + 1) and other.get(key(number)) == executable()
        assert max_size < 0 or sum(files_of(tmp_path).values()) <= max_size
    assert len(ours) == len(files_of(tmp_path)) == (20 if max_size < 0 else 4)
    ours.close()


@pytest.mark.smoke
def test_it_is_a_cache_as_jax_wants_one(tmp_path: Path) -> None:
    """The cache has every abstract method of JAX's interface, ``_path``, and the members that JAX's tests use."""
    from jax._src.compilation_cache_interface import CacheInterface

    cache = PlainDirectoryCache(tmp_path)
    assert all(callable(getattr(cache, name)) for name in CacheInterface.__abstractmethods__ if name != "_path")
    assert cache._path == _jax(tmp_path, -1)._path
    assert cache.lock_path == _jax(tmp_path, 1).lock_path
    assert len(cache) == 0 and cache
    for name in ("key1", key(1), "-cache"):
        cache.put(name, executable())
    assert len(cache) == 3
    cache.clear()
    assert len(cache) == 0 and files_of(tmp_path) == {} and cache.get("key1") is cache.get(key(1)) is None
    cache.put("key1", executable(5))
    assert cache.get("key1") == executable(5)
    cache.close()


def test_paths_are_taken_as_jax_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path may be text, relative, or ``file://``; a remote one is refused, and no directory of that name is made."""
    monkeypatch.chdir(tmp_path)
    for path in ("made/anew", Path("made/anew"), f"file://{tmp_path}/made/anew"):
        assert PlainDirectoryCache(path).path == tmp_path / "made" / "anew"
    with pytest.raises(RuntimeError, match="not a directory of this machine"):
        PlainDirectoryCache("gs://bucket/cache")
    assert os.listdir(tmp_path) == ["made"]


def test_a_mocked_clock_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache does not read ``time.monotonic``, which JAX's tests replace by a few numbers for JAX itself."""

    def exhausted() -> float:
        raise StopIteration

    cache = PlainDirectoryCache(tmp_path)
    monkeypatch.setattr("time.monotonic", exhausted)
    cache.put(key(1), executable())
    add(tmp_path, key(2), executable())
    assert cache.get(key(1)) == cache.get(key(2)) == executable()
    cache.flush()


@pytest.mark.smoke
def test_damage_is_no_answer(tmp_path: Path) -> None:
    """Where JAX's own cache returns damaged bytes, jcache moves them away and stores the entry again."""
    root = Root(tmp_path, plain=True)
    cache = PlainDirectoryCache(tmp_path)
    cache.put(key(1), executable())
    path = root.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
    path.write_bytes(executable()[:-1] + b"\xff")
    assert _jax(tmp_path, -1).get(key(1)) is not None
    with pytest.warns(UserWarning, match="quarantine"):
        assert cache.get(key(1)) is None
    assert [record.key for record in Quarantine(root).records()] == [key(1)]
    cache.put(key(1), executable(9))
    assert cache.get(key(1)) == executable(9)
    cache.close()
