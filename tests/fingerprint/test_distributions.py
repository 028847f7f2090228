"""Tests for `jcache.fingerprint.distributions`: an installed distribution is what its files hold."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.interpreters import anew, base_environment

SOURCES = Path(__file__).parents[2] / "src"
USES = "import json, pricing, model; from jcache.fingerprint import fingerprint as f\n"
USES += "found = f(model.build); print(json.dumps([found.hash, dict(found.parts)]))"


def wheel(directory: Path, rate: str, version: str = "1.0", script: str = "pricing:rate") -> Path:
    """A wheel of `pricing`, with a script, as a build backend makes it."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"pricing-{version}-py3-none-any.whl"
    info = f"pricing-{version}.dist-info"
    files = {
        "pricing/__init__.py": "from pricing.rates import rate\n",
        "pricing/rates.py": f"RATE = {rate}\ndef rate(): return RATE\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: pricing\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\npricing = {script}\n",
    }
    with zipfile.ZipFile(path, "w") as file:
        rows = []
        for name, text in files.items():
            file.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text)}")
        file.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))
    return path


class Place:
    """An environment's packages, and a program that uses one of them."""

    def __init__(self, base: Path) -> None:
        self.site = base / "lib" / "python3" / "site-packages"
        self.program = base / "program"
        self.program.mkdir(parents=True)
        (self.program / "model.py").write_text("import pricing\ndef build(): return pricing.rate()\n")

    def install(self, wheel: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--upgrade"]
        subprocess.run([*command, "--target", self.site, wheel], check=True, capture_output=True)

    def key(self) -> tuple[str, str]:
        """The key of what the program computes, and what it says of the distribution."""
        path = os.pathsep.join(map(str, (self.program, self.site, SOURCES)))
        done = anew(["-c", USES], environment=base_environment() | {"PYTHONPATH": path}, cwd=self.program)
        assert done.returncode == 0, done.stderr
        key, parts = json.loads(done.stdout)
        return key, parts.get("distribution pricing", "the files of a user")


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path) -> Place:
    place = Place(tmp_path / "one")
    place.install(wheel(tmp_path / "first", "0.1"))
    return place


def test_the_same_version_with_other_files_is_another_one(place: Place, tmp_path: Path) -> None:
    """An edit and another installation change the key; installed as before, it is as before."""
    before, words = place.key()
    place.install(wheel(tmp_path / "second", "0.2"))
    after, others = place.key()
    assert before != after and words != others and words.startswith("1.0 ")
    place.install(wheel(tmp_path / "third", "0.1"))
    assert place.key() == (before, words)


def test_two_hosts_agree(place: Place, tmp_path: Path) -> None:
    """Neither where it is installed, nor a script's first line, nor bytecode, nor by whom, makes a difference."""
    other = Place(tmp_path / "two" / "elsewhere")
    other.install(wheel(tmp_path / "first", "0.1"))
    (script,) = (other.site / "bin").iterdir()
    script.write_text(f"#!/elsewhere/bin/python\n{script.read_text()}")
    assert place.key() == other.key() == other.key()


def test_another_version_of_the_same_files_is_another_one(place: Place, tmp_path: Path) -> None:
    """The version may be read by the program."""
    before = place.key()[0]
    for path in place.site.glob("*.dist-info"):
        path.rename(path.with_name("gone"))
    place.install(wheel(tmp_path / "second", "0.1", version="1.1"))
    assert place.key()[0] != before


def test_a_file_that_is_edited_where_it_is_installed_counts(place: Place) -> None:
    """One that is newer than the record is read; written back, or only touched, it is as before."""
    before = place.key()
    rates = place.site / "pricing" / "rates.py"
    text = rates.read_text()
    rates.write_text(text.replace("0.1", "0.2"))
    later = rates.stat().st_mtime + 10
    os.utime(rates, (later, later))
    assert place.key()[0] != before[0]
    rates.write_text(text)
    os.utime(rates, (later, later))
    assert place.key() == before


@pytest.mark.parametrize("record", ["no record", "an editable one"])
def test_without_digests_the_files_themselves_count(record: str, place: Place) -> None:
    """Debian's packages have no record, and that of an editable installation tells of another place."""
    (metadata,) = place.site.glob("*.dist-info")
    if record == "no record":
        (metadata / "RECORD").unlink()
        (metadata / "top_level.txt").write_text("pricing\n")
    else:
        (metadata / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    before = place.key()
    rates = place.site / "pricing" / "rates.py"
    rates.write_text(rates.read_text().replace("0.1", "0.2"))
    os.utime(rates, (0, 0))
    assert place.key()[0] != before[0]
