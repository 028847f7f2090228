"""phasic's cache: graphs, elimination traces, and elimination tapes ready to run.

    TREE/                                          ~/.phasic_cache, or what PHASIC_CACHE_DIR names
      graphs/<32 hex>.json                           a graph by the hash of its callback      graph-<32 hex>
      traces/<64 hex>.pkl                            an elimination trace                     trace-<64 hex>
      traces/<64 hex>.json                           the same by phasic <= 0.21               trace_json-<64 hex>
      parameterized_reward_compute/<64 hex>.bin      a graph's elimination, mapped and run    elimination-<64 hex>
      parameterized_reward_compute/scc_<64 hex>.bin  of one of its components                 scc-<64 hex>

phasic itself has no index, lock or eviction: a file that is gone is made again, and a name is all that leads to it.
What the files hold is read by `jcache.store.foreign.phasic_content`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.layout import Kind
from jcache.store.foreign import Adapter

if TYPE_CHECKING:
    from jcache.findings import Fault

_HEX: Final = "[0-9a-f]"
_LOOKED_AT: Final = 1000  # names in directories that may be anybody's


class _Names(NamedTuple):
    """Files of one sort: what precedes and follows the digits in their names, and the word in their keys."""

    word: str
    kind: Kind
    before: str
    digits: int
    after: str


_SORTS: Final = (
    _Names("graph", Kind.GRAPHS, "graphs/", 32, ".json"),
    _Names("trace", Kind.TRACES, "traces/", 64, ".pkl"),
    _Names("trace_json", Kind.TRACES, "traces/", 64, ".json"),
    _Names("elimination", Kind.TRACES, "parameterized_reward_compute/", 64, ".bin"),
    _Names("scc", Kind.TRACES, "parameterized_reward_compute/scc_", 64, ".bin"),
)
_BY_WORD: Final = {sort.word: sort for sort in _SORTS}
_TEMPORARY = re.compile(rf"traces/{_HEX}{{64}}\.tmp|parameterized_reward_compute/(?:scc_)?{_HEX}{{64}}\.bin\.tmp.*")


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and not text.strip("0123456789abcdef")


class _Phasic(Adapter):
    __slots__ = ()
    name = "phasic"
    title = "phasic's cache"
    directories = ("graphs", "traces", "parameterized_reward_compute")

    def places(self, environment: Mapping[str, str]) -> list[str]:
        named = environment.get("PHASIC_CACHE_DIR")
        return [*([named] if named else []), "~/.phasic_cache"]

    def recognises(self, path: Path) -> bool:
        """Return whether its name, a directory that only phasic has, or a file in another one shows phasic's cache."""
        if (path / "parameterized_reward_compute").is_dir():
            return True
        present = [directory for directory in self.directories if (path / directory).is_dir()]
        if path.name == ".phasic_cache" and present:
            return True
        names = (f"{directory}/{file.name}" for directory in present for file in (path / directory).iterdir())
        return any(self.entry(name) is not None for name in islice(names, _LOOKED_AT))

    def entry(self, file_name: str) -> tuple[Kind, str] | None:
        for sort in _SORTS:
            if file_name.startswith(sort.before) and file_name.endswith(sort.after):
                digits = file_name[len(sort.before) : -len(sort.after)]
                if _is_hex(digits, sort.digits):
                    return sort.kind, f"{sort.word}-{digits}"
        return None

    def file_name(self, kind: Kind, key: str) -> str | None:
        word, _, digits = key.rpartition("-")
        sort = _BY_WORD.get(word)
        if sort is None or sort.kind is not kind or not _is_hex(digits, sort.digits):
            return None
        return f"{sort.before}{digits}{sort.after}"

    def is_temporary(self, file_name: str) -> bool:
        return _TEMPORARY.fullmatch(file_name) is not None

    def fault(self, kind: Kind, key: str, data: bytes, *, quick: bool) -> Fault | None:
        from jcache.store.foreign import phasic_content

        return phasic_content.fault_of(key, data, quick=quick)

    def facts(self, kind: Kind, key: str, data: bytes) -> dict[str, object]:
        from jcache.store.foreign import phasic_content

        return phasic_content.facts_of(key, data)

    def written_ns(self, kind: Kind, key: str, data: bytes) -> int | None:
        from jcache.store.foreign import phasic_content

        if kind is Kind.TRACES:
            return 0  # of the same graph phasic makes the same trace and tape, to the last bit
        return phasic_content.written_ns(data)

    def is_code(self, kind: Kind, key: str) -> bool:
        return key.startswith("trace-")


ADAPTER: Final = _Phasic()
