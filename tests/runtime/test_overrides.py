"""Settings of the environment or the program that differ from an argument of `jcache.enable` are reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax
PROGRAM = """
import json, os, sys, warnings
import jax
import jcache
settings, arguments = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name, value in settings.items():
    jax.config.update(name, value)
before = dict(jax.config.values)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    told = jcache.enable(**arguments)
    effective = jax.config.values["jax_compilation_cache_dir"], jax.config.values["jax_compilation_cache_max_size"]
    jcache.disable()
assert dict(jax.config.values) == before
try:
    jcache.enable(**arguments, strict=True)
except jcache.NotInEffect as error:
    strict = str(error)
    assert dict(jax.config.values) == before
else:
    strict = None
print(json.dumps([list(told.warnings), strict, str(told.root), *effective]))
"""
DIRECTORY, BOUND = "jax_compilation_cache_dir", "jax_compilation_cache_max_size"


def said(settings: dict[str, Any], arguments: dict[str, Any], **env: str) -> Any:
    return run(PROGRAM, json.dumps(settings), json.dumps(arguments), env=env).value


@pytest.mark.parametrize("argument", ["root", "max_size"])
@pytest.mark.parametrize("by", ["program", "environment", "JCACHE_DIR"])
@pytest.mark.parametrize("same", [True, False])
def test_an_argument_wins_and_says_so(argument: str, by: str, same: bool, tmp_path: Path) -> None:
    """A root or bound from elsewhere that differs from an argument gives one sentence with both, or an error
    under `strict`.
    """
    if by == "JCACHE_DIR" and argument == "max_size":
        pytest.skip("the variable names a root")
    root, other = str(tmp_path / "root"), str(tmp_path / "other")
    option, ours, theirs = (DIRECTORY, root, other) if argument == "root" else (BOUND, 10**6, 5 * 10**6)
    value = ours if same else theirs
    name = "JCACHE_DIR" if by == "JCACHE_DIR" else option.upper()
    settings = {option: value} if by == "program" else {}
    env = {} if by == "program" else {name: str(value)}
    arguments = {"root": root} | ({argument: ours} if argument == "max_size" else {})
    warnings, strict, chosen, directory, bound = said(settings, arguments, **env)
    assert (chosen, directory) == (root, f"{root}/executables") and (argument == "root" or bound == ours)
    if same:
        assert (warnings, strict) == ([], None)
        return
    (warning,) = warnings
    assert str(ours) in warning and str(theirs) in warning and warning in strict
    assert (f"The program has set {option}" if by == "program" else f"${name} in the environment is") in warning


@pytest.mark.parametrize("by", ["program", "environment"])
def test_a_remote_address_is_told_of_whoever_has_set_it(by: str) -> None:
    """The sentence names the option or the variable that sets the remote address."""
    address = "gs://bucket/x"
    settings = {DIRECTORY: address} if by == "program" else {}
    env = {} if by == "program" else {DIRECTORY.upper(): address}
    (warning,), strict, *_ = said(settings, {}, **env)
    source = f"({DIRECTORY}, which the program has set)" if by == "program" else f"({DIRECTORY.upper()})"
    assert f"{address} {source} is a remote address" in warning and warning in strict


def test_a_remote_address_loses_to_an_argument(tmp_path: Path) -> None:
    """A root as argument overrides a remote address of the program, and a sentence says so."""
    (warning,), strict, chosen, *_ = said({DIRECTORY: "gs://bucket/x"}, {"root": str(tmp_path)})
    assert chosen == str(tmp_path) and "gs://bucket/x" in warning and warning in strict


def test_what_the_program_has_set_is_the_root(tmp_path: Path) -> None:
    """Without an argument, the directory and bound in JAX's configuration are used, and no sentence is printed."""
    told = said({DIRECTORY: str(tmp_path), BOUND: 12345}, {})
    assert told == [[], None, str(tmp_path), str(tmp_path), 12345]


def test_who_has_set_an_option_is_named(tmp_path: Path) -> None:
    """A variable is named only if its value is the one in effect; else the program has set the option since."""
    option = "jax_persistent_cache_min_compile_time_secs"
    arguments, variable = {"root": str(tmp_path / "root")}, {option.upper(): "5"}
    assert f"The program has set {option} to 7.0" in " ".join(said({option: 7.0}, arguments, **variable)[0])
    assert f"${option.upper()} in the environment makes {option} 5.0" in " ".join(said({}, arguments, **variable)[0])
