"""`info`, `ls`, `du`, `prune` and `verify` with a URL as root."""

from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.remote.client import open_remote
from jcache.remote.names import GENERATIONS, MANIFESTS, entry_name
from tests.helpers.command_line import Jcache
from tests.helpers.entries import key
from tests.helpers.imports import content, populated
from tests.helpers.remote_servers import S3Server, web_server


@pytest.fixture
def url(jcache: Jcache, tmp_path: Path) -> str:
    """A store with nine entries and a generation."""
    root, url = populated(tmp_path / "root", count=3), f"file://{tmp_path}/store"
    assert jcache("push", url, "--root", root.path).code == 0
    assert jcache("push", url, "--as", "night", "--root", root.path).code == 0
    return url


def test_info(jcache: Jcache, url: str) -> None:
    """It tells entries and bytes by kind and namespace, and the generations; signatures are no manifests."""
    with open_remote(url) as remote:
        remote.transport.put(f"{MANIFESTS}a.json.sig", b"a signature", {}, replace=False)
        remote.transport.put(f"{GENERATIONS}not one", b"foreign", {}, replace=False)
    told = jcache("info", "--root", url, "--json").json
    assert {name: group["entries"] for name, group in told["groups"].items()} == {
        "executables/unknown_unknown_unknown": 3, "graphs": 3, "traces": 3,
    }  # fmt: skip
    assert told["root"] == url and told["generations"] == ["night"] and told["manifests"] == 1
    text = jcache("info", "--root", url)
    assert text.code == 0 and "night" in text.out and "graphs" in text.out
    assert jcache("info", "--root", url, "--all").code == 2


def test_ls(jcache: Jcache, url: str) -> None:
    """Filters, orders, limits and columns are those of a root."""
    assert len(jcache("ls", "--root", url, "-q").out.splitlines()) == 9
    found = jcache("ls", "kind=traces", "--sort", "key", "--limit", "2", "--root", url, "--json").json["entries"]
    assert [one["key"] for one in found] == sorted(map(key, (1000, 1001, 1002)))[:2]
    assert all(one["kind"] == "traces" and one["namespace"] == "" for one in found)
    table = jcache("ls", "--root", url, "--columns", "key,size,jaxlib")
    assert table.code == 0 and "9 entries" in table.err
    assert jcache("ls", "name=nothing", "--root", url).err == "No entries.\n"


def test_du(jcache: Jcache, url: str) -> None:
    """Sums by kind, function, device and jaxlib are those of the entries; runs are not known."""
    told = jcache("du", "--by", "kind", "--root", url, "--json").json
    assert {group["name"]: group["entries"] for group in told["groups"]} == dict.fromkeys(Kind, 3)
    for by in ("function", "device", "jaxlib"):
        assert jcache("du", "--by", by, "--root", url).code == 0
    assert jcache("du", "--by", "run", "--root", url).code == 2


def test_prune(jcache: Jcache, url: str) -> None:
    """The dry run is the plan that the prune executes; young entries stay without --grace."""
    wanted = ("prune", "--max-entries", "4", "--root", url)
    young = jcache(*wanted)
    assert young.code == 0 and "Kept 9 entries" in young.out and "stored within the grace age" in young.out
    dry = jcache(*wanted, "--grace", "0s", "--dry-run", "--json").json
    done = jcache(*wanted, "--grace", "0s", "--json").json
    assert dry["removed"] == done["removed"] and done["removed_entries"] == 5 and done["root"] == url
    assert len(list(open_remote(url).list())) == 4
    for option in (("--xla",), ("--min-free", "1G"), ("--legacy",), ()):
        assert jcache("prune", *option, "--root", url).code == 2
    assert jcache("prune", "--max-size", "1G", "--grace", "1h", "--root", url.removeprefix("file://") + "/..").code in (
        2,
        10,
    )


def test_verify(jcache: Jcache, url: str, tmp_path: Path) -> None:
    """Damage is found with exit code 1; --repair removes it, and the next push stores it again."""
    assert jcache("verify", "--root", url).code == 0
    file = tmp_path / "store" / entry_name(Kind.TRACES, "", key(1000))
    file.write_bytes(content(Kind.TRACES, key(1001)))
    found = jcache("verify", "--root", url)
    assert found.code == 1 and "changed" in found.out and "--repair" in found.err
    told = jcache("verify", "--root", url, "--json").json
    assert not told["clean"] and [one["key"] for one in told["findings"]] == [key(1000)] and told["entries"] == 9
    assert jcache("verify", "--root", url, "--ignore", "changed").code == 0
    assert jcache("verify", "--root", url, "--repair").code == 0
    assert jcache("verify", "--root", url, "--subset", "1/7").code == 2
    assert jcache("push", url, "--root", tmp_path / "root", "--json").json["entries"]["new"] == 1


@pytest.mark.parametrize("name", ["info", "ls", "du", "verify"])
def test_plain_http_cannot_list(jcache: Jcache, tmp_path: Path, name: str) -> None:
    """A store that cannot list is refused in a sentence."""
    with web_server(tmp_path / "web") as server:
        done = jcache(name, "--root", server.url)
        assert done.code == 2 and "cannot list" in done.err.replace("\n", " ")


def test_other_commands_name_those_that_take_a_url(jcache: Jcache) -> None:
    """A command that is about directories says so, without the password of the URL."""
    done = jcache("stats", "--root", "https://me:hush@host/x")
    assert (
        done.code == 10 and "info, ls, du, prune and verify" in done.err.replace("\n", " ") and "hush" not in done.err
    )


@pytest.mark.full
def test_s3(jcache: Jcache, s3: S3Server, tmp_path: Path) -> None:
    """The same on a real server; one who may only read cannot prune."""
    root, url = populated(tmp_path / "root", count=3), f"s3://jcache/{tmp_path.name}"
    assert jcache("push", url, "--root", root.path, env=s3.writer).code == 0
    assert len(jcache("ls", "--root", url, "-q", env=s3.reader).out.splitlines()) == 9
    assert jcache("verify", "--root", url, env=s3.reader).code == 0
    wanted = ("prune", "--max-entries", "2", "--grace", "0s", "--root", url)
    assert jcache(*wanted, env=s3.reader).code == 1
    assert jcache(*wanted, env=s3.writer).code == 0
    assert len(jcache("ls", "--root", url, "-q", env=s3.reader).out.splitlines()) == 2
    assert jcache("prune", "--max-entries", "0", "--grace", "0s", "--root", url, env=s3.writer).code == 0


@pytest.mark.parametrize("words", ["info", "ls", "du", "verify", "prune --max-size 1GB", "pull"])
def test_a_directory_that_is_not_there(words: str, jcache: Jcache, tmp_path: Path) -> None:
    """A mistyped directory is no empty store, and is not made."""
    url = f"file://{tmp_path}/stroe"
    place = [url, "--root", tmp_path / "root"] if words == "pull" else ["--root", url]
    done = jcache(*words.split(), *place)
    assert done.code == 10 and "There is no directory" in done.err and f"jcache push {url}" in done.err
    assert not (tmp_path / "stroe").exists() and done.out == ""
