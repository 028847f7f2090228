"""Find, recognise and make roots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import InvalidValue, JcacheError, NoCacheHere
from jcache.layout import DIRECTORY_NAMES, LOCK_NAME, STATE_NAME, TAG_NAME, TAG_TEXT, FileKind, Kind, Root, member
from jcache.store.files import publish, read, refusal
from jcache.store.remote_entries import RemoteEntries
from jcache.text import command, masked

VARIABLES: Final = ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR")  # that name a root, the first one first


class InUse(NamedTuple):
    """What `jcache.enable` has put in use in this process.

    Attributes:
        root: the root, None if it is not in effect.
        bound: returns its bound of now, None for none.
        shared: more roots, which are read only.
        remote: the store that is asked last; None if there is none.
        may_write: returns whether this process of the program stores traces.
    """

    root: Root | None
    bound: Callable[[], int | None] = lambda: None
    shared: tuple[Root, ...] = ()
    remote: RemoteEntries | None = None
    may_write: Callable[[], bool] = lambda: True


_in_use: InUse | None = None


def in_use() -> InUse | None:
    """Return the root that is in use in this process."""
    return _in_use


def put_in_use(what: InUse | None) -> None:
    """Set the root in use: the default of every function that is given no root."""
    global _in_use
    _in_use = what


def choose_path(explicit: str | None, environment: Mapping[str, str], *, source: str = "--root") -> Path:
    """Return the path to administer: explicit, ``$JCACHE_DIR``, ``$JAX_COMPILATION_CACHE_DIR`` or the default.

    ``~`` is expanded; the path is made absolute without resolving symbolic links. Where the path is the
    ``executables`` directory of a jcache root, as ``JAX_COMPILATION_CACHE_DIR`` is under `jcache run`, that root is
    meant.

    Args:
        explicit: the path that was asked for.
        environment: of the process.
        source: how whoever asked for it calls it.

    Raises:
        InvalidValue: the path is empty.
        NoCacheHere: it is the address of a remote store.
    """
    text = explicit
    if text is None:
        for source in VARIABLES:
            text = environment.get(source) or None
            if text is not None:
                break
    if text is None:
        from platformdirs import user_cache_path

        return user_cache_path("jcache")
    if not text or "\0" in text:
        raise InvalidValue(f"{source} is {'empty' if not text else 'no path'}: name a cache directory.")
    if text.startswith("~") and os.path.expanduser(text) == text:
        raise NoCacheHere(f"{text} ({source}) names no user of this machine: write the path in full.")
    if "://" in text:
        raise NoCacheHere(
            f"{masked(text)} ({source}) is a remote address: jcache administers local directories"
            " here; info, ls, du, prune and verify take such a --root, and push, pull and sync such a URL."
        )
    try:
        path = Path(os.path.abspath(os.path.expanduser(text)))  # Path.resolve would follow links
    except FileNotFoundError:
        raise NoCacheHere(f"{text} ({source}) is relative to a working directory that is gone: name a path.") from None
    return root_path(path)


def root_path(directory: Path) -> Path:
    """Return the path of the root whose executables are in a directory: its parent if that is a jcache root."""
    ours = (os.path.isfile(directory.parent / TAG_NAME), os.path.isdir(directory.parent / STATE_NAME))
    return directory.parent if directory.name == DIRECTORY_NAMES[Kind.EXECUTABLES] and any(ours) else directory


def path_text(path: object) -> str:
    """Return the text of a path that a program has given.

    Raises:
        InvalidValue: it is no path.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidValue(f"{path!r} is not a path: give a text or a pathlib.Path.")
    return text


def path_texts(paths: object) -> tuple[str, ...]:
    """Return the texts of several paths; one path is as good as a list of one; raise as `path_text`."""
    several = paths if isinstance(paths, Iterable) and not isinstance(paths, str | bytes) else [paths]
    return tuple(path_text(path) for path in several)


def wants_plain(explicit: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether a root that is not there yet is to be a plain JAX directory: one that JAX's own variable names."""
    ours = explicit is not None or environment.get("JCACHE_DIR")
    return not ours and bool(environment.get("JAX_COMPILATION_CACHE_DIR"))


def open_root(path: Path, argument: str = "--root") -> Root:
    """Return the root at a path, which an argument has named.

    Raises:
        NoCacheHere: there is nothing, no directory, or a directory that holds no cache.
    """
    try:
        if _is_tagged(path):
            return Root(path, plain=False)
        if (others := _others(path)) is not None:
            return others
        names = _sample(path)
    except FileNotFoundError:
        raise NoCacheHere(
            f"There is no cache at {path}: run a program with `{_filling(path)}` to make one, or name another"
            f" {argument}."
        ) from None
    except NotADirectoryError:
        raise NoCacheHere(f"{path} is not a directory: name a jcache root or a JAX cache directory.") from None
    except OSError as error:
        raise NoCacheHere(f"{path} cannot be read ({error.strerror}): name another {argument}.") from None
    if names & {FileKind.ENTRY, FileKind.LEGACY, FileKind.AUTOTUNE, FileKind.KERNELS, FileKind.OURS}:
        in_it = names & {FileKind.ENTRY, FileKind.LEGACY, FileKind.AUTOTUNE, FileKind.KERNELS}
        return Root(path, plain=bool(in_it) or not _is_directory(path / DIRECTORY_NAMES[Kind.EXECUTABLES]))
    if not names:
        raise NoCacheHere(
            f"{path} is empty: fill it with `{_filling(path)}`, or name another {argument}. Without jcache, JAX stores "
            "only programs that take over 1 s to compile (JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS)."
        )
    raise NoCacheHere(f"{path} is neither a jcache root nor a JAX cache directory: name another {argument}.")


def _filling(path: Path) -> str:
    """Return the command that makes and fills a root, without ``--root`` if the environment names it."""
    try:
        is_meant = choose_path(None, os.environ) == path
    except JcacheError:
        is_meant = False
    return command("run", None if is_meant else path, "-- CMD")


def _others(path: Path) -> Root | None:
    """Return the root that another program's directory is; None if it is none that an adapter recognises."""
    from jcache.store.foreign import adapter_of, state_of

    adapter = adapter_of(path)
    return None if adapter is None else Root(path, plain=True, adapter=adapter, state_path=state_of(path))


def _is_tagged(path: Path) -> bool:
    """Return whether jcache made a root here; other tools write tags as well."""
    try:
        text = read(path / TAG_NAME, len(TAG_TEXT) + 1)
    except OSError:
        return False
    return text == TAG_TEXT.encode() or _is_directory(path / DIRECTORY_NAMES[Kind.EXECUTABLES])


def _is_directory(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _sample(path: Path) -> set[FileKind]:
    """Return the kinds of names in a directory, read only until an entry is seen."""
    seen: set[FileKind] = set()
    with os.scandir(path) as listing:
        for item in listing:
            seen.add(_evidence(item, path))
            if FileKind.ENTRY in seen:
                break
    return seen


def _evidence(item: os.DirEntry[str], path: Path) -> FileKind:
    """Return what one name tells about its directory: `FileKind.UNKNOWN` if it is no evidence of a cache."""
    what, _ = member(item.name)
    if what is FileKind.ENTRY and not item.is_file(follow_symlinks=False):
        return FileKind.UNKNOWN
    if what is FileKind.LEGACY:
        from jcache.store.listing import is_legacy

        if not is_legacy(path / item.name):
            return FileKind.UNKNOWN
    if what is FileKind.OURS and item.name in (*DIRECTORY_NAMES.values(), TAG_NAME):
        if item.name == TAG_NAME or not item.is_dir(follow_symlinks=False):
            return FileKind.UNKNOWN
        with os.scandir(path / item.name) as inside:
            ours = any(member(i.name)[0] is not FileKind.UNKNOWN for i in inside)
        return FileKind.OURS if ours else FileKind.UNKNOWN
    return what


def _tagged(root: Root) -> Root:
    """Return the root, with its tag made again if it is lost: by it, ``executables`` is known as part of the root."""
    if not root.plain and not os.path.lexists(root.path / TAG_NAME):
        with suppress(OSError):
            publish(root.path / TAG_NAME, TAG_TEXT.encode())
    return root


def create_root(path: Path, *, plain: bool = False) -> Root:
    """Return the root at a path, made if there is none.

    Args:
        path: where.
        plain: make a plain JAX directory, as ``JAX_COMPILATION_CACHE_DIR`` asks for.

    Raises:
        NoCacheHere: the path holds something else; a cache is not mixed with other people's files, or programs' caches.
        CannotWrite: it cannot be made.
    """
    path = Path(os.path.abspath(path))  # Path.resolve would follow links
    try:
        return _tagged(open_own(path))
    except NoCacheHere:
        if not is_vacant(path):
            return open_own(path)  # which another process may have made meanwhile, else this says what is there
    root = Root(path, plain=plain)
    with refusal(f"make a root at {path}"):
        path.mkdir(parents=True, exist_ok=True)
        if not plain:  # the tag comes first: to a process that looks meanwhile, a directory without it is not a root
            publish(path / TAG_NAME, TAG_TEXT.encode())
        root.directory(Kind.EXECUTABLES).mkdir(exist_ok=True)
    return root


def make_root(root: Root) -> Root:
    """Return a root as it is to be, made if it is not there yet; raise as `create_root`."""
    if root.layout.follows_jax:
        return create_root(root.path, plain=root.plain)
    with refusal(f"make {root.path}"):
        root.path.mkdir(parents=True, exist_ok=True)
    return root


def open_own(path: Path) -> Root:
    """Return the root at a path for what JAX and jcache store.

    Raises:
        NoCacheHere: as of `open_root`, or it is another program's.
    """
    root = open_root(path)
    if not root.layout.follows_jax:
        raise NoCacheHere(
            f"{root.path} is {root.title}: jcache administers it, but stores no entries there: name another root."
        )
    return root


def is_bounded(root: Root, kind: Kind) -> bool:
    """Return whether entries were put here under a bound, by JAX or by jcache, so that each of them needs its sidecar.

    A bounded JAX makes the lock file at once. We make it as well, where an unbounded one never would, and say so.
    """
    return has_lock(root, kind) and not (kind is Kind.EXECUTABLES and os.path.lexists(root.unbounded_mark))


def has_lock(root: Root, kind: Kind) -> bool:
    """Return whether there is a lock file: then a bounded JAX may be here, whose puts fail if a sidecar is missing.

    Whoever writes entries writes their sidecars then: that only jcache made the lock may have become untrue since.
    """
    return root.layout.follows_jax and os.path.lexists(root.directory(kind) / LOCK_NAME)


def is_vacant(path: Path) -> bool:
    """Return whether there is nothing, or an empty directory that another process may be making a root of."""
    try:
        return all(member(name)[0] is FileKind.TEMPORARY for name in os.listdir(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False
