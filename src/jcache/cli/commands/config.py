"""`jcache config`: show, read, set and remove the settings of the user and of a root, and say where each comes from."""

import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, completing
from jcache.configuration import files
from jcache.configuration.files import Configuration, Configured
from jcache.configuration.settings import SETTINGS, Source, as_json, normal, setting, to_write
from jcache.errors import InvalidValue, NoCacheHere
from jcache.layout import Root
from jcache.store.roots import choose_path, create_root, open_root, wants_plain
from jcache.text import command, quoted, unknown_choice

_ACTIONS: Final = ("list", "get", "set", "unset", "path")


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the actions, or the settings after an action, that begin with a text."""
    words = SETTINGS if ctx.params.get("action") in ("get", "set", "unset") else ()
    return [word for word in words if word.startswith(incomplete)]


UserOption = Annotated[
    bool, typer.Option("--user", help="Use only your own file, which holds for all your cache directories.")
]


def config(
    action: Annotated[
        str,
        typer.Argument(metavar="[ACTION]", help="list, get, set, unset or path.", autocompletion=completing(_ACTIONS)),
    ] = "list",
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME [VALUE]]", help="A setting and its value.", autocompletion=complete_words),
    ] = None,
    root: RootOption = None,
    user: UserOption = False,
    json: JsonOption = False,
) -> int:
    """Show the limits and defaults that hold, and where each comes from; set them once for every later command.

    A limit is stored with the cache directory, so that jcache prune without options, jcache
    run, jcache.enable() and a cron job keep to it. With --user, set stores it for all your cache
    directories. Options win over the environment, the environment over the cache directory,
    and the cache directory over your own file.

    Example: jcache config set max_size 20GiB && jcache prune
    """
    if action not in _ACTIONS:
        raise InvalidValue(unknown_choice(action, "is not an action of config", _ACTIONS))
    given = words or []
    if action in ("get", "unset") and len(given) != 1:
        raise InvalidValue(f"{action} needs one setting: choose from {', '.join(SETTINGS)}.")
    if action in ("list", "path") and given:
        get = command(f"config get {quoted(given[0])}", root)
        raise InvalidValue(f"{action} takes no setting: `{get}` shows one.")
    if action in ("set", "unset"):
        return _change(action, given, root, user=user, json=json)
    chosen = None if user else _there(root)
    if action == "path":
        return _path(chosen, user=user, json=json)
    found = files.configuration(chosen, os.environ)
    for fault in found.faults:
        output.warning(fault)
    return _get(found, given[0], root, json=json) if action == "get" else _list(found, chosen, json=json)


def _there(explicit: str | None) -> Root | None:
    """Return the root; None if none is named and there is none."""
    try:
        return open_root(choose_path(explicit, os.environ))
    except NoCacheHere:
        if explicit is not None:
            raise
        return None


def _path(root: Root | None, *, user: bool, json: bool) -> int:
    paths = {"user": files.user_file(os.environ)} | ({"root": root.settings} if root else {})
    if json:
        output.as_json({name: {"path": str(path), "exists": path.is_file()} for name, path in paths.items()})
        return 0
    if not user and root is None:
        output.message("There is no cache directory yet, so it has no file of settings.")
    for name, path in paths.items():
        output.data(str(path) if user else f"{name}  {path}")
    return 0


def _get(found: Configuration, name: str, root: str | None, *, json: bool) -> int:
    """Print the value of a setting; return 1, with a message, if it has none."""
    setting(name)
    name = normal(name)
    one = found.values[name]
    if json:
        output.as_json({"name": name} | _as_json(name, one))
    elif one.value is None:
        output.message(f"{name} is not set: `{command(f'config set {name} VALUE', root)}` sets it.")
    elif isinstance(one.value, tuple):
        for path in one.value:
            output.data(path)
    else:
        output.data(str(one.text))
    return 1 if one.value is None else 0


def _list(found: Configuration, root: Root | None, *, json: bool) -> int:
    if json:
        settings = {name: _as_json(name, one) for name, one in found.values.items()}
        output.as_json({"root": None if root is None else str(root.path), "settings": settings})
        return 0
    rows = [(name, one.text or "–", _origin(one), SETTINGS[name].help) for name, one in found.values.items()]
    columns = [("setting", "left"), ("value", "wrap"), ("from", "wrap"), ("meaning", "wrap")]
    output.rich(output.table(columns, rows))
    return 0


def _origin(one: Configured) -> str:
    return one.source if one.place is None else f"{one.source}: {one.place}"


def _as_json(name: str, one: Configured) -> dict[str, Any]:
    return {"value": as_json(name, one.value), "text": one.text, "source": one.source, "place": one.place}


def _change(action: str, given: list[str], explicit: str | None, *, user: bool, json: bool) -> int:
    """Set or remove a setting, in the root's file or the user's."""
    if action == "set" and len(given) < 2:
        example = command("config set max_size 20GiB", explicit)
        raise InvalidValue(f"set needs a setting and a value: `{example}`")
    name, values = normal(given[0]), given[1:]
    known = setting(name)
    if len(values) > 1 and name != "places":
        raise InvalidValue(f"{name} takes one value: quote it if it has blanks.")
    if explicit is not None and (user or not known.in_root):
        raise InvalidValue(f"--root names a cache directory, but {name} is set in your own file: leave out --root.")
    value = None if action == "unset" else to_write(name, values)
    path = (
        files.change_user(os.environ, {name: value})
        if user or not known.in_root
        else _change_root(name, value, explicit)
    )
    if json:
        output.as_json({"name": name, "path": str(path), "text": value})
    else:
        said = f"{name} = {' '.join(values)}" if value is not None else f"{name} is unset"
        output.message(f"{said}, in {path}")
    _tell_what_wins(name, Source.USER if user or not known.in_root else Source.ROOT, explicit)
    return 0


def _change_root(name: str, value: object, explicit: str | None) -> Path:
    plain = wants_plain(explicit, os.environ)
    path = choose_path(explicit, os.environ)
    root = (
        open_root(path)
        if value is None or (os.path.isdir(path) and os.listdir(path))
        else create_root(path, plain=plain)
    )
    return files.change_root(root, {name: value})


def _tell_what_wins(name: str, source: Source, explicit: str | None) -> None:
    """Print a message if another source wins over what was written."""
    won = files.configuration(_there(explicit), os.environ).values[name]
    if list(Source).index(won.source) < list(Source).index(source):
        output.message(f"{won.place} sets {name} to {won.text}, and wins.")
