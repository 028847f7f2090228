"""The manifest of an archive as values: the program whose files it names."""

import pytest

from jcache.errors import BadArchive, InvalidValue
from jcache.shipping.archive.manifest_codec import decode, encode
from tests.helpers.phasic_caches import (
    GRAPH,
    manifest_of,
)


@pytest.mark.parametrize(
    ("key", "layout"),
    [
        ("graph-../../../x", "phasic"),
        ("graph-46f61fbd", "phasic"),
        ("jit_step-" + "0" * 64, "phasic"),
        (GRAPH, None),
        (GRAPH, "nobody's"),
    ],
)
def test_a_manifest_names_the_files_of_one_program(key: str, layout: str | None) -> None:
    """Names that its program would not write, of no program or of another one, are refused before anything is read."""
    item = manifest_of({GRAPH: b"{}"}).items[0]._replace(key=key)
    text = encode(manifest_of({GRAPH: b"{}"})).replace(f'"key":"{GRAPH}"'.encode(), f'"key":"{key}"'.encode())
    name = "null" if layout is None else f'"{layout}"'
    with pytest.raises(BadArchive):
        decode(text.replace(b'"layout":"phasic"', f'"layout":{name}'.encode()))
    with pytest.raises(InvalidValue):
        encode(manifest_of({}, items=(item,), layout=layout))
