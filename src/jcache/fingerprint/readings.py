"""Recognition of clock readings since this process began, among numbers and in texts such as names of runs.

The path of a temporary file, which has a random name, is recognised as well, and so is a random UUID.
"""

# ruff: noqa: ANN401 - programs hold anything

import functools
import os
import re
import sys
import time
from typing import Any, Final, NamedTuple

from jcache import clock

_LARGE: Final = 10**9
_NANOSECONDS: Final = 10**10
_MILLISECOND: Final = 10**6  # in nanoseconds; a number that somebody wrote is a multiple of it
_BEGAN: Final = clock.monotonic() - (clock.now_ns() - clock.began_ns()) / 1e9  # monotonic start of this process
LOWEST: Final = min(_BEGAN, _LARGE)
"""Lower bound of clock readings: no smaller number is one."""
_LONGEST: Final = 300  # characters of a text that names a time
_FEWEST: Final = 8  # digits of a month, a day, an hour and a minute
_MOST: Final = 750  # minutes after the start of this process, and as many before now
_SECONDS: Final = re.compile(r"(?<!\d)(\d{10})(?:\d{3}|\d{6}|\d{9})?(?!\d)")  # since 1970, perhaps with a fraction
_NAMES: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_MONTHS: Final = {name: f"{at:02}" for at, name in enumerate(_NAMES.split(), 1)}
_DIGITS: Final = re.compile("|".join([*_MONTHS, r"\d"]))
_DIGIT: Final = re.compile(r"\d")
_UUID: Final = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(-?)[0-9a-f]{4}\1[14][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}(?![0-9a-f])"
)
_SECOND: Final = re.compile(r"\D?([0-6]\d)(?:[.,]?(?:\d{6}|\d{3}))?(?: \d{4})?(?!\d)")  # after a minute
_RANDOM: Final = re.compile(r"(.*)[a-z0-9_]{8}((?:\.\w+)?)")
_FORMATS: Final = (  # a year before the month counts as well
    "%m%d%H%M", "%d%m%H%M", "%d%m%Y%H%M", "%d%m%y%H%M", "%m%d%Y%H%M", "%m%d%y%H%M"
)  # fmt: skip


class Readings:
    """Ranges of the clock readings since this process began."""

    def __init__(self) -> None:
        now, since = clock.now_ns(), clock.monotonic()
        age = since - _BEGAN + 1
        self._time = now / 1e9 - age, now / 1e9 + 1
        self._since = _BEGAN, since

    def clock_of(self, value: Any) -> str | None:
        """Return the name of the function of `time` that has returned a number; None for any other value."""
        if type(value) not in {float, int} or not self.has(type(value), value):
            return None
        if type(value) is float:
            return "time" if value >= self._time[0] else "perf_counter"
        if self._since[0] <= value / 1e9 <= self._since[1]:
            return "perf_counter_ns"
        return "time_ns" if value > self._time[0] * 1e8 else None

    def has(self, kind: type, value: Any) -> bool:
        """Return whether a value is such a reading.

        Args:
            kind: the exact type of the value.
            value: a number, in seconds or as an integer in a smaller unit; a text that names a time to the minute, a
                time of day to the second, or the seconds since 1970, or is the path of a temporary file, or has a
                UUID of version 1 or 4; anything else is no reading.
        """
        if kind is str:
            return self._is_in(value)
        if kind is float:
            low, high = self._since
            is_fine = bool(value * 1e5 % 1 != 0)  # finer than 10 µs: nobody wrote it
            return bool(value >= low) and ((value <= high and is_fine) or self._time[0] <= value <= self._time[1])
        if kind is not int or value < _LARGE:
            return False
        if value > _NANOSECONDS and self._since[0] <= value / 1e9 <= self._since[1]:
            return bool(value % _MILLISECOND)
        return any(self._time[0] - 1 <= value / unit <= self._time[1] for unit in (1, 1e3, 1e6, 1e9))

    def _is_in(self, text: str) -> bool:
        """Return whether a text contains a time since this process began, in any usual format."""
        if not _FEWEST <= len(text) <= _LONGEST:
            return False
        if _parts_of_temporary(text) is not None or _UUID.search(text):
            return True
        low, high = self._time
        minutes = _minutes(int(low // 60), int(high // 60))
        if not (_DIGIT.search(text) and minutes.hint.search(text)):
            return False
        if minutes.clock.search(text):
            return True
        if any(low - 1 <= int(each) <= high for each in _SECONDS.findall(text)):
            return True
        digits = "".join(each for each, _ in _digits(text))
        return len(digits) >= _FEWEST and any(each in digits for each in minutes.digits)

    def rest_of(self, value: Any) -> Any:
        """Return what a text that is a reading says besides, such as a learning rate in the name of a run; any other
        value as it is.
        """
        return self._without(_UUID.sub("", value)) if type(value) is str and self.has(str, value) else value

    def _without(self, text: str) -> str:
        if (found := _parts_of_temporary(text)) is not None:
            return "".join(found)
        low, high = self._time
        minutes, digits = _minutes(int(low // 60), int(high // 60)), _digits(text)
        all_digits = "".join(each for each, _ in digits)
        places = [(all_digits.find(each), len(each)) for each in minutes.digits if each in all_digits]
        if places:
            before = text[: digits[min(at for at, _ in places)][1].start()]
            after = text[digits[max(at + length for at, length in places) - 1][1].end() :]
            second = self._second(_SECOND.match(after))
            year = time.strftime("(?:20)?%y\\D?$", time.localtime(high))  # before a month
            text = re.sub(year, "", before) + (after if second is None else after[second.end() :])
        return _SECONDS.sub(lambda at: at[0] if not low - 1 <= int(at[1]) <= high else "", minutes.clock.sub("", text))

    def _second(self, found: re.Match[str] | None) -> re.Match[str] | None:
        """Return a number after a minute if it is a second since this process began."""
        low, high = self._time
        is_one = found is not None and any(
            low - 1 <= minute * 60 + int(found[1]) <= high + 1 for minute in range(int(low // 60), int(high // 60) + 1)
        )
        return found if is_one else None


def _digits(text: str) -> list[tuple[str, re.Match[str]]]:
    """Return the digits of a text, each with where it stands; the name of a month stands for two."""
    return [(digit, each) for each in _DIGITS.finditer(text) for digit in _MONTHS.get(each[0], each[0])]


def _parts_of_temporary(text: str) -> tuple[str, ...] | None:
    """Return the parts, without what is random, of a path in the temporary directory that `tempfile` may have made.

    Return None for any other text.
    """
    directory = getattr(sys.modules.get("tempfile"), "tempdir", None)  # where something has asked for it
    if type(directory) is not str or not text.startswith(os.path.join(directory, "")):
        return None
    first, _, further = text[len(directory) :].lstrip(os.sep).partition(os.sep)
    found = _RANDOM.fullmatch(first)
    return None if found is None else (*found.groups(), further)


class _Minutes(NamedTuple):
    """How texts name some minutes: a pattern that is in each such text, that of a time of day with seconds such as
    ``17-05-30``, and the digits of the minutes.
    """

    hint: re.Pattern[str]
    clock: re.Pattern[str]
    digits: frozenset[str]


@functools.lru_cache(1)
def _minutes(first: int, last: int) -> _Minutes:
    """Return how texts name the minutes from the first to the last since 1970, in local time and UTC."""
    minutes = range(first, last + 1)
    counted = {*minutes[:_MOST], *minutes[-_MOST:]}
    times = [made(60 * each) for each in counted for made in (time.localtime, time.gmtime)]
    seconds = os.path.commonprefix([f"{60 * (first - 1)}", f"{60 * (last + 2)}"])  # noqa: RUF071  of digits
    hint = "|".join(sorted({f"{at.tm_hour:02}\\D?{at.tm_min:02}" for at in times} | {seconds}))
    of_day = "|".join(sorted({f"{at.tm_hour:02}(?=\\D{at.tm_min:02})" for at in times}))
    # between its parts stands the same sign, and no further part of a date follows, as in ``2017-07-14-02-40-00``
    clock_time = re.compile(f"(?<!\\d)(?:{of_day})(\\D)\\d\\d(?:\\1|(?<=h\\d\\d)m)[0-6]\\d(?!\\d|\\1\\d\\d(?!\\d))")
    return _Minutes(
        re.compile(hint), clock_time, frozenset(time.strftime(each, at) for at in times for each in _FORMATS)
    )
