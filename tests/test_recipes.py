"""The recipes: files to copy that parse, and whose commands the command line takes."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.command_line import Jcache, clean_environment
from tests.helpers.documents import ROOT
from tests.helpers.waiting import LIMIT_S, until

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[dev]'")

RECIPES: Final = ROOT / "docs/recipes"
TEXTS: Final = {path.name: path.read_text() for path in sorted(RECIPES.iterdir())}
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
JCACHE: Final = Path(sys.executable).with_name("jcache")
COMMAND: Final = re.compile(r"(?:^|[\s/=])jcache ([a-z-].*?)(?=;|$)")
SHARED: Final = "/var/cache/jax"


def strings(value: object) -> Iterator[str]:
    """The texts in a value of YAML."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def unit(name: str) -> ConfigParser:
    """Return a unit of systemd."""
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(TEXTS[name])
    return parser


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its text."""
    lines = re.sub(r"^#.*\n|\\\n", "", TEXTS["Dockerfile"], flags=re.MULTILINE).splitlines()
    pairs = (line.split(maxsplit=1) for line in lines)
    return [(word, text) for word, text in pairs]


def variables() -> dict[str, str]:
    """Return the environment of the sidecar."""
    return dict(word.split("=", 1) for word in shlex.split(dict(instructions())["ENV"]))


def commands() -> Iterator[tuple[str, str]]:
    """The command lines of jcache in each recipe."""
    for name, text in TEXTS.items():
        found = strings(yaml.safe_load(text)) if name.endswith((".yaml", ".yml")) else [text]
        lines = [line for each in found for line in each.splitlines() if not line.startswith("#")]
        yield from ((name, match[1]) for line in lines for match in COMMAND.finditer(line))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A JAX directory with two entries of 1 KiB."""
    root = tmp_path / "cache"
    root.mkdir()
    for number in "12":
        (root / f"jit_step-{number * 64}-cache").write_bytes(b"x" * 1024)
    return root


@pytest.mark.parametrize("name", TEXTS)
def test_a_comment_says_what_it_is(name: str) -> None:
    """A recipe begins with one line that says what it is, and has no other comment."""
    first, *others = TEXTS[name].splitlines()
    assert first.startswith("# ") and not [line for line in others if line.lstrip().startswith("#")]


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_the_command_line_takes_each_command(name: str, command: str, root: Path, jcache: Jcache) -> None:
    """Each command of a recipe ends with exit code 0 on a cache; the program of `run` does nothing here."""
    words = [re.sub(r"^\$(\w+)$", lambda match: variables()[match[1]], word) for word in shlex.split(command)]
    words = [word.replace(SHARED, str(root)) for word in words]
    if "--" in words:
        words[words.index("--") + 1 :] = [sys.executable, "-c", ""]
    done = jcache(*words, env={"JCACHE_DIR": str(root)})
    assert done.code == 0, (name, done.err)


def test_every_recipe_but_the_timer_names_a_command() -> None:
    """The test above looks at each recipe."""
    assert {name for name, _ in commands()} == TEXTS.keys() - {"jcache-prune.timer"}


def test_the_units_belong_together(tmp_path: Path) -> None:
    """The timer has a time and a target, and systemd finds nothing wrong with it and with the service."""
    service, timer = unit("jcache-prune.service"), unit("jcache-prune.timer")
    assert service["Service"]["Type"] == "oneshot" and timer["Install"]["WantedBy"] == "timers.target"
    assert service["Service"]["ReadWritePaths"] == service["Unit"]["RequiresMountsFor"] == SHARED
    if shutil.which("systemd-analyze"):
        program = shlex.split(service["Service"]["ExecStart"])[0]
        (tmp_path / "jcache-prune.service").write_text(
            TEXTS["jcache-prune.service"].replace(f"={program} ", f"={JCACHE} ")
        )
        shutil.copy(RECIPES / "jcache-prune.timer", tmp_path)
        verify: list[str | Path] = ["systemd-analyze", "verify", "--man=no", *tmp_path.glob("jcache-prune.*")]
        done = subprocess.run(verify, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_cron_reads_its_table() -> None:
    """The table sets a PATH, and has five fields of time, a user and a command in each other line."""
    _, path, *lines = TEXTS["jcache-prune.cron"].splitlines()
    assert path.startswith("PATH=/") and lines
    assert all(re.fullmatch(r"(\d+ +){2}(\* +){3}\w+ +jcache [^%]+", line) for line in lines)


def test_the_sidecar_prunes_until_it_is_stopped(root: Path) -> None:
    """The Dockerfile has ten lines; its command prunes the cache, and ends at once with exit code 0 when stopped."""
    words = [word for word, _ in instructions()]
    assert len(TEXTS["Dockerfile"].splitlines()) == 10
    assert words == ["FROM", "RUN", "ENV", "VOLUME", "USER", "CMD"]
    assert variables()["JCACHE_DIR"] == dict(instructions())["VOLUME"]
    own = variables() | {
        "JCACHE_DIR": str(root),
        "MAX_SIZE": "1KiB",
        "INTERVAL_S": "1",
        "PATH": f"{JCACHE.parent}:{os.environ['PATH']}",
    }
    process = subprocess.Popen(["sh", "-c", dict(instructions())["CMD"]], env=clean_environment(own))
    try:
        until(lambda: len(list(root.glob("*-cache"))) == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_the_workflows_keep_the_directory_that_jcache_fills() -> None:
    """The directory that GitHub restores and saves, and the one that GitLab keeps, is `$JCACHE_DIR`."""
    (job,) = yaml.safe_load(TEXTS["github-workflow.yml"])["jobs"].values()
    restored, saved = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache/"))
    assert saved == {name: restored[name] for name in ("path", "key")}
    assert restored["key"].startswith(restored["restore-keys"])
    (tests,) = yaml.safe_load(TEXTS["gitlab-ci.yml"]).values()
    assert job["env"]["JCACHE_DIR"] == "${{ github.workspace }}/" + restored["path"]
    assert tests["variables"]["JCACHE_DIR"] == "$CI_PROJECT_DIR/" + tests["cache"]["paths"][0].rstrip("/")


def test_conda_forge_gets_what_the_project_says() -> None:
    """The recipe has the version, dependencies, entry point and text of pyproject.toml."""
    recipe = yaml.safe_load(TEXTS["recipe.yaml"])
    assert recipe["context"]["version"] == PROJECT["version"]
    needed = [word.replace(" ", "") for word in recipe["requirements"]["run"] if not word.startswith("python ")]
    assert needed == PROJECT["dependencies"]
    optional = PROJECT["optional-dependencies"]["jax"] + PROJECT["optional-dependencies"]["remote"]
    assert [word.replace(" ", "") for word in recipe["requirements"]["run_constraints"]] == optional
    assert recipe["build"]["python"]["entry_points"] == [f"jcache = {PROJECT['scripts']['jcache']}"]
    assert (recipe["about"]["summary"], recipe["about"]["license"]) == (PROJECT["description"], PROJECT["license"])
