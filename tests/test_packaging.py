"""The wheel and the sdist: reproducible, complete, valid, and enough for a new environment."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

import pytest

from jcache.package import PACKAGE
from tests.helpers.documents import ROOT
from tests.helpers.waiting import LIMIT_S

pytestmark = pytest.mark.full

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHARED: Final[dict[str, str]] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
DISTRIBUTION: Final = f"jcache_jax-{PROJECT['project']['version']}"


class Built(NamedTuple):
    """A wheel and an sdist."""

    wheel: Path
    sdist: Path


def call(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Return what a command prints; it must end with exit code 0."""
    words = list(map(str, command))
    environment = os.environ | variables
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def build(source: Path, to: Path) -> Built:
    """Build both distributions from a source tree, with the command that docs/how-to/release.md names."""
    call(sys.executable, "-m", "hatchling", "build", "-d", to, cwd=source, SOURCE_DATE_EPOCH="1764115200")
    (wheel,), (sdist,) = to.glob("*.whl"), to.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The distributions of this source tree."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[dev]'")
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel and its dependencies alone."""
    path = tmp_path_factory.mktemp("installed")
    call(sys.executable, "-m", "venv", "--without-pip", path)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        path / "bin/python",
        "install",
        "--quiet",
        "--no-compile",
    ]
    call(*pip, "--only-binary", ":all:", "-c", ROOT / "tests/constraints.txt", built.wheel)
    return path


def test_the_same_source_gives_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """A build from the unpacked sdist, at another place with other modes and times, equals the build from the checkout
    in every byte.
    """
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    for path in (tmp_path / "source").rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path)
    again = build(tmp_path / "source" / DISTRIBUTION, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]
    assert [path.name for path in again] == [path.name for path in built]


def test_the_wheel_holds_the_package_and_the_files_of_share(built: Built) -> None:
    """The wheel holds every file of src/jcache, py.typed among them, and the files for `share`, and no others."""
    data = f"{DISTRIBUTION}.data/data/"
    with ZipFile(built.wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    package = Path(PACKAGE)
    sources = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    expected = {path.relative_to(package.parent).as_posix(): path for path in sources}
    expected |= {data + target: ROOT / source for source, target in SHARED.items()}
    assert "jcache/py.typed" in files
    assert files == {name: path.read_bytes() for name, path in expected.items()}


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="this is no checkout")
def test_the_sdist_holds_the_repository(built: Built) -> None:
    """The sdist holds every file that git keeps, so that it builds, and runs its tests, wherever it is unpacked."""
    kept = call("git", "ls-files", "-z", cwd=ROOT).split("\0")
    with tarfile.open(built.sdist) as archive:
        names = {name.removeprefix(f"{DISTRIBUTION}/") for name in archive.getnames()}
    assert not {name for name in kept if name and (ROOT / name).exists()} - names
    assert {name.partition("/")[0] for name in names} <= {name.partition("/")[0] for name in kept} | {"PKG-INFO"}


def test_an_index_takes_them(built: Built) -> None:
    """`twine check` accepts the metadata and the rendered description of both."""
    pytest.importorskip("twine", reason="twine is not installed: pip install -e '.[dev]'")
    assert call(sys.executable, "-m", "twine", "check", "--strict", *built).count("PASSED") == 2


def test_the_wheel_is_enough(installed: Path, tmp_path: Path) -> None:
    """In an environment with nothing but the wheel and what it depends on, all from wheels, `jcache info` works, and
    JAX is absent.
    """
    (tmp_path / f"jit_step-{'1' * 64}-cache").write_bytes(b"x")
    assert "executables" in call(installed / "bin/jcache", "info", "--root", tmp_path)
    code = "import importlib.util as u, jcache; print(u.find_spec('jax'), jcache.__file__)"
    jax, where = call(installed / "bin/python", "-c", code).split()
    assert jax == "None" and Path(where).is_relative_to(installed)


def test_the_wheel_installs_the_files_of_share(installed: Path) -> None:
    """The environment's `share` has the files where shells and `man` look for them."""
    for source, target in SHARED.items():
        assert (installed / target).read_bytes() == (ROOT / source).read_bytes()
