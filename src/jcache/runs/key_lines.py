"""Keep the lines of a process that say what its keys were made of.

`jcache.runs.recorder.key_recorder` has the grammar of the lines. They come from a file of the program's process and may
be anything: `jcache.runs.record.record_from` checks the record that is made of them.
"""

from __future__ import annotations

from typing import Any, Final

from jcache.runs.record import COMPUTATION

Line = dict[str, Any]
KEY_EVENTS: Final = frozenset({"process", "options", "value", "parts", "key"})
_MAX_KEYS: Final = 4096  # of a process; a program with more is explained by the first of them
_MAX_VALUES: Final = 4096


class KeyLines:
    """What the keys of a process were made of.

    Attributes:
        process: the line of the process; empty if there is none.
        options: the values of JAX's options, by their identifiers.
        values: readable values of parts, by the name of the part and by their hash.
        parts: hashes of parts of keys, by their identifiers.
        by_key: the line of each key.
    """

    def __init__(self) -> None:
        self.process: Line = {}
        self.options: dict[str, dict[str, str]] = {}
        self.values: dict[str, dict[str, str]] = {}
        self.parts: dict[str, dict[str, str]] = {}
        self.by_key: dict[str, Line] = {}

    def add(self, line: Line) -> None:
        """Keep a line whose event is one of `KEY_EVENTS`."""
        event = line["e"]
        if event == "process":
            self.process = line
        elif event == "options":
            self.options[line["id"]] = line["values"]
        elif event == "value":
            of_part = self.values.setdefault(line["part"], {})
            if len(of_part) < _MAX_VALUES:
                of_part[line["hash"]] = "".join(map(str, line["value"]))
        elif event == "parts":
            self.parts[line["id"]] = line["parts"]
        elif event == "key" and len(self.by_key) < _MAX_KEYS:
            self.by_key[line["key"]] = line

    def parts_of(self, line: Line) -> dict[str, str]:
        """Return the hashes of all parts of the key of a line; none for an empty or malformed line."""
        others = self.parts.get(line.get("parts", ""))
        return {} if others is None else {COMPUTATION: str(line.get("computation", "")), **others}

    def take_over(self, key: str, other: str) -> None:
        """Give a key that depends on a path the parts of the key that does not."""
        if other in self.by_key:
            self.by_key[key] = self.by_key[other]
