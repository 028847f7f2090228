"""Reads and writes ``jcache.toml``, the user's and a root's, and combines them with the environment.

The user's file is ``$JCACHE_CONFIG``, by default ``jcache.toml`` in the user's configuration directory (XDG). What it
says must be right. A root's file, ``.jcache/jcache.toml``, is input, since a root may come from somebody else: it may
set limits, the order and what to keep, and whatever else it says is passed over and told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.configuration.settings import SETTINGS, Source, Value, normal, setting
from jcache.errors import InvalidValue, JcacheError
from jcache.jax_internals.presets import RUN_BOUND
from jcache.layout import Root
from jcache.store import files
from jcache.store.directories import opened

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_NAME: Final = "jcache.toml"
VARIABLE: Final = "JCACHE_CONFIG"

_LARGEST_FILE: Final = 1 << 16  # bytes


class Configured(NamedTuple):
    """The value of a setting.

    Attributes:
        value: as `Setting.parse` returns it; None if nothing sets it and there is no default.
        text: the value as it is written where it comes from; None if `value` is None.
        source: where it comes from.
        place: the file or the variable; None for a default.
    """

    value: Value | None
    text: str | None
    source: Source
    place: str | None = None


class Configuration(NamedTuple):
    """All settings.

    Attributes:
        values: by name.
        faults: one sentence on each part of the root's file that is passed over.
    """

    values: Mapping[str, Configured]
    faults: tuple[str, ...] = ()

    def value(self, name: str) -> Any:  # noqa: ANN401  each setting has a type of its own
        """Return the value of a setting."""
        return self.values[name].value

    def is_set(self, name: str) -> bool:
        """Return whether a setting has a value that is not its default."""
        return self.values[name].source is not Source.DEFAULT


def user_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's file, whether or not there is one."""
    if named := environment.get(VARIABLE):
        return Path(os.path.abspath(os.path.expanduser(named)))
    from platformdirs import user_config_path

    return user_config_path("jcache") / _NAME


def configuration(root: Root | None, environment: Mapping[str, str]) -> Configuration:
    """Return all settings, with the environment before the root's file, and that before the user's.

    Raises:
        InvalidValue: the user's file cannot be read, or says something that no setting is.
    """
    path = user_file(environment)
    values = {name: Configured(s.default, _text(s.default), Source.DEFAULT) for name, s in SETTINGS.items()}
    values |= _values(_read_user(path), Source.USER, path)
    faults: list[str] = []
    if root is not None:
        values |= _values_of_root(root, faults)
    for name, known in SETTINGS.items():
        if known.variable and (found := _of_environment(known.variable, environment)) is not None:
            values[name] = found
    return Configuration(values, tuple(faults))


def _of_environment(variable: str, environment: Mapping[str, str]) -> Configured | None:
    """Return the bound that JAX's variable sets, which is None for -1; None if it is not the user who has set one."""
    text = environment.get(variable, "")
    if text == environment.get(RUN_BOUND) or not re.fullmatch(r"-1|[0-9]{1,18}", text):
        return None
    return Configured(None if text == "-1" else int(text), text, Source.ENVIRONMENT, variable)


def variables(found: Configuration) -> dict[str, str]:
    """Return the environment variables that make a JAX program obey the bound that a file sets; none without one."""
    bound = found.values["max_size"]
    if bound.value is None or bound.source is Source.ENVIRONMENT:
        return {}
    return {str(SETTINGS["max_size"].variable): str(bound.value)}


def _text(value: object) -> str | None:
    return None if value is None else " ".join(value) if isinstance(value, tuple | list) else str(value)


def _values(table: Mapping[str, object], source: Source, path: Path) -> dict[str, Configured]:
    return {
        normal(name): Configured(_parsed(name, value, path), _text(value), source, str(path))
        for name, value in table.items()
    }


def _parsed(name: str, value: object, path: Path) -> Value:
    try:
        return setting(name).parse(value)
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {name}: {error}" if normal(name) in SETTINGS else f"{path}: {error}") from None


def _read_user(path: Path) -> Mapping[str, object]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read ({error.strerror}): it holds your settings of jcache.") from None
    return _table(data, path) if data else {}


def _table(data: bytes, path: Path) -> Mapping[str, object]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidValue(f"{path} is not TOML: {reason}.") from None


def read_root(root: Root) -> bytes:
    """Return the content of a root's file, empty if there is none.

    Raises:
        OSError: it cannot be read, or something else has its name.
    """
    try:
        with opened(root, root.state) as state:
            return files.read(_NAME, _LARGEST_FILE + 1, directory=state)
    except FileNotFoundError:
        return b""


def _values_of_root(root: Root, faults: list[str]) -> dict[str, Configured]:
    path = root.settings
    try:
        data = read_root(root)
        if len(data) > _LARGEST_FILE:
            raise InvalidValue(f"{path} is larger than {_LARGEST_FILE:,} bytes.")
        table = _table(data, path) if data else {}
    except OSError as error:
        faults.append(f"{path} cannot be read ({error.strerror}): the root's own limits are not known.")
        return {}
    except InvalidValue as error:
        faults.append(f"{error} The root's own limits are not known.")
        return {}
    values: dict[str, Configured] = {}
    for name, value in table.items():
        try:
            if normal(name) in SETTINGS and not SETTINGS[normal(name)].in_root:
                raise InvalidValue(f"{path}: a cache directory cannot set {name}, only your own file can.")
            values |= _values({name: value}, Source.ROOT, path)
        except InvalidValue as error:
            faults.append(f"{error} The setting is ignored.")
    return values


def change(data: bytes, path: Path, changes: Mapping[str, object | None]) -> bytes:
    """Return the content of a file with some settings changed; comments and the order of lines stay.

    Args:
        data: the present content.
        path: path of the file, for messages.
        changes: the values to write, by setting; None removes a setting.

    Raises:
        InvalidValue: the file is not TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: TOMLDocument = tomlkit.parse(data)
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{path} is not TOML ({error}): mend or remove it first.") from None
    for name, value in changes.items():
        if value is None:
            document.pop(name, None)
        else:
            document[name] = value
    return tomlkit.dumps(document).encode()


def of_root(root: Root) -> tuple[tuple[str, str], ...]:
    """Return the settings that a root's file has, by name, each as text; what is wrong in it is left out."""
    values = _values_of_root(root, [])
    return tuple(sorted((name, str(one.text)) for name, one in values.items()))


def change_root(root: Root, changes: Mapping[str, object | None]) -> Path:
    """Change settings in a root's file, and return its path; None removes a setting.

    Raises:
        InvalidValue: the file is not TOML.
        CannotWrite: the root is read-only, full or otherwise refuses.
    """
    with files.refusal(f"read {root.settings}"):
        data = read_root(root)
    write_root(root, change(data, root.settings, changes))
    return root.settings


def change_user(environment: Mapping[str, str], changes: Mapping[str, object | None]) -> Path:
    """Change settings in the user's file, and return its path; None removes a setting.

    Raises:
        InvalidValue: the file is not TOML.
        CannotWrite: the file cannot be read or written.
    """
    path = user_file(environment)
    with files.refusal(f"read {path}"):
        data = path.read_bytes() if path.exists() else b""
    write_user(path, change(data, path, changes))
    return path


def write_root(root: Root, data: bytes) -> None:
    """Write a root's file.

    Raises:
        CannotWrite: the root is read-only, full or otherwise refuses.
    """
    with files.refusal(f"write {root.settings}"), opened(root, root.state, make=True) as state:
        files.publish(_NAME, data, directory=state)


def write_user(path: Path, data: bytes) -> None:
    """Write the user's file, and make its directory.

    Raises:
        CannotWrite: it cannot be written.
    """
    with files.refusal(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.publish(path.resolve(), data)  # a link, as of a directory of dotfiles, stays


def for_program(root: Root | None, environment: Mapping[str, str]) -> tuple[Configuration, tuple[str, ...]]:
    """Return the settings for a program, which goes on whatever its files say, and a sentence on each fault."""
    try:
        found = configuration(root, environment)
    except JcacheError as error:
        without_user = {**environment, VARIABLE: os.devnull}
        found = configuration(root, without_user)
        return found, (str(error), *found.faults)
    return found, found.faults
