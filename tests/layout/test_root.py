"""A root knows the paths in it."""

from pathlib import Path

from jcache.layout import Kind, Root


def test_directories_of_a_root() -> None:
    """A plain root has its executables in itself; all else lies in the same places."""
    native, plain = Root(Path("/r"), plain=False), Root(Path("/r"), plain=True)
    assert [str(native.directory(kind)) for kind in Kind] == ["/r/executables", "/r/traces-v1", "/r/graphs-v1"]
    assert [str(plain.directory(kind)) for kind in Kind] == ["/r", "/r/traces-v1", "/r/graphs-v1"]
    assert plain.ledger == native.ledger == Path("/r/.jcache/ledger.sqlite3")
    assert plain.runs == Path("/r/.jcache/runs")
