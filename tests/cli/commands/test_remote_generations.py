"""`ls --generations` and `rm --generations`: what `push --as` has stored is listed and removed."""

from pathlib import Path

import pytest

from jcache.remote.client import open_remote
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync.generations import push_generation, stored_generations
from jcache.store.store import Store
from tests.helpers.command_line import Jcache
from tests.helpers.imports import populated
from tests.helpers.signatures import allowed, needs_openssh, new_key, public
from tests.helpers.terminals import Terminal


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with two generations."""
    url = f"file://{tmp_path}/store"
    with Store(populated(tmp_path / "root", count=1)) as store, open_remote(url) as remote:
        for name in ("night-1", "night-2"):
            push_generation(store, remote, ExportRequest(), name)
    return url


def names(url: str) -> list[str]:
    with open_remote(url) as remote:
        return [one.name for one in stored_generations(remote)]


def test_they_are_listed(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """The table, JSON and -q have all of them, with sizes and who has signed."""
    table = jcache("ls", "--generations", "--root", url)
    assert table.code == 0 and "night-1" in table.out and "nobody" in table.out and "2 generations" in table.err
    (first, _) = jcache("ls", "--generations", "--root", url, "--json").json["generations"]
    size = (tmp_path / "store" / "v1" / "generations" / "night-1.jcache").stat().st_size
    assert (first["name"], first["bytes"], first["signature"], first["signed_by"]) == ("night-1", size, "none", None)
    assert jcache("ls", "--generations", "--root", url, "-q").out == "night-1\nnight-2\n"
    (tmp_path / "empty").mkdir()
    assert jcache("ls", "--generations", "--root", f"file://{tmp_path}/empty").err == "No generations.\n"


@needs_openssh
def test_who_has_signed_them(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """A signed one shows the fingerprint of its key, or the principal where the environment names the signers."""
    mine = new_key(tmp_path / "mine")
    signers = allowed(tmp_path, f"me@here {public(mine)}")
    assert jcache("push", url, "--as", "signed", "--sign", mine, "--root", tmp_path / "root").code == 0
    told = {one["name"]: one["signed_by"] for one in _listed(jcache, url)}
    assert told["signed"].startswith("SHA256:") and told["night-1"] is None
    told = {one["name"]: one["signed_by"] for one in _listed(jcache, url, JCACHE_REMOTE_SIGNERS=str(signers))}
    assert told["signed"] == "me@here"


def _listed(jcache: Jcache, url: str, **env: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = jcache("ls", "--generations", "--root", url, "--json", env=env).json["generations"]
    return found


def test_one_is_removed(jcache: Jcache, url: str) -> None:
    """A dry run changes nothing; with --yes, what is named goes, and the entries of the store and the others stay."""
    wanted = ("rm", "--generations", "night-1", "--root", url)
    dry = jcache(*wanted, "--dry-run")
    assert dry.code == 0 and "Would remove 1 generation" in dry.out and names(url) == ["night-1", "night-2"]
    refused = jcache(*wanted)
    assert refused.code == 2 and "confirm with --yes" in refused.err and names(url) == ["night-1", "night-2"]
    done = jcache(*wanted, "--yes", "--json").json
    assert done["removed"][0]["name"] == "night-1" and done["freed_bytes"] > 0 and names(url) == ["night-2"]
    again = jcache(*wanted, "--yes")
    assert again.code == 1 and "has no generation night-1" in again.err


def test_an_unknown_name_removes_nothing(jcache: Jcache, url: str) -> None:
    """If one of the names is unknown, the others stay as well."""
    done = jcache("rm", "--generations", "night-1", "nothing", "--yes", "--root", url)
    assert done.code == 1 and "Nothing was removed" in done.err.replace("\n", " ")
    assert names(url) == ["night-1", "night-2"]


@pytest.mark.full
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1)])
def test_it_asks_on_a_terminal(url: str, answer: str, code: int) -> None:
    """It names what would go, and removes it after a yes alone."""
    terminal = Terminal("rm", "--generations", "night-2", "--root", url)
    assert "night-2" in terminal.answer(answer)
    assert terminal.finish()[0] == code
    assert names(url) == ["night-1"] + ["night-2"] * code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ls", "--generations", "--root", "."), "--generations needs a store"),
        (("ls", "--generations"), "--generations needs a store"),
        (("ls", "--generations", "--limit", "3", "--root", "file:///x"), "--limit selects entries"),
        (("ls", "--generations", "train", "--root", "file:///x"), "--filter selects entries"),
        (("rm", "--generations", "--filter", "used>3d", "--root", "file:///x"), "--filter selects entries"),
        (("rm", "--generations", "--root", "file:///x"), "needs the names"),
        (("ls", "--generations", "--root", "http://127.0.0.1:9"), "plain HTTP, which cannot list"),
    ],
)
def test_what_makes_no_sense(jcache: Jcache, words: tuple[str, ...], said: str) -> None:
    """Options about entries, no name, a directory and plain HTTP are refused in one sentence."""
    done = jcache(*words)
    assert done.code == 2 and said in done.err.replace("\n", " "), done.err
