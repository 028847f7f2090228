"""What a function refers to: code of the user's is followed, a library's has a name."""

import json
import sys
from pathlib import Path

import pytest

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import executed, imported, write


def test_code_from_exec_counts_by_what_it_does() -> None:
    """It has no source, or claims one that is not its own."""
    names = ("<string>", __file__, "<frozen importlib._bootstrap_external>", json.__file__, "nowhere.py")
    one, two = (
        {fingerprint(executed(f"def build(): return {n}", name)["build"]).hash for name in names} for n in (1, 2)
    )
    assert one.isdisjoint(two)
    spoofed = [executed(f"def build(): return {n}", "<string>", __name__="json")["build"] for n in (1, 2)]
    assert fingerprint(spoofed[0]).hash != fingerprint(spoofed[1]).hash


def test_a_class_without_a_module_counts_by_its_content() -> None:
    """Where there is no `__name__`, Python says that a class is of `builtins`."""
    source = "class int:\n  def f(self): return {}\ndef build(): return int().f()"
    keys = [fingerprint(executed(source.format(n), "<string>")["build"]).hash for n in (1, 2)]
    assert keys[0] != keys[1]


def test_what_a_library_has_counts_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it consists of is a matter of the world, and a file that lies beside the packages is one of them."""
    site = tmp_path / "lib" / "python3" / "site-packages"
    monkeypatch.syspath_prepend(site)
    keys = []
    for number in (1, 2):
        write(site, {"grid.py": f"def cells(): return {number}"})
        with imported(tmp_path / str(number), "import grid\ndef build(): return grid.cells()") as model:
            keys.append(fingerprint(model.build).hash)
        del sys.modules["grid"]
    assert keys[0] == keys[1]


def test_a_function_of_the_user_in_a_library_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name stands for decides, not where it stands."""
    import numpy as np

    source = "import numpy as np\nSCALE = 1\ndef mine(x): return x * SCALE\ndef build(): return np.sin(1)"
    with imported(tmp_path, source) as model:
        plain = fingerprint(model.build).hash
        monkeypatch.setattr(np, "sin", model.mine)
        patched = fingerprint(model.build)
        monkeypatch.setattr(model, "SCALE", 2)
        scaled = fingerprint(model.build)
    assert len({plain, patched.hash, scaled.hash}) == 3
    assert "helper mine" in patched.parts
