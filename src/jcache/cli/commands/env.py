"""`jcache env` and `jcache dir`: environment variables and paths of a root, for scripts."""

import os
import shlex
from typing import Annotated, Final

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, complete_kinds, completing
from jcache.cli.stores import bound_variables, store_of
from jcache.errors import CannotWrite, InvalidValue, NoCacheHere
from jcache.layout import Kind, Root, parse_kind
from jcache.runs.environment import settings
from jcache.store.roots import choose_path, create_root, open_root, wants_plain
from jcache.verify.path_key_sentences import describe_env_misses
from jcache.verify.path_keys import XLA_CACHES, path_in_keys

_FORMATS: Final = ("sh", "fish", "powershell")


def env(
    root: RootOption = None,
    shell: Annotated[
        str,
        typer.Option("--shell", metavar="SHELL", help="sh, fish or powershell.", autocompletion=completing(_FORMATS)),
    ] = "sh",
    json: JsonOption = False,
) -> None:
    """Print the environment variables that make any JAX program use a cache directory; create it if it is missing.

    The program then stores everything that it compiles, under keys without the
    path of the directory. If JAX alone (up to jax 0.10.2) has stored programs
    there before, under keys with the path, the variables let JAX hit those, and
    a message says so: only `jcache run` and `jcache.enable()` hit both.

    Example: eval "$(jcache env)"
    """
    if shell not in _FORMATS:
        raise InvalidValue(f"'{shell}' is not a shell that jcache knows: choose from {', '.join(_FORMATS)}.")
    chosen = _created_root(root)
    wanted = _with_warm_settings(chosen, settings(chosen.directory(Kind.EXECUTABLES), os.environ))
    wanted |= bound_variables(chosen)
    if json:
        output.as_json({"root": str(chosen.path), "environment": wanted})
        return
    for name, value in wanted.items():
        output.data(_assignment(shell, name, value))


def dir_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help="executables, traces or graphs; by default, the root.", autocompletion=complete_kinds
        ),
    ] = None,
    root: RootOption = None,
    json: JsonOption = False,
) -> None:
    """Print the path of a cache directory, or of its part for a kind, whether or not it exists.

    Example: du -sh "$(jcache dir executables)"
    """
    chosen = _root(root)
    path = chosen.path if kind is None else chosen.directory(parse_kind(kind))
    if json:
        output.as_json({"root": str(chosen.path), "path": str(path)})
    else:
        output.data(str(path))


def _root(explicit: str | None) -> Root:
    """Return the root as it is, or as `jcache run` would create it."""
    path = choose_path(explicit, os.environ)
    try:
        return open_root(path)
    except NoCacheHere:
        return Root(path, plain=wants_plain(explicit, os.environ))


def _created_root(explicit: str | None) -> Root:
    """Return the root; create it if it is missing, since a directory that JAX creates lacks the tag of a root."""
    try:
        return create_root(choose_path(explicit, os.environ), plain=wants_plain(explicit, os.environ))
    except CannotWrite as error:
        output.warning(str(error))
        return _root(explicit)


def _with_warm_settings(root: Root, wanted: dict[str, str]) -> dict[str, str]:
    """Return the variables, with the caches of XLA with which JAX hits the programs that JAX alone has stored.

    A warning names the programs that JAX misses all the same.
    """
    if XLA_CACHES not in wanted:  # the user has set it
        return wanted
    with store_of(root) as store:
        found = path_in_keys(store)
    if found.path is not None or not found.is_known:
        output.warning(describe_env_misses(root, found))
    if found.path != str(root.directory(Kind.EXECUTABLES)):
        return wanted
    others = {name: value for name, value in wanted.items() if name != XLA_CACHES}
    return others | ({XLA_CACHES: found.xla_caches[0]} if found.xla_caches[0] else {})


def _assignment(shell: str, name: str, value: str) -> str:
    if shell == "fish":
        return f"set -gx {name} '" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if shell == "powershell":
        return f"$env:{name} = '" + value.replace("'", "''") + "'"
    return f"export {name}={shlex.quote(value)}"
