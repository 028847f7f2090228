"""What a function refers to: code of the user's is followed, a library's has a name."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from jcache.errors import JcacheError
from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import build, executed, imported, write


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


def test_what_may_be_a_hash_in_a_library_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large integer around a library's function is no part of the key, but of the world, as chex keeps hashes.

    A smaller one counts, and so does one around a function of the user's.
    """
    site = tmp_path / "lib" / "python3" / "site-packages"
    monkeypatch.syspath_prepend(site)
    source = "def counted(number):\n    def wrapper(): return number\n    return wrapper"
    write(site, {"counter.py": source})
    found = {}
    for number in (5, 6, -(1 << 60), 1 << 48):
        for made in ("import counter\n", f"{source}\nclass counter: counted = counted\n"):
            with imported(tmp_path / f"{number}", f"{made}build = counter.counted({number})") as model:
                found[number, made[:1]] = fingerprint(model.build)
    keys = {which: each.hash for which, each in found.items()}
    assert keys[-(1 << 60), "i"] == keys[1 << 48, "i"] != keys[5, "i"] != keys[6, "i"]
    assert found[-(1 << 60), "i"].loose != found[1 << 48, "i"].loose
    assert len({key for (_, of), key in keys.items() if of == "d"}) == 4


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


def test_what_is_compiled_counts_by_its_name() -> None:
    """Classes and functions of C code, of the interpreter as of numpy."""
    for value, named in ((dict, "builtins.dict"), (np.ndarray, "numpy.ndarray"), (math.sin, "math.sin")):
        parts = fingerprint(build, (value,)).parts
        assert set(parts) >= {"argument value", "function"} and parts["argument value"] == named
        assert not any(label.startswith(("class", "helper")) for label in parts)


def test_a_function_that_is_reached_twice_is_one_part(tmp_path: Path) -> None:
    """So recursion has an end, and two functions of one name have a part each."""
    source = """
        def a(n): return n and b(n - 1)
        def b(n): return n and a(n - 1)
        def other(): return 1
        first, other = other, None
        def other(): return 2
        def build(): return a(1) + b(2) + first() + other() + build()
    """
    with imported(tmp_path, source) as model:
        parts = fingerprint(model.build).parts
    assert set(parts) == {"function", "helper a", "helper b", "helper other", "helper other#2"}


def test_what_a_function_has_beside_its_code_is_told_by_its_names(tmp_path: Path) -> None:
    """Defaults, variables of functions around it, and attributes."""
    source = """
        def make(rate):
            def build(n=1, *, m=2): return rate
            build.note = 3
            return build
        build = make(0.5)
    """
    with imported(tmp_path, source) as model:
        parts = dict(fingerprint(model.build).parts)
    name = model.build.__qualname__.replace("<locals>.", "")
    assert {label: text for label, text in parts.items() if label != "function" and "argument" not in label} == {
        f"default n of {name}": "1", f"default m of {name}": "2", f"closure rate of {name}": "0.5",
        f"attribute note of {name}": "3",
    }  # fmt: skip


def test_a_variable_around_a_function_may_have_no_value_yet() -> None:
    """It counts as none, and its value as soon as it has one."""

    def build() -> object:
        return later

    before = fingerprint(build).hash
    later = 1
    assert fingerprint(build).hash != before


def test_what_is_jcaches_counts_by_its_name_alone() -> None:
    """Its modules may move, and its code is none of the program's."""
    assert fingerprint(build, (JcacheError,)).parts["argument value"] == "jcache.JcacheError"
    assert "helper" not in str(fingerprint(build, (fingerprint,)).parts)
