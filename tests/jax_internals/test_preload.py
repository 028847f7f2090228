"""The executable of an earlier call is loaded during the look-up; a useless load has no visible effect."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind, Root
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.traces.hints import Hints
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys, threading
with open(sys.argv[1] + ".device") as file:  # before jcache, and so no part of the world, as an argument is
    number = int(file.read())
import jcache
from jcache.jax_internals import preload
jcache.enable(sys.argv[1], strict=True)
import jax, jax.numpy as jnp

loaded = []
result = preload._Loading.result
def noting(self):
    found = result(self)
    loaded.append(found is not None and loaders[id(self)] != threading.get_ident())
    return found
preload._Loading.result = noting

loaders = {}
load = preload._Loading._run
def loading(self):
    loaders[id(self)] = threading.get_ident()
    load(self)
preload._Loading._run = loading

begun = []
start = preload._Loading.__init__
def beginning(self, *args):
    begun.append(1)
    start(self, *args)
preload._Loading.__init__ = beginning

RATE = float(sys.argv[2])
device = jax.devices()[number]

@jcache.jit
def step(x):
    return jnp.tanh(x @ x) * RATE

x = jax.device_put(jnp.ones((4, 4)), device)
jax.block_until_ready(x)
value = float(step(x)[0, 0])
call, = jcache.stats().traces.calls
hits = [p.key for p in jcache.stats().programs if p.outcome == "hit" and "step" in p.key]
print(json.dumps({"value": value, "begun": len(begun), "taken": len(loaded), "loaded": all(loaded), "hits": len(hits),
                  "outcome": call.outcome}))
"""
TWO_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


def on_device(root: Path, device: int = 0) -> Path:
    """Say on which device the program lays its array, and return the root."""
    root.with_name(f"{root.name}.device").write_text(str(device))
    return root


def step(root: Path, rate: float = 2.0, device: int = 0) -> dict[str, Any]:
    said = run(PROGRAM, on_device(root, device), rate, env=TWO_DEVICES).value
    assert said["value"] == pytest.approx(rate * 0.9993293)
    return dict(said)


def notes(root: Path) -> list[Path]:
    """Return the files that name the executable of an earlier call."""
    return [path for path in open_root(root).verdicts.iterdir() if b"\njit_" in path.read_bytes()]


def written(path: Path, note: str) -> None:
    """Puts another note there, with its digest."""
    path.write_text(f"{sha256(note.encode()).hexdigest()}\n{note}")


def check_clean(root: Path) -> None:
    with Store(open_root(root)) as store:
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_the_second_process_loads_it_meanwhile(tmp_path: Path) -> None:
    """The second process loads the executable in a separate thread, once, and it counts as one hit."""
    first = step(tmp_path)
    assert (first["outcome"], first["begun"]) == ("stored", 0)
    for _ in range(2):
        again = step(tmp_path)
        assert (again["outcome"], again["begun"], again["taken"], again["loaded"]) == ("hit", 1, 1, True)
        assert again["hits"] == 1
    check_clean(tmp_path)


def test_what_was_loaded_in_vain(tmp_path: Path) -> None:
    """If the call needs another executable, that one serves; the loaded one is not counted, and the next note
    is right.
    """
    assert step(tmp_path)["outcome"] == "stored"
    changed = step(tmp_path, rate=3.0)
    assert (changed["outcome"], changed["begun"], changed["taken"], changed["hits"]) == ("stored", 1, 0, 0)
    again = step(tmp_path, rate=3.0)
    assert (again["outcome"], again["taken"], again["loaded"]) == ("hit", 1, True)
    back = step(tmp_path)
    assert (back["outcome"], back["begun"], back["taken"], back["hits"]) == ("hit", 1, 0, 1)
    assert len(notes(tmp_path)) == 1
    check_clean(tmp_path)


def test_on_another_device(tmp_path: Path) -> None:
    """An executable is not handed out for devices that it was not loaded for."""
    assert step(tmp_path)["outcome"] == "stored"
    other = step(tmp_path, device=1)
    assert (other["outcome"], other["taken"]) == ("hit", 0)
    again = step(tmp_path, device=1)
    assert (again["outcome"], again["taken"], again["loaded"]) == ("hit", 1, True)


def test_of_another_machine(tmp_path: Path) -> None:
    """A note from another kind of machine is not used, and is replaced."""
    step(tmp_path)
    (note,) = notes(tmp_path)
    _, key, around = note.read_text().split("\n", 2)
    written(note, f"{key}\n{json.dumps(json.loads(around) | {'machine': 'another'})}")
    said = step(tmp_path)
    assert (said["outcome"], said["begun"]) == ("hit", 0)
    again = step(tmp_path)
    assert (again["outcome"], again["begun"], again["taken"]) == ("hit", 1, 1)


@pytest.mark.parametrize("note", ["", "jit_step", "jit_step\n{", 'jit_step\n{"devices":[9]}', "\n", "x" * 2_000_000])
def test_notes_that_say_nothing(tmp_path: Path, note: str) -> None:
    """Malformed notes are ignored, and the program starts warm all the same."""
    step(tmp_path)
    (path,) = notes(tmp_path)
    written(path, note)
    said = step(tmp_path)
    assert (said["outcome"], said["begun"]) == ("hit", 0)


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_an_executable_that_cannot_be_loaded(tmp_path: Path, how: str) -> None:
    """A damaged or missing executable is found once, by the call that needs it, and compiled again."""
    step(tmp_path)
    directory = open_root(tmp_path).directory(Kind.EXECUTABLES)
    (entry,) = directory.glob("jit_step-*-cache")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 0xFF
    entry.write_bytes(data)
    if how == "gone":
        entry.unlink()
        entry.with_name(entry.name.replace("-cache", "-atime")).unlink()
    said = step(tmp_path)
    assert (said["outcome"], said["begun"], said["hits"]) == ("hit", 0, 0)
    again = step(tmp_path)
    assert (again["outcome"], again["taken"], again["loaded"]) == ("hit", 1, True)
    check_clean(tmp_path)


def test_what_lapack_needs_comes_first(tmp_path: Path) -> None:
    """LAPACK is initialised before a program that calls it is loaded."""
    program = PROGRAM.replace("jnp.tanh(x @ x) * RATE", "jnp.linalg.svd(x)[0] * RATE")
    said = [run(program, on_device(tmp_path), 2.0, 0, env=TWO_DEVICES).value for _ in range(2)]
    assert [each["outcome"] for each in said] == ["stored", "hit"] and said[1]["loaded"]
    assert said[1]["taken"] == 1
    assert said[0]["value"] == said[1]["value"]


def test_a_note_holds_until_another_one_takes_its_place(native: Root) -> None:
    """A note is returned unchanged until another one replaces it."""
    hints = Hints(native)
    assert hints.expected("step") == ""
    for note in ("jit_step-1\n{}", "jit_step-2\n{}"):
        hints.expect("step", note)
        assert hints.expected("step") == note
    assert hints.expected("other") == ""


def test_a_note_with_a_flipped_bit_is_none(native: Root) -> None:
    """A note with a flipped bit is ignored, since XLA could end the process because of it."""
    hints = Hints(native)
    hints.expect("step", "jit_step-1\n{}")
    (path,) = native.verdicts.iterdir()
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert hints.expected("step") == ""
    path.write_bytes(data)
    assert hints.expected("step") == "jit_step-1\n{}"
