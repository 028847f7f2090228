"""Sphinx's settings: `pip install '.[docs]' && sphinx-build -W --keep-going docs build/docs` makes the pages as HTML.

The build needs no network and no JAX.
"""

import re
from importlib.metadata import version as installed_version

from sphinx.application import Sphinx

project = "jcache"
author = "the jcache authors"
project_copyright = author
version = release = installed_version("jcache-jax")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"jcache {release}"
smartquotes = False  # `--option` keeps its dashes
myst_heading_anchors = 4  # a link's fragment is a heading, as in plain Markdown

_LINK_TO_README = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+README\.md)[^)]*\)")


def offer_readme(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Turn links to the README, which is outside of the pages, into links to a copy of it."""
    source[0] = _LINK_TO_README.sub(r"{download}`\1 <\2>`", source[0])


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls while it reads the pages."""
    app.connect("source-read", offer_readme)
