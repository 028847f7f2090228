"""The pages as HTML: Sphinx builds them without a warning, without JAX and without a network."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.command_line import clean_environment
from tests.helpers.documents import ROOT, name_of, pages
from tests.helpers.waiting import LIMIT_S

# Sphinx in a process of its own, which has no network and fails if anything imports JAX.
BUILD = """
import socket, sys
from sphinx.cmd.build import main
def no_network(*arguments, **options):
    raise OSError("the build of the pages asks for the network")
socket.getaddrinfo = socket.create_connection = no_network
code = main(sys.argv[1:])
found = {"jax", "jaxlib", "numpy"} & sys.modules.keys()
sys.exit(f"the build has imported {found}" if found else code)
"""


@pytest.mark.full
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    """`sphinx-build -W` turns each page into HTML, and each link from page to page leads to a place that is there."""
    if not all(map(find_spec, ("sphinx", "myst_parser", "furo"))):
        pytest.skip("Sphinx is not installed: pip install '.[docs]'")
    made = tmp_path / "html"
    options = ["-W", "--keep-going", "-q", "-d", str(tmp_path / "read")]
    done = subprocess.run(
        [sys.executable, "-c", BUILD, *options, str(ROOT / "docs"), str(made)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.relative_to(made).with_suffix("").as_posix() for path in made.rglob("*.html")}
    assert {name_of(page).removeprefix("docs/").removesuffix(".md") for page in pages()[1:]} <= written
    for path in made.rglob("*.html"):
        for target, fragment in re.findall(r'href="(?!https?:|_static)([^"#]*\.html)?#([^"]+)"', path.read_text()):
            page = (path.parent / target).resolve() if target else path
            assert f'id="{fragment}"' in page.read_text(), (path.name, target, fragment)
