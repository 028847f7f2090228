"""Tests for `jcache.fingerprint.distribution_content`: the content of an installed distribution, as a digest."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from jcache.fingerprint import distribution_content
from jcache.fingerprint.distribution_content import content, is_local, is_recorded
from tests.helpers.installations import BEGAN_S, As, Site

INFO = "own_rates-1.0.dist-info"
FILES = {
    "ratesource/__init__.py": "RATE = 3\n",
    "ratesource/rates.json": "3",
    "ratesource/a, b.txt": "3",
    "ratesource/deep/empty": "",
    "ratesource/deep/table.csv": "1,sha256=2,3\n",
    "single.py": "RATE = 3\n",
}
LATER_S = BEGAN_S + 10_000


class Place:
    """A distribution in a directory of packages of its own."""

    def __init__(self, base: Path, how: As = As.REGULAR) -> None:
        self.site, self.how = Site(base), how
        self.where = self.site.install("own-rates", FILES, how)
        self.metadata = str(self.site.packages / INFO)

    def digest(self) -> bytes:
        distribution_content.record.cache_clear()
        return content(str(self.site.packages), self.metadata)

    def write(self, name: str, text: str) -> None:
        """Writes a file in place, when it is later."""
        path = self.where / name
        path.write_text(text)
        os.utime(path, (LATER_S, LATER_S))


@contextmanager
def place(how: As = As.REGULAR) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as base:
        yield Place(Path(base), how)


@given(st.sampled_from(sorted(FILES)), st.text("3579\n", max_size=4), st.sampled_from(list(As)))
@settings(max_examples=60)
def test_the_content_is_that_of_the_files_as_they_are(name: str, text: str, how: As) -> None:
    """Another text in any of them makes another digest; the same text, written again, makes the same one."""
    if how is As.EDITABLE and name == "ratesource/deep/empty":
        name = "ratesource/rates.json"
    with place(how) as one:
        before = one.digest()
        one.write(name, text)
        assert (one.digest() == before) == (text == FILES[name])
        one.write(name, FILES[name])
        assert one.digest() == before
        (one.where / name).unlink()
        assert one.digest() != before


@given(st.dictionaries(st.sampled_from(sorted(FILES)), st.sampled_from(["3", "5", "RATE = 5\n"])))
@settings(max_examples=30)
def test_edited_in_place_it_is_what_it_is_reinstalled(texts: dict[str, str]) -> None:
    """The digest is of the files, and not of how they came there."""
    with place() as edited, place() as reinstalled:
        for name, text in texts.items():
            edited.write(name, text)
        reinstalled.site.install("own-rates", FILES | texts)
        assert edited.digest() == reinstalled.digest()


@pytest.mark.parametrize("how", [As.REGULAR, As.EDITABLE])
def test_bytecode_scripts_and_metadata_do_not_count(tmp_path: Path, how: As) -> None:
    """They differ between hosts that have the same files."""
    one = Place(tmp_path, how)
    before = one.digest()
    for path in (one.where / "ratesource" / "__pycache__" / "__init__.cpython-311.pyc", one.where / ".cache" / "notes"):
        path.parent.mkdir()
        path.write_text("3")
    (one.site.packages / INFO / "INSTALLER").write_text("another\n")
    (one.site.packages.parent.parent / "bin").mkdir()
    (one.site.packages.parent.parent / "bin" / "rates").write_text("#!/elsewhere/python\n")
    with open(one.site.packages / INFO / "RECORD", "a") as file:
        file.write("../../bin/rates,sha256=abc,3\nratesource/__pycache__/__init__.cpython-311.pyc,,\n")
    assert one.digest() == before


@pytest.mark.parametrize("how", list(As))
def test_whether_a_record_tells(tmp_path: Path, how: As) -> None:
    """It does of a regular installation alone."""
    assert is_recorded(Place(tmp_path, how).metadata) == (how is As.REGULAR)


OF_THIS_HOST = [(True, "pip", True), (True, "conda", False), (False, "pip", False)]


@pytest.mark.parametrize(("local", "installer", "wanted"), OF_THIS_HOST)
def test_whether_it_is_of_this_host(tmp_path: Path, local: bool, installer: str, wanted: bool) -> None:
    """It is, where it was installed from a directory or file; conda has built all of its packages so."""
    site = Site(tmp_path)
    site.install("own-rates", FILES, local=local)
    (site.packages / INFO / "INSTALLER").write_text(f"{installer}\n")
    assert is_local(str(site.packages / INFO)) == wanted
