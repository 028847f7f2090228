"""Clock readings since this process began are recognised, as numbers and in texts."""

import datetime
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

import pytest

from jcache.fingerprint.readings import LOWEST, Readings

FORMATS = [
    "%Y%m%d-%H%M%S", "%Y-%m-%dT%H:%M:%S.%f+00:00", "run__1__%b%d_%H-%M-%S_host", "%d/%m/%Y %H:%M", "%y%m%d%H%M", "%c",
    "outputs/%Y-%m-%d/%H-%M-%S", "exp_%d-%b-%y_%H.%M", "model-%m%d-%H%M.pkl", "%s", "%s123456", "lr0.1_%s.5",
    "%H-%M-%S", "run %H:%M:%S", "%d%m_%H%M", "%m/%d/%Y, %H:%M:%S", "%m/%d/%y %H:%M",
]  # fmt: skip
OTHERS = [
    "", "adam", "2026-11-27", "12:30", "1700000000", "4096" * 8, "sha256-" + "0a1b2c3d4e5f" * 5, "learning_rate_1",
    "2001-02-03 04:05:06", "9" * 10, "x" * 400, "Jan", "77-77-77",
]  # fmt: skip


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("zone", [None, datetime.UTC])
def test_a_text_that_names_the_present_minute_is_a_reading(layout: str, zone: datetime.tzinfo | None) -> None:
    """In local time and in UTC, in the usual formats; a minute before this process began is none."""
    old = 1_500_000_000.0
    if not 7_200 < (time.time() - old) % 86_400 < 79_200:  # a time of day near that of now is a reading
        old += 40_000
    now, before = (datetime.datetime.fromtimestamp(at, zone) for at in (time.time(), old))
    assert Readings().has(str, now.strftime(layout)) and not Readings().has(str, before.strftime(layout))


@pytest.mark.parametrize("layout", ["9999-77-%H/%M-40-00", "9999-77-%H-%M-40-00", "%H.%M-40"])
def test_parts_of_an_old_date_are_no_time_of_day(layout: str) -> None:
    """Though its day and hour are the present hour and minute: other signs stand between them, or more follows."""
    text = time.strftime(layout, time.gmtime())
    assert not Readings().has(str, text)


@pytest.mark.parametrize("layout", ["%Hh%Mm%S", "%H-%M-%S", "%H:%M:%S.123", "9999-77-88_%H-%M-%S", "%H.%M.%S.123456"])
def test_a_time_of_day_is_a_reading(layout: str) -> None:
    """To the second, with a fraction or without."""
    assert Readings().has(str, f"run {time.strftime(layout, time.gmtime())}")


AFTER_A_MINUTE = """
import time
from jcache.fingerprint.readings import Readings
now = time.localtime()
number = f"{(now.tm_sec + 30) % 60:02}"  # half a minute away, which this process is too young for
print(Readings().rest_of(f"{time.strftime('%Y%m%d-%H%M', now)}-{number}"), number)
print(Readings().rest_of(f"run_{int(time.time())}_seed1234567890"))
"""


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("between", ["_", " ", "/", "-lr"])
def test_what_a_text_says_besides_a_time_is_the_same_at_each_start(layout: str, between: str) -> None:
    """What the program puts before or after the time is left, with no digit of the time."""
    layout = layout.removesuffix("_host").removeprefix("run__1__").removeprefix("lr0.1_").removesuffix(".5")
    layout = layout.removesuffix("123456").removesuffix("+00:00")
    now = datetime.datetime.now()
    for before, after in (("run3", "_lr0.01"), ("a", "/b7.npz"), ("depth12", "")):
        left = Readings().rest_of(f"{before}{between}{now.strftime(layout)}{after}")
        assert left.startswith(before) and left.endswith(after)
        assert not any(map(str.isdecimal, left[len(before) : len(left) - len(after)])), left


@pytest.mark.parametrize("made", [uuid.uuid1, uuid.uuid4])
def test_a_text_with_a_random_uuid_is_a_reading(made: Callable[[], uuid.UUID]) -> None:
    """In both usual forms; what else the text says is left. One that is made from a name is none."""
    for each in (str(made()), made().hex):
        assert Readings().has(str, f"run-{each}_lr1") and Readings().rest_of(f"run-{each}_lr1") == "run-_lr1"
    for name in (uuid.uuid5(uuid.NAMESPACE_URL, "a"), uuid.uuid3(uuid.NAMESPACE_URL, "a")):
        assert not Readings().has(str, str(name)) and not Readings().has(str, f"{made().hex}0")


def test_a_number_after_a_minute_is_left_unless_it_is_a_second_of_this_process() -> None:
    """Such as the size of a batch; digits that are no time are left as well."""
    done = subprocess.run([sys.executable, "-c", AFTER_A_MINUTE], capture_output=True, text=True, check=True)
    rest, number, other = done.stdout.split()
    assert (rest, other) == (f"-{number}", "run__seed1234567890")


def test_what_the_path_of_a_temporary_file_says_besides() -> None:
    """Its prefix, suffix and what is below it are left."""
    top = tempfile.gettempdir()
    for name, left in (("run-abcd1234.npz", "run-.npz"), ("tmpabcd1234/weights/a", "tmpweights/a")):
        assert Readings().rest_of(os.path.join(top, name)) == left


def test_the_path_of_a_temporary_file_is_a_reading() -> None:
    """Its name is another one in each process; what the program itself names there is none."""
    with tempfile.TemporaryDirectory() as made, tempfile.NamedTemporaryFile(prefix="run-", suffix=".npz") as file:
        for path in (made, os.path.join(made, "weights", "a.npz"), file.name):
            assert Readings().has(str, path)
    top = tempfile.gettempdir()
    assert not any(Readings().has(str, path) for path in (top, os.path.join(top, "run"), f"x{made}", f"{top}-{made}"))


@pytest.mark.parametrize("name", ["perf_counter", "monotonic", "time", "perf_counter_ns", "monotonic_ns", "time_ns"])
def test_the_clock_of_a_reading_is_known(name: str) -> None:
    """A monotonic one is that of `time.perf_counter`; other numbers have none."""
    value = getattr(time, name)()
    assert Readings().clock_of(value) == name.replace("monotonic", "perf_counter")
    others = (value // 1000, -value, str(value), 0.25, 7, True, None, int(time.time()), int(1e3 * time.time()))
    assert [Readings().clock_of(each) for each in others] == [None] * len(others)


@pytest.mark.parametrize("text", OTHERS)
def test_another_text_is_none(text: str) -> None:
    """A date alone is none, since the program means it; nor is a long text, whatever it contains."""
    assert not Readings().has(str, text)
    assert not Readings().has(str, f"{text}{time.time()}".rjust(400))


@pytest.mark.parametrize("read", [time.time, time.time_ns, time.monotonic, lambda: int(1e3 * time.time())])
def test_numbers(read: Callable[[], float]) -> None:
    """A number that a clock of this process has shown is a reading; one from before is none, but what another clock
    shows in another unit: milliseconds since 1970, halved, are the nanoseconds of a machine that is up for 15 minutes.
    """
    value = read()
    assert Readings().has(type(value), value) and value >= LOWEST
    assert not all(Readings().has(type(value), value // part) for part in range(2, 1000))
    assert not Readings().has(bytes, b"%d" % value)
