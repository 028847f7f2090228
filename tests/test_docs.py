"""Pages are right: commands, options, exit codes, variables, modules, links, and the output of commands."""

import inspect
import re
import shutil
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import jcache
from jcache.cli.app import COMMANDS, app
from jcache.errors import JcacheError
from jcache.package import PACKAGE
from jcache.runs.launch import CannotStart, CommandNotFound
from tests.helpers.documents import ROOT, Shell, Step, agree, blocks, name_of, pages, steps

README = (ROOT / "README.md").read_text()
COMMANDS_PAGE = (ROOT / "docs/reference/commands.md").read_text()
ENVIRONMENT_PAGE = (ROOT / "docs/reference/environment.md").read_text()
API_PAGE = (ROOT / "docs/reference/python-api.md").read_text()
BUILT_PAGE = (ROOT / "docs/how-it-is-built.md").read_text()
FUNCTIONS = sorted(name for name in jcache.__all__ if inspect.isfunction(getattr(jcache, name)))
WITH_COMMANDS = [page for page in pages() if any(steps(page.read_text()))]
LIBRARIES = ("equinox", "flax", "numpyro", "torax")  # each has a page
WITH_TRACES = [page for page in pages() if page.stem in LIBRARIES and "trace hit" in page.read_text()]
README_LINES = 150


def section(page: str, title: str) -> str:
    """Return the text below a heading of the second level."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def options_of(name: str) -> set[str]:
    """The long names of a command's options."""
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    return {option for each in command.params for option in each.opts if option.startswith("--")}


def test_the_readme_is_short() -> None:
    """README fits on three screens; everything else is in docs/."""
    assert len(README.splitlines()) <= README_LINES


def test_the_readme_says_what_is_not_seen_in_ten_lines() -> None:
    """What no key or world sees stands in the README in ten lines, each with what to give to jcache."""
    lines = re.findall(r"^- (.*)$", README.split("can return for\n`depends_on=`")[1].split("##")[0], re.MULTILINE)
    assert 5 <= len(lines) <= 10
    assert all(re.search(r": `lambda: .+`$|: use `.+`$", line) for line in lines)


def test_every_command_is_documented() -> None:
    """The README's table has every command, and the reference has a section for each and for nothing else."""
    missing = [name for name in COMMANDS if not re.search(rf"`{name}\b|/ `{name}\b|, `{name}`", README)]
    assert not missing
    assert set(re.findall(r"^## ([a-z]+)$", COMMANDS_PAGE, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    """The section of a command lists its options, but for those that all commands share, and no others."""
    shared = set(re.findall(r"--[a-z-]+", section(COMMANDS_PAGE, "What all commands share").split("\n\n")[0]))
    rows = [line.split(" | ")[0] for line in section(COMMANDS_PAGE, name).splitlines() if line.startswith("| `-")]
    listed = set(re.findall(r"--[a-z-]+", "".join(rows)))
    options = options_of(name) | {"--help"}
    assert options - shared <= listed <= options


def test_every_exit_code_is_documented() -> None:
    """The exit code of every error is in the reference's section on them."""
    codes = section(COMMANDS_PAGE, "Exit codes")
    errors: list[type[JcacheError]] = [JcacheError, *JcacheError.__subclasses__(), CannotStart, CommandNotFound]
    assert all(re.search(rf"\b{error.exit_code}\b", codes) for error in errors)


def test_every_variable_is_documented() -> None:
    """Every environment variable that the sources read is in the reference."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r'"(JCACHE_[A-Z_]+|JAX_[A-Z_]+)"', sources))
    internal = {name for name in names if name.startswith("JCACHE_RUN_")}
    assert not [name for name in names - internal if name not in ENVIRONMENT_PAGE]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented(name: str) -> None:
    """The reference names the parameters of each public function, in order or by keyword."""
    (listed,) = re.findall(rf"^\| `jcache\.{name}\((.*?)\)`", API_PAGE, re.MULTILINE)
    parameters = inspect.signature(getattr(jcache, name)).parameters
    assert sorted(listed.replace("*", "").split(", ")) == sorted(parameters) or (not listed and not parameters)


def test_every_module_in_the_walk_exists() -> None:
    """Each dotted name in "How jcache is built" is a module or public, and the page names each room of src/jcache."""
    names = set(re.findall(r"`(jcache(?:\.\w+)+)", BUILT_PAGE))
    public = {f"jcache.{name}" for name in jcache.__all__}
    assert not [name for name in names - public if find_spec(name) is None]
    assert {f"jcache.{path.parent.name}" for path in Path(PACKAGE).glob("*/__init__.py")} <= names


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    """A relative link names a file of the repository, and its fragment a heading in that file."""
    for target, fragment in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if fragment else []
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not fragment or fragment in anchors, (target, fragment)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_page_is_found(page: Path) -> None:
    """The index links to each page of docs/."""
    index = ROOT / "docs/index.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", index.read_text())}
    assert page in linked | {index}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_lines_fit(page: Path) -> None:
    """Text fits into 100 columns; tables, comments and blocks may be wider."""
    text = re.sub(r"^```.*?^```$|^[|<].*?$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not [line for line in text.splitlines() if len(line) > 100]


def test_the_changelog_is_kept() -> None:
    """The changelog follows Keep a Changelog: first what is not released, then this version with its date."""
    text = (ROOT / "CHANGELOG.md").read_text()
    unreleased, latest = re.findall(r"^## (.*)$", text, re.MULTILINE)[:2]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "keepachangelog.com" in text and unreleased == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(jcache.__version__)}\] - \d{{4}}-\d\d-\d\d", latest)
    assert jcache.__version__ == project["version"]


@pytest.mark.whole
@pytest.mark.jax
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.smoke] if page.name == "tutorial.md" else []) for page in WITH_COMMANDS],
    ids=name_of,
)
def test_commands_print_what_a_page_says(page: Path, tmp_path: Path) -> None:
    """The commands of a page, run in order, print the shown output, except for times and numbers of the machine."""
    need_library(page)
    shell = Shell(tmp_path)
    for step in steps(page.read_text()):
        if step.command.startswith("zstd ") and not shutil.which("zstd"):
            continue
        shown = shell.run(step.command)
        if step.expected is not None:
            assert agree(step.command, *(same_jaxlib(text, step) for text in (step.expected, shown))), (
                f"{name_of(page)}: $ {step.command}\nsays\n{step.expected}\nand prints\n{shown}"
            )


def need_library(page: Path) -> None:
    """Skip the test of a page on a library that is not installed."""
    if page.stem in LIBRARIES and find_spec(page.stem) is None:
        pytest.skip(f"{page.stem} is not installed: pip install '.[programs]'")


@pytest.mark.whole
@pytest.mark.jax
@pytest.mark.parametrize("page", WITH_TRACES, ids=name_of)
def test_the_program_of_a_library_starts_warm(page: Path, tmp_path: Path) -> None:
    """The program of a page on a library hits in its second process the trace that its first one stored."""
    need_library(page)
    (tmp_path / "program.py").write_text("\n".join(blocks(page.read_text(), "py")))
    shell = Shell(tmp_path)
    printed = [shell.run("python program.py").splitlines()[-1] for _ in range(2)]
    assert printed == ["0 trace hit", "1 trace hit"]


def same_jaxlib(text: str, step: Step) -> str:
    """The text without the lines that only some versions of jaxlib let jcache show, unless it is the page's version."""
    if step.expected is None or re.search(rf"^jaxlib +{re.escape(version('jaxlib'))}$", step.expected, re.MULTILINE):
        return text
    return re.sub(r"^(cpu|cache path) .*\n", "", text, flags=re.MULTILINE)


def test_the_tour_is_run() -> None:
    """The README's tour, and a page of each sort, hold commands, so that the test above looks at something."""
    assert {"README.md", "docs/tutorial.md", "docs/how-to/ship-a-cache.md", "docs/reference/json.md"} <= {
        name_of(page) for page in WITH_COMMANDS
    }
    commands = [step.command for step in steps(README)]
    assert len(commands) == len(re.findall(r"^\$ ", "".join(blocks(README, "console")), re.MULTILINE)) >= 5


@pytest.mark.parametrize(
    ("expected", "shown", "same"),
    [
        ("19 hits\n", "19 hits\n", True),
        ("19 hits\n", "18 hits\n", False),
        ("took 1.5 s\n", "took 22 s\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("…\nb\n", "a\nb\n", True),
        ("jit_a-0123456789 x\n", "jit_a-abcdef0123 x\n", True),
        ("jit_a-0123456789 x\n", "jit_b-abcdef0123 x\n", False),
        ('{"a": 1, "b": []}\n', '{"a": 2, "b": []}\n', True),
        ('{"a": 1}\n', '{"a": "2"}\n', False),
        ('{"a": 1}\n', "no cache\n", False),
    ],
)
def test_outputs_are_compared(expected: str, shown: str, same: bool) -> None:
    """Only values that differ from run to run are ignored in the comparison."""
    assert agree("jcache show x", expected, shown) is same
