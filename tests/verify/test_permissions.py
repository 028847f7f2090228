"""Who can replace the native code in a root."""

import grp
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace as Fields

import pytest

from jcache.findings import Damage, Remedy
from jcache.layout import Kind, Root
from jcache.verify.permissions import Exposure, check_directories, check_entries

FILE = stat.S_IFREG


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define users: ann (1000) has her own group; ben (1001) is in the group all (100), as is ann."""
    people = {1000: Fields(pw_name="ann", pw_gid=1000), 1001: Fields(pw_name="ben", pw_gid=100)}
    groups = {
        1000: Fields(gr_name="ann", gr_mem=[]),
        100: Fields(gr_name="users", gr_mem=["ann"]),
        1002: Fields(gr_name="cy", gr_mem=["ann"]),
        0: Fields(gr_name="root", gr_mem=[]),
    }
    people |= {0: Fields(pw_name="root", pw_gid=0), 1002: Fields(pw_name="cy", pw_gid=1002)}
    monkeypatch.setattr(pwd, "getpwuid", people.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", groups.__getitem__)


@pytest.mark.parametrize(
    ("mode", "owner", "group", "writers"),
    [
        (0o644, 1000, 1000, None),
        (0o664, 1000, 1000, None),
        (0o664, 1001, 100, "The group users"),
        (0o664, 1000, 100, "The group users"),
        (0o664, 1002, 1002, "The group cy"),
        (0o664, 4711, 4711, "The group 4711"),
        (0o666, 1000, 1000, "Everyone"),
        (0o602, 1000, 1000, "Everyone"),
        (0o1777, 0, 0, "Everyone"),
    ],
)
def test_writers(mode: int, owner: int, group: int, writers: str | None) -> None:
    """Everyone may write, or a group, unless the owner is its only member."""
    assert Exposure(FILE | mode, owner, group).writers == writers


def test_a_safe_root_has_no_findings(native: Root, plain: Root) -> None:
    """A root that only its owner can write has no findings, and missing directories are no findings."""
    for root in (native, plain):
        root.path.chmod(0o755)
        root.directory(Kind.EXECUTABLES).chmod(0o755)
        assert not list(check_directories(root))


@pytest.mark.parametrize("where", ["root", "executables", "traces", "state"])
def test_directories_that_others_can_write(native: Root, where: str) -> None:
    """The root, a kind's directory or `.jcache` that everyone can write is a finding with the command that ends it."""
    directory = {
        "root": native.path,
        "executables": native.directory(Kind.EXECUTABLES),
        "traces": native.directory(Kind.TRACES),
        "state": native.state,
    }[where]
    directory.mkdir(exist_ok=True)
    directory.chmod(0o777)
    (finding,) = check_directories(native)
    assert (finding.damage, finding.path, finding.remedy) == (Damage.WRITABLE, directory, Remedy.BY_HAND)
    assert "Everyone" in finding.evidence and "777" in finding.evidence
    assert finding.advice == f"chmod go-w {directory}"


def test_a_plain_root_is_named_once(plain: Root) -> None:
    """The root and the directory of its executables are one."""
    plain.path.chmod(0o777)
    assert len(list(check_directories(plain))) == 1


@pytest.mark.parametrize(("us", "owner", "found"), [(1000, 1000, 0), (1000, 0, 0), (1000, 1001, 1), (0, 1001, 0)])
def test_directories_of_others(plain: Root, monkeypatch: pytest.MonkeyPatch, us: int, owner: int, found: int) -> None:
    """A root of another user is a finding, unless that user is root; root may look after every root."""
    real = os.stat(plain.path)
    theirs = os.stat_result([real.st_mode, real.st_ino, real.st_dev, real.st_nlink, owner, 1000, *real[6:10]])
    monkeypatch.setattr(os, "geteuid", lambda: us)
    monkeypatch.setattr(os, "stat", lambda path: theirs if path == plain.path else _absent(path))
    findings = list(check_directories(plain))
    assert [finding.damage for finding in findings] == [Damage.OWNER] * found
    assert all("ben" in finding.evidence for finding in findings)


def owned(monkeypatch: pytest.MonkeyPatch, us: int, owners: dict[Path, tuple[int, int, int]]) -> None:
    """Makes files look as if they had some modes, owners and groups."""

    def looked_at(path: Path) -> os.stat_result:
        if path not in owners:
            return _absent(path)
        mode, owner, group = owners[path]
        return os.stat_result([mode, 1, 1, 1, owner, group, 0, 0, 0, 0])

    monkeypatch.setattr(os, "geteuid", lambda: us)
    monkeypatch.setattr(os, "stat", looked_at)


@pytest.mark.parametrize("us", [0, 1000])
@pytest.mark.parametrize("where", ["executables", "state", "ledger", "pins"])
def test_parts_of_a_root_that_are_somebody_else_s(
    native: Root, monkeypatch: pytest.MonkeyPatch, us: int, where: str
) -> None:
    """A directory or the ledger in a root of ann's that ben owns is a finding, also to root."""
    path = native.directory(Kind.EXECUTABLES) if where == "executables" else getattr(native, where)
    kind = stat.S_IFREG if where == "ledger" else stat.S_IFDIR
    owned(monkeypatch, us, {native.path: (stat.S_IFDIR | 0o755, 1000, 1000), path: (kind | 0o755, 1001, 100)})
    (finding,) = check_directories(native)
    assert (finding.damage, finding.path) == (Damage.OWNER, path) and "ben owns it" in finding.evidence


@pytest.mark.parametrize(("name", "can"), [("ledger", "change what is on record"), ("settings", "change its limits")])
def test_a_state_file_that_others_can_write(native: Root, name: str, can: str) -> None:
    """Digests and old pins are in the ledger, and limits, to which prune keeps, in the settings."""
    path = getattr(native, name)
    native.state.mkdir()
    path.write_text("")
    path.chmod(0o666)
    (finding,) = check_directories(native)
    assert (finding.damage, finding.path) == (Damage.WRITABLE, path)
    assert can in finding.evidence and finding.advice == f"chmod go-w {path}"


def test_a_root_that_a_team_shares(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a group of several users may write, this is the finding, not the owners of the entries."""
    shared = stat.S_IFDIR | stat.S_ISGID | 0o775
    executables = native.directory(Kind.EXECUTABLES)
    owned(
        monkeypatch,
        1000,
        {
            native.path: (shared, 1001, 100),
            executables: (shared, 1000, 100),
            native.state: (shared, 1001, 100),
            native.ledger: (FILE | 0o664, 1001, 100),
        },
    )
    assert {finding.damage for finding in check_directories(native)} == {Damage.WRITABLE}
    exposures = {Exposure(FILE | 0o664, 1001, 100): 3, Exposure(FILE | 0o664, 1000, 100): 2}
    assert {finding.damage for finding in check_entries(executables, Kind.EXECUTABLES, exposures)} == {Damage.WRITABLE}
    foreign = {Exposure(FILE | 0o644, 1001, 4711): 1}
    assert {finding.damage for finding in check_entries(executables, Kind.EXECUTABLES, foreign)} == {Damage.OWNER}


def _absent(path: Path) -> os.stat_result:
    raise FileNotFoundError(path)


def test_entries_are_summed_up(tmp_path: Path) -> None:
    """One finding sums up all entries that others can change, and one those of each other owner."""
    us = os.stat(tmp_path).st_uid
    exposures = {
        Exposure(FILE | 0o644, us, 1000): 5000,
        Exposure(FILE | 0o666, us, 1000): 1200,
        Exposure(FILE | 0o606, us, 1000): 34,
        Exposure(FILE | 0o644, us + 1001, 100): 3,
        Exposure(FILE | 0o644, 0, 0): 2,
    }
    writable, foreign = check_entries(tmp_path, Kind.EXECUTABLES, exposures)
    assert (writable.damage, foreign.damage) == (Damage.WRITABLE, Damage.OWNER)
    assert "1,234" in writable.evidence and foreign.evidence.startswith("3 of its entries")
    assert {writable.kind, foreign.kind} == {Kind.EXECUTABLES} and writable.path == foreign.path == tmp_path


def test_a_directory_that_is_gone_has_no_entries(tmp_path: Path) -> None:
    """A directory that vanishes during the check is no finding."""
    assert not list(check_entries(tmp_path / "none", Kind.TRACES, {Exposure(FILE | 0o666, 1, 1): 1}))
