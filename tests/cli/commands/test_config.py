"""`jcache config`, and the commands that obey what it has stored."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import PROGRAM, Jcache, entry_files
from tests.helpers.jax_programs import run
from tests.helpers.terminals import WIDTHS, Terminal


@pytest.mark.usefixtures("access_times_kept")
def test_a_limit_is_stored_with_the_cache(jcache: Jcache, cache: Path) -> None:
    """`config set` stores it once; then `prune` without options keeps to it, and says where it comes from."""
    sizes = sorted(entry_files(cache).values())
    said = jcache("config", "set", "max_size", str(sum(sizes) // 2), "--root", cache)
    assert said.code == 0 and said.err == f"max_size = {sum(sizes) // 2}, in {cache}/.jcache/jcache.toml\n"
    planned = jcache("prune", "--root", cache, "--dry-run")
    assert planned.code == 0 and f"Limits: max_size {sum(sizes) // 2} ({cache}/.jcache/jcache.toml)." in planned.err
    assert jcache("prune", "-q", "--root", cache).err == ""
    assert sum(entry_files(cache).values()) <= sum(sizes) // 2
    assert jcache("verify", "--root", cache).code == 0


def test_what_is_set_moves_with_the_root(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A copy of the directory keeps its limits; clearing it does too."""
    jcache("config", "set", "keep-last", "2", "--root", cache)
    shutil.copytree(cache, tmp_path / "copy", symlinks=True)
    assert jcache("clear", "--yes", "--root", tmp_path / "copy").code == 0
    assert jcache("config", "get", "keep_last", "--root", tmp_path / "copy").out == "2\n"


def test_list_says_where_each_value_comes_from(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """As a table and as JSON: option, environment, root, user and default are told apart."""
    env = {"JCACHE_CONFIG": str(tmp_path / "mine.toml"), "JAX_COMPILATION_CACHE_MAX_SIZE": "1000000"}
    assert jcache("config", "set", "order", "cost", "--user", "--root", cache, env=env).code == 2
    assert jcache("config", "set", "order", "cost", "--user", env=env).code == 0
    assert jcache("config", "set", "older_than", "90d", "--root", cache, env=env).code == 0
    found = jcache("config", "--json", "--root", cache, env=env).json
    assert found["root"] == str(cache) and found["schema_version"] == 1
    sources = {name: (one["source"], one["value"]) for name, one in found["settings"].items()}
    assert sources == {
        "max_size": ("environment", 1000000), "max_entries": ("default", None), "min_free": ("default", None),
        "older_than": ("root", 90 * 86400.0), "keep_last": ("default", None), "order": ("user", "cost"),
        "preset": ("default", "balanced"), "places": ("default", []),
    }  # fmt: skip
    table = jcache("config", "--root", cache, env=env).out
    assert re.search(rf"order +cost +user: {tmp_path}/mine\.toml", table)
    assert re.search(rf"older_than +90d +root: {cache}/\.jcache/jcache\.toml", table)
    assert re.search(r"max_size +1000000 +environment: JAX_COMPILATION_CACHE_MAX_SIZE", table)


@pytest.mark.parametrize("columns", WIDTHS)
def test_config_on_a_terminal(cache: Path, columns: int) -> None:
    """Settings and values are whole at any width, and lines fit; where a value comes from takes several lines."""
    code, lines = Terminal("config", "--root", cache, columns=columns).finish()
    assert code == 0 and max(map(len, lines)) <= columns
    for name, value in (("max_entries", "–"), ("order", "lru"), ("preset", "balanced")):
        assert any(re.match(rf"{name} +{value} ", line) for line in lines)


def test_get_and_unset(jcache: Jcache, cache: Path) -> None:
    """`get` prints the value alone, for scripts, and fails if there is none; `unset` removes it."""
    assert jcache("config", "set", "max_size", "20GiB", "--root", cache).code == 0
    assert jcache("config", "get", "max_size", "--root", cache).out == "20GiB\n"
    assert jcache("config", "get", "max_size", "--root", cache, "--json").json["value"] == 20 << 30
    assert jcache("config", "unset", "max_size", "--root", cache).code == 0
    missing = jcache("config", "get", "max_size", "--root", cache)
    assert missing.code == 1 and missing.out == "" and "config set max_size" in missing.err


def test_paths(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """`path` names both files; with --user, the user's alone, as `$EDITOR "$(jcache config path --user)"` needs it."""
    mine = {"JCACHE_CONFIG": str(tmp_path / "mine.toml")}
    assert jcache("config", "path", "--user", env=mine).out == f"{tmp_path}/mine.toml\n"
    both = jcache("config", "path", "--root", cache, env=mine)
    assert both.out == f"user  {tmp_path}/mine.toml\nroot  {cache}/.jcache/jcache.toml\n"
    json = jcache("config", "path", "--root", cache, "--json", env=mine).json
    assert json["user"] == {"path": f"{tmp_path}/mine.toml", "exists": False}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "'lst' is not an action of config"),
        (["get"], "get needs one setting"),
        (["get", "max_siz"], "did you mean 'max_size'"),
        (["set", "max_size"], "set needs a setting and a value"),
        (["set", "max_size", "much"], "'much' is not a size"),
        (["set", "max_size", "1", "2"], "max_size takes one value"),
        (["set", "order", "size"], "'size' is not an order: choose from lru, cost"),
        (["set", "preset", "slow"], "'slow' is not a preset"),
        (["path", "max_size"], "path takes no setting"),
    ],
)
def test_wrong_words(jcache: Jcache, cache: Path, words: list[str], said: str) -> None:
    """One sentence says what is wrong and what to write, with exit code 2, and no file is made."""
    result = jcache("config", *words, env={"JCACHE_DIR": str(cache)})
    assert result.code == 2 and said in result.err and result.err.count("\n") == 1
    assert not (cache / ".jcache" / "jcache.toml").exists()


def test_a_setting_of_the_user_alone(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A preset and places go into the user's file; a root that sets them is not obeyed, and a warning says so."""
    env = {"JCACHE_CONFIG": str(tmp_path / "mine.toml"), "JCACHE_DIR": str(cache)}
    assert f"in {tmp_path}/mine.toml" in jcache("config", "set", "preset", "fast_compile", env=env).err
    (cache / ".jcache").mkdir(exist_ok=True)
    (cache / ".jcache" / "jcache.toml").write_text('preset = "max_performance"\nplaces = ["/"]\n')
    result = jcache("config", "get", "preset", env=env)
    assert result.out == "fast_compile\n" and result.err.count("a cache directory cannot set") == 2
    assert "a cache directory cannot set places" in jcache("info", env=env).err


def test_what_wins_is_told(jcache: Jcache, cache: Path) -> None:
    """Setting what another source overrides says so."""
    env = {"JAX_COMPILATION_CACHE_MAX_SIZE": "77"}
    result = jcache("config", "set", "max_size", "1GiB", "--root", cache, env=env)
    assert "JAX_COMPILATION_CACHE_MAX_SIZE sets max_size to 77, and wins." in result.err


def test_a_wrong_user_file(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """`prune` and `config` refuse, `info` and `run` say it and go on."""
    (tmp_path / "mine.toml").write_text("max_siz = 3\n")
    env = {"JCACHE_CONFIG": str(tmp_path / "mine.toml"), "JCACHE_DIR": str(cache)}
    for words in (["prune"], ["config"]):
        result = jcache(*words, env=env)
        assert result.code == 2 and f"{tmp_path}/mine.toml: 'max_siz' is not a setting; did you mean" in result.err
    for words in (["info"], ["run", "--", "true"]):
        result = jcache(*words, env=env)
        assert result.code == 0 and "'max_siz' is not a setting" in result.err


def test_info_shows_the_configured_cap(jcache: Jcache, cache: Path) -> None:
    """`info` draws the bar of the bound, wherever it is set."""
    jcache("config", "set", "max_size", "1MiB", "--root", cache)
    assert "of 1.0 MiB" in jcache("info", "--root", cache).out
    assert jcache("info", "--json", "--root", cache).json["kinds"]["executables"]["max_bytes"] == 1 << 20


def test_info_all_looks_at_configured_places(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """Configured directories, and the usual ones of JAX users, are in the overview."""
    home = tmp_path / "home"
    env = {"JCACHE_CONFIG": str(tmp_path / "mine.toml"), "HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert jcache("config", "set", "places", cache, tmp_path / "nothing", env=env).code == 0
    usual = [home / ".cache" / "jax", home / ".cache" / "jax-team", home / "jax_cache", home / ".jax_cache"]
    for place in (*usual, tmp_path / "xdg" / "jax_compilation_cache"):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(cache, place, symlinks=True)
    found = {Path(one["root"]) for one in jcache("info", "--all", "--json", env=env).json["caches"]}
    assert found == {cache, *usual, tmp_path / "xdg" / "jax_compilation_cache"}


@pytest.mark.jax
def test_programs_obey(jcache: Jcache, tmp_path: Path) -> None:
    """`jcache.enable()`, `run` and `env` bound a cache as it is configured; what a program asks for wins."""
    root = tmp_path / "root"
    assert jcache("config", "set", "max_size", "16000", "--root", root).code == 0
    told = "import jcache, json; e = jcache.enable({}); print(json.dumps([e.max_bytes, e.warnings]))"
    assert run(told.format(""), env={"JCACHE_DIR": str(root)}).value == [16000, []]
    assert run(told.format("max_size=5"), env={"JCACHE_DIR": str(root)}).value == [5, []]
    plain = "import jax; print(jax.config.jax_compilation_cache_max_size)"
    for words, bound in ((["-c", plain], "16000"), (["-c", told.format("")], "[16000, []]")):
        assert jcache("run", "--root", root, "--", sys.executable, *words).out.strip() == bound
    asked = jcache("run", "--root", root, "--", sys.executable, "-c", told.format("max_size='1GiB'"))
    assert asked.out.strip() == f"[{1 << 30}, []]"
    assert "export JAX_COMPILATION_CACHE_MAX_SIZE=16000" in jcache("env", "--root", root).out
    for _ in range(2):
        assert jcache("run", "--root", root, "--", sys.executable, PROGRAM).code == 0
        assert sum(entry_files(root / "executables").values()) <= 16000
    assert jcache("verify", "--root", root).code == 0


@pytest.mark.full
def test_limits_travel_on_request(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """`export --config` takes what the root stores and `import --config` stores it; without either nothing changes."""
    jcache("config", "set", "max_size", "20GiB", "--root", cache)
    jcache("config", "set", "keep_last", "7", "--root", cache)
    for name, more in (("with", ["--config"]), ("without", [])):
        assert jcache("export", "-q", "--root", cache, "-o", tmp_path / name, *more).code == 0
    told = jcache("import", tmp_path / "with", "--root", tmp_path / "a")
    assert "The archive has limits, which --config takes: keep_last 7, max_size 20GiB" in told.out + told.err
    assert not (tmp_path / "a" / ".jcache" / "jcache.toml").exists()
    (tmp_path / "a" / ".jcache" / "jcache.toml").write_text('# ours\norder = "cost"\nmax_size = 5\n')
    told = jcache("import", tmp_path / "with", "--root", tmp_path / "a", "--config")
    assert f"Stored in {tmp_path}/a/.jcache/jcache.toml: keep_last 7, max_size 20GiB" in told.out + told.err
    text = (tmp_path / "a" / ".jcache" / "jcache.toml").read_text()
    assert text == '# ours\norder = "cost"\nmax_size = "20GiB"\nkeep_last = 7\n'
    told = jcache("import", tmp_path / "without", "--root", tmp_path / "b", "--config")
    assert told.code == 0 and "The archive has no limits" in told.out + told.err
    assert not (tmp_path / "b" / ".jcache" / "jcache.toml").exists()
    assert jcache("verify", "--root", tmp_path / "a").code == 0
