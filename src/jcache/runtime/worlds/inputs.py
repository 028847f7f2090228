"""Components of a world for the files that the program has read before the call, such as its configuration.

A file counts item by item: a JSON object by the paths of its values, another text by its lines, each under the name
before its first ``:`` or ``=``. So what is learnt about one setting, which is another one at each start, says nothing
of the others.

    inputs                          the names of the files
    input FILE                      the digest of a file with many items
    input FILE: (settings)          the names of the items of another file
    input FILE: ITEM                the digest of an item
    input FILE: (layout)            the digest of the blanks and ends of lines between the items of a JSON object

Of a short series, such as ``run-7/config.yaml``, each file has the name of its place, such as ``run-#/config.yaml``: at
the next start, ``run-8/config.yaml`` is compared with it.
"""

# ruff: noqa: ANN401 - JSON has values of any type

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from jcache import input_files
from jcache.fingerprint import origins
from jcache.input_files import InputFile
from jcache.runtime.worlds.digests import is_secret, short

ALL: Final = "inputs"
INPUT: Final = "input "
SETTINGS: Final = "(settings)"
LAYOUT: Final = "(layout)"
_MOST_ITEMS: Final = 200  # of a file; one with more counts as a whole
_MOST_IN_ALL: Final = 1_000
_MOST_OF_SERIES: Final = 8  # a longer one is data, whose files keep their names
_OF_TESTS: Final = frozenset({".pytest_cache", ".hypothesis"})  # directories that change with each run of tests
_NAMED: Final = re.compile(r"""\s*["']?([A-Za-z_][\w.\-/]{0,60})["']?\s*[:=](?![:=/]*\s*$)(?!//)""")
_VARIABLE: Final = re.compile(r"\$\{?(?:[\w.]+:)?([A-Za-z_]\w*)")  # as in ``$HOME`` and ``${oc.env:HOME}``
_VARYING: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9a-f]{8,}|\d+")  # identifiers, numbers
_TIMESTAMP: Final = re.compile(r"\b1\d{12,18}\b|\b1\d{9}\.\d")  # milliseconds and less since 1970
_NO_SPACE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')
_LINE: Final = re.compile(r"line \d+(#\d+)?")


class _Text(NamedTuple):
    """A text.

    Attributes:
        whole: the digest of all of it.
        items: the digests of its items by name; empty if there are too many.
        variables: the names of environment variables that it may name.
    """

    whole: str
    items: dict[str, str]
    variables: set[str]


class Inputs:
    """The input files of this process."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[InputFile, _Text]] = {}
        no_files: dict[str, InputFile] = {}
        self._taken = "", no_files, dict[str, str]()  # the last directory, files and components

    def take(self, top: str) -> dict[str, str]:
        """Return the components.

        Args:
            top: the directory of the program.
        """
        files = input_files.files()
        if self._taken[:2] != (top, files):
            self._taken = top, files, self._components(top, files)
        return self._taken[2]

    def variables(self) -> set[str]:
        """Return the names of environment variables that the files may name, as far as they were taken."""
        return set[str]().union(*(text.variables for _, text in self._texts.values()))

    def _components(self, top: str, files: Mapping[str, InputFile]) -> dict[str, str]:
        texts: dict[str, _Text] = {}
        for path, file in files.items():
            name = _shown(path, file.name, top)
            while name in texts:  # a relative path, from another directory
                name += "#"
            if name is not None:
                texts[name] = self._text(path, file)
        found: dict[str, str] = {}
        placed = _placed(texts)
        for name, text in sorted(placed.items(), key=lambda each: (len(each[1].items), each[0])):
            if text.items and len(found) + len(text.items) <= _MOST_IN_ALL:
                found[f"{INPUT}{name}: {SETTINGS}"] = _short("\n".join(text.items))
                found |= {f"{INPUT}{name}: {item}": digest for item, digest in text.items.items()}
            else:
                found[INPUT + name] = text.whole
        return found | {ALL: _short("\n".join(sorted(map(_masked, texts))))} if texts else found

    def _text(self, path: str, file: InputFile) -> _Text:
        known = self._texts.get(path)
        if known is None or known[0] is not file:
            known = self._texts[path] = file, _text_of(file.content)
        return known[1]


def told_otherwise(labels: Iterable[str], one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Return those of the differing components of files that one world lacks and another component tells of.

    The names of all files tell that a file is missing, and those of its settings that a line is, or one of a series. A
    setting of any other name tells by itself that it is new, or gone.

    Args:
        labels: the labels of components in which the worlds differ.
        one: the components of a world.
        other: those of another one.
    """
    found = set()
    for lacking in (one, other):
        series: set[str] | None = None  # the names of settings without their numbers
        for label in [each for each in labels if each not in lacking]:
            if _is_of_missing_file(label, lacking):
                found.add(label)
            elif (masked := _masked(label)) != label:
                if series is None:
                    series = {_masked(each) for each in lacking if each.startswith(INPUT)}
                found.update({label} if masked in series else ())
    return found


def _is_of_missing_file(label: str, lacking: Mapping[str, str]) -> bool:
    """Return whether a component is of a file that a world lacks or has as a whole, or is a line without a name."""
    file, _, item = label.removeprefix(INPUT).partition(": ")
    return not item or item == SETTINGS or f"{INPUT}{file}: {SETTINGS}" not in lacking or bool(_LINE.fullmatch(item))


def _masked(name: str) -> str:
    return _VARYING.sub("#", name)


def _placed(texts: Mapping[str, _Text]) -> dict[str, _Text]:
    """Return the texts by other names: each of a short series has the name of the series, with primes for its place."""
    found: dict[str, _Text] = {}
    lengths = Counter(map(_masked, texts))
    for name in sorted(texts, key=lambda name: (len(name), name)):  # 9 before 10
        label = masked = _masked(name)
        while label in found:
            label += "'"
        found[label if lengths[masked] <= _MOST_OF_SERIES else name] = texts[name]
    return found


def _shown(path: str, given: str, top: str) -> str | None:
    """Return the name of a file in a world; None for one of Python or of tests, and for a user's setting on this host.

    Args:
        path: its absolute path.
        given: its path as the program gave it.
        top: the directory of the program.
    """
    if origins.of_path(path) or not _OF_TESTS.isdisjoint(path.split(os.sep)):
        return None
    home = os.path.expanduser("~")
    tops = [each for each in (top, os.path.realpath(top)) if not home.startswith(os.path.commonpath([path, each]))]
    if tops:  # below the program's directory, or beside it
        return min((os.path.relpath(path, each) for each in tops), key=lambda name: name.count(os.pardir))
    if not os.path.isabs(given):
        return given
    inner = path.removeprefix(os.path.join(home, ""))
    if inner == path:
        return path
    return None if inner[0] == "." else f"~/{inner}"


def _text_of(content: bytes) -> _Text:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    items = {
        name: "" if is_secret(name, value) or _is_timestamp(name, value) else _short(value)
        for name, value in _items(text)
    }
    return _Text(_short(text), items if len(items) <= _MOST_ITEMS else {}, {*_VARIABLE.findall(text)})


def _is_timestamp(name: str, value: str) -> bool:
    """Return whether an item says when a file was written, such as those of orbax's checkpoints."""
    return "timestamp" in name.lower() and bool(_TIMESTAMP.search(value))


def _short(text: str) -> str:
    return short(text.encode(errors="surrogatepass"))


def _items(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the items of a text; no name occurs twice."""
    if text.lstrip()[:1] == "{":
        try:
            leaves = [*_leaves(json.loads(text, object_pairs_hook=_unique, parse_float=Decimal), "")]
            yield from [(LAYOUT, _NO_SPACE.sub("", text)), *leaves]  # a setting of that name takes its place
            return
        except (ValueError, RecursionError):
            pass
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        named = _NAMED.match(line)
        name = named[1] if named else f"line {number}"
        count = counts[name] = counts.get(name, 0) + 1
        yield name if count == 1 else f"{name}#{count}", line


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of the values in nested JSON objects."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            part = json.dumps(name) if "." in name or not name else name
            yield from _leaves(each, f"{path}.{part}" if path else part)
    else:
        yield path, repr(value)
