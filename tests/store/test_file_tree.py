"""Directories are measured and removed with all below them, and no link is followed."""

from pathlib import Path

from jcache.layout import Root
from jcache.store import file_tree
from jcache.store.directories import opened


def test_the_size_of_a_tree(tmp_path: Path, beyond: Path) -> None:
    """The size of a tree counts files below it, and links as themselves; a missing path counts nothing."""
    (tmp_path / "t" / "a" / "b").mkdir(parents=True)
    (tmp_path / "t" / "a" / "b" / "f").write_bytes(b"12345")
    (tmp_path / "t" / "g").write_bytes(b"123")
    (tmp_path / "t" / "link").symlink_to(beyond)
    assert file_tree.tree_size(tmp_path / "t") == (3, 8 + len(str(beyond)))
    assert file_tree.tree_size(tmp_path / "t" / "g") == (1, 3)
    assert file_tree.tree_size(tmp_path / "nowhere") == (0, 0)


def test_trees_are_removed_without_following_links(tmp_path: Path, beyond: Path) -> None:
    """A link is removed as a link, at the top and below."""
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "f").write_bytes(b"12345")
    (tmp_path / "t" / "link").symlink_to(beyond)
    (tmp_path / "link").symlink_to(beyond)
    (tmp_path / "f").write_bytes(b"123")
    with opened(Root(tmp_path, plain=True), tmp_path) as directory:
        assert file_tree.remove_tree("t", directory=directory) == 5 + len(str(beyond))
        assert file_tree.remove_tree("link", directory=directory) == len(str(beyond))
        assert file_tree.remove_tree("f", directory=directory) == 3
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("beyond", "plain")] == []
