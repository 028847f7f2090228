"""Fixtures that tests of several modules share."""

import compileall
import os
import random
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from jcache import input_files
from jcache.layout import Root
from jcache.package import PACKAGE
from jcache.store.roots import choose_path, create_root

pytest.register_assert_rewrite("tests.helpers")

from tests.helpers.command_line import Jcache, Result, call, run_jax  # noqa: E402  after the line above, to tell why
from tests.helpers.entries import copied, tree  # noqa: E402
from tests.helpers.file_systems import keeps_access_times  # noqa: E402
from tests.helpers.remote_stores import az, remote, s3  # noqa: E402, F401  fixtures

TESTS = Path(__file__).parent
FIRST_TIER = "about 4 minutes on two cores"
LONG_TIER = "about 14 minutes on two cores, with --wide 35"

TOGETHER = (
    "tests/contract/test_jax_interface.py",
)  # each process that runs such tests needs a minute for their fixture

SEED = os.environ.get("JCACHE_SEED")  # read now: `home` takes it out of the environment
SURROUNDINGS = (
    "JAX_", "XLA_", "JCACHE_", "PHASIC_", "TRITON_", "XDG_", "PYTHON", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR",
    "CLICOLOR", "PY_COLORS", "TERMINAL_WIDTH", "GITHUB_ACTIONS",
)  # fmt: skip
_MODULES: dict[str, ModuleType] = {}  # those that are known to lie outside the scratch directory
TOUCHING = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate")

# A run tries the examples and seeds of the last one, so that it fails for what was changed; `--search` tries new ones.
_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
settings.register_profile("jcache", deadline=None, suppress_health_check=_CHECKS, derandomize=True, max_examples=30)
settings.register_profile("search", deadline=None, suppress_health_check=_CHECKS)
settings.load_profile("jcache")

# Started in the background, a shell's job ignores SIGINT, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the proofs in their full form, which takes long")
    parser.addoption("--wide", action="store_true", help="run all tests and cases of the long tier")
    parser.addoption("--search", action="store_true", help="try new examples and seeds in place of those of each run")


def pytest_configure(config: pytest.Config) -> None:
    if searches(config):
        settings.load_profile("search")


def searches(config: pytest.Config) -> bool:
    """Return whether new examples and seeds are tried."""
    return bool(config.option.search or config.option.full)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles jcache's modules, since the processes of the tests write no bytecode."""
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(PACKAGE, quiet=2)


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.markexpr == "full":
        return f"the long tier: every other test that starts JAX, and proofs; {LONG_TIER}"
    return f"the first tier: {FIRST_TIER}; `pytest -m full` runs the long one, {LONG_TIER}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that starts JAX, and a proof, is in the long tier, but for those that are marked `smoke`.

    Whatever takes longer than a second, all its cases together, may be marked `full`: then it is in the long tier, too.
    There, a sixteenth of each test's cases run, and a tenth of the tests that have one case and are not of the
    contract: the same in each run, unless `--wide` asks for all, or `::` or `-k` names some, or the test is marked
    `whole`. What is marked `wide` is left out.
    """
    for item in items:
        if item.path.is_relative_to(TESTS / "contract"):
            item.add_marker(pytest.mark.contract)
        is_long = item.get_closest_marker("jax") or item.path.is_relative_to(TESTS / "proofs")
        smoke = item.get_closest_marker("smoke")
        if is_long and not smoke:
            item.add_marker(pytest.mark.full)
        if smoke and (since := smoke.kwargs.get("since")) and version_of("jax") < numbers_of(since):
            item.add_marker(pytest.mark.skip(reason=f"only from jax {since} on"))
    is_chosen = config.option.keyword or any("::" in each for each in config.args)
    if not (config.option.wide or config.option.full or is_chosen):
        left_out = narrowed([item for item in items if item.get_closest_marker("full")])
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("whole") is None)  # those that take longest begin first


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Let one process run all tests of a module in `TOGETHER`; each has the next test only when it has ended one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)

    return Scheduling(config, log) if config.option.markexpr != "not full" else None


def narrowed(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests and cases that are left out of a run that is not wide."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.nodeid):  # pytest-randomly has mixed them
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for name, cases in tests.items():
        if cases[0].get_closest_marker("wide"):
            left_out.update(cases)
        elif cases[0].get_closest_marker("whole"):
            continue
        elif len(cases) > 1:
            left_out.update(case for number, case in enumerate(cases) if number % 16)
        elif not cases[0].get_closest_marker("contract") and crc32(name.encode()) % 10:
            left_out.update(cases)
    return left_out


def version_of(distribution: str) -> list[int]:
    """The version that is installed."""
    return numbers_of(version(distribution))


def numbers_of(text: str) -> list[int]:
    return [int(part) for part in text.split(".")[:3] if part.isdigit()]


def default_places() -> list[str]:
    """Return the places where caches are looked for if none is named."""
    usual = ("~/.jax_cache", "~/.cache/jax", "~/.phasic_cache", "~/.triton")
    return [str(choose_path(None, {})), *map(os.path.expanduser, usual)]


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What other tests of this process have imported, changed, read and written is no part of a test's world."""
    monkeypatch.setattr(input_files, "_read", {})
    monkeypatch.setattr(input_files, "_executed", {})
    monkeypatch.setattr(input_files, "_written", set())
    monkeypatch.setattr(input_files, "_bytes", 0)
    monkeypatch.setattr(input_files, "_looked_at", 0)
    scratch = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        if _MODULES.get(name) is module:
            continue
        if str(getattr(module, "__file__", None)).startswith(scratch):
            del sys.modules[name]
        else:
            _MODULES[name] = module
    world = sys.modules.get("jcache.runtime.worlds.world")
    if world is not None:
        monkeypatch.setattr(world, "_sources", vars(world)["Sources"]())


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home directory of the tests' own, in which every default place for a cache lies.

    What the surroundings set for JAX, jcache and the interpreter is taken out of the environment, which the processes
    of the tests inherit. Whatever in this process opens, makes, renames or removes something in a default place of the
    real home fails.
    """
    outside = tuple(default_places())

    def forbid(event: str, arguments: tuple[object, ...]) -> None:
        if event in TOUCHING and any(isinstance(each, str) and each.startswith(outside) for each in arguments[:2]):
            raise AssertionError(f"a test has left its scratch directory: {event}{arguments}")

    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(SURROUNDINGS)]:
            patch.delenv(name)
        path = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(path))
        inside = default_places()
        assert all(place.startswith(str(path)) for place in inside), inside
        sys.addaudithook(forbid)
        yield path


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Return whether the proofs run in their full form."""
    return bool(request.config.getoption("--full"))


@pytest.fixture
def native(tmp_path: Path) -> Root:
    """A root that jcache made."""
    return create_root(tmp_path / "native")


@pytest.fixture
def plain(tmp_path: Path) -> Root:
    """A JAX directory, still empty."""
    return create_root(tmp_path / "plain", plain=True)


@pytest.fixture
def access_times_kept(tmp_path: Path) -> None:
    """Skip the test where access times tell no last uses."""
    if not keeps_access_times(tmp_path):
        pytest.skip("the file system keeps no access times, or does not say so")


@pytest.fixture
def beyond(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the roots that nothing may touch."""
    path = tmp_path / "beyond"
    path.mkdir()
    (path / "precious").write_text("kept")
    (path / "below").mkdir()
    before = tree(path)
    yield path
    assert tree(path) == before


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers, the same in each run but for `--search`; JCACHE_SEED repeats those of a test that failed."""
    seed = int(SEED or (random.randrange(2**32) if searches(request.config) else crc32(request.node.nodeid.encode())))
    print(f"JCACHE_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def jcache() -> Jcache:
    """Runs ``jcache`` with arguments; no traceback ever comes out of it."""

    def run(*arguments: str | Path, **options: Any) -> Result:
        result = call([sys.executable, "-m", "jcache", *map(str, arguments)], **options)
        assert "Traceback" not in result.err, result.err
        return result

    return run


@pytest.fixture(scope="session")
def jax_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain JAX directory, filled by a real, unbounded JAX process; not to be changed."""
    path = tmp_path_factory.mktemp("caches") / "jax"
    result = run_jax(path)
    assert result.code == 0 and not result.err, result.err
    return path


@pytest.fixture(scope="session")
def bounded_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same from a bounded JAX process, with sidecars; not to be changed."""
    path = tmp_path_factory.mktemp("caches") / "bounded"
    result = run_jax(path, bounded=10**9)
    assert result.code == 0 and not result.err, result.err
    return path


@pytest.fixture
def cache(jax_cache: Path, tmp_path: Path) -> Path:
    """A copy of the plain JAX directory to change."""
    return copied(jax_cache, tmp_path / "cache", symlinks=True)
