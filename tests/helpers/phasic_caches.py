"""A cache of phasic's, as it writes them, and the names in it."""

import shutil
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.shipping.archive import ArchiveWriter, item_name
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.manifest_codec import encode
from jcache.store.foreign.phasic import ADAPTER
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import NOW

DATA = Path(__file__).parent.parent / "data" / "phasic"
OLD_TAPE = DATA / "pushed_rev1.bin"
TRACE = "trace-6cc7ad021db079c0c19e052689bc018ec733744ae7cecfd17734257bfd3cca12"
TAPE = "elimination-6cc7ad021db079c0c19e052689bc018ec733744ae7cecfd17734257bfd3cca12"
SCC = "scc-e250fd2143cae3ebc1a455a27553aa13945935e7265f7f5159c20377e692579e"
GRAPH = "graph-46f61fbd197200ee2cb241b5bbb86380"
OTHER_GRAPH = "graph-6167bf071d6bf63f0b3e0af11c256166"
KEYS = {TRACE, TAPE, SCC, GRAPH, OTHER_GRAPH}
KINDS = {TRACE: Kind.TRACES, TAPE: Kind.TRACES, SCC: Kind.TRACES, GRAPH: Kind.GRAPHS, OTHER_GRAPH: Kind.GRAPHS}


def make_cache(home: Path) -> Path:
    """A home's ``.phasic_cache``."""
    tree = home / ".phasic_cache"
    for directory in ("graphs", "traces", "parameterized_reward_compute"):
        shutil.copytree(DATA / directory, tree / directory)
    return tree


def open_cache(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Open a store of the cache, with its state directory beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tree.parent / "state"))
    return Store(open_root(tree))


def place(tree: Path, key: str) -> Path:
    """Return the path of an entry's file."""
    return open_root(tree).place(KINDS[key], key)


def manifest_of(contents: Mapping[str, bytes], **more: Any) -> Manifest:
    """Return the manifest of an archive of phasic's, as any program could write it."""
    items = [Item(KINDS[key], key, len(data), digest(data), NOW, NOW) for key, data in contents.items()]
    whole: dict[str, Any] = {"jcache": "0.1.0", "root": "/x", "directory": "/x", "layout": "phasic"}
    return Manifest(**(whole | {"items": tuple(sorted(items))} | more))


def stream_of(contents: Mapping[str, bytes]) -> bytes:
    """An archive of phasic's with these bytes under these keys."""
    stream, manifest = BytesIO(), manifest_of(contents)
    writer = ArchiveWriter(stream)
    writer.write_manifest(encode(manifest))
    for item in manifest.items:
        writer.write_member(item_name(item, ADAPTER), item.bytes, [contents[item.key]])
    writer.close()
    return stream.getvalue()


def findings(store: Store) -> dict[str | None, str]:
    """Return the findings of a verification as keys, or names of files, with damages."""
    result = verify(store, VerifyRequest(grace_ns=0))
    return {finding.key or finding.path.name: finding.damage.value for finding in result.findings}
