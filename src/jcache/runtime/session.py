"""What `jcache.enable` puts in place in this process, and takes away again: a `Session`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jcache.errors import CannotWrite, JcacheError, NoCacheHere
from jcache.jax_internals import cache_hook, cache_keys, callbacks, config
from jcache.jax_internals.presets import SETTINGS
from jcache.layout import Kind, Root
from jcache.runs import in_process, observers
from jcache.runtime.debounce import Soon
from jcache.runtime.events import Event, Refusal, What
from jcache.runtime.executable_cache import ExecutableCache
from jcache.runtime.lru_cache import PlainDirectoryCache
from jcache.runtime.overrides import BOUND, DIRECTORY, by_arguments, of_preset, set_by_program
from jcache.runtime.path_keys import try_path_keys
from jcache.runtime.settings import Enabled, Request, Write
from jcache.runtime.warn import warn
from jcache.store import files
from jcache.store.locking import timeout_in
from jcache.store.roots import choose_path, create_root, open_own, open_root, wants_plain
from jcache.store.store import Store

if TYPE_CHECKING:
    from jcache.runs.report import RunReport

_XLA_CACHES: Final = "jax_persistent_cache_enable_xla_caches"


class Session:
    """jcache in JAX, from its making to `end`.

    Args:
        request: what is to be in effect; what cannot be is told by `enabled.warnings`, and nothing is raised for it.
        anew: whether it takes the place of a session in which JAX has compiled something.

    Attributes:
        enabled: what is in effect.
        root: the root that is read and written.
        shared: more roots, which are only read.
    """

    def __init__(self, request: Request, *, anew: bool = False) -> None:
        self.request = request
        self._anew = anew
        self.root: Root | None = None
        self.shared: tuple[Root, ...] = ()
        self._warnings: list[str] = []
        self._notes: list[str] = []
        self._cache: ExecutableCache | None = None
        self._configured: dict[str, Any] = {}
        self._path_keys: dict[str, str] = {}  # that depend on a path, and in place of which other key they are
        self._unwritable = False
        self._theirs = config.directory()  # that JAX is configured with before
        self._is_set_by_program = set_by_program(DIRECTORY) is not None
        self._soon = Soon(self._flush_statistics)
        self._undo = ExitStack()
        try:
            self.enabled = self._begin()
        except BaseException:
            self._undo.close()
            raise

    def answers(self, request: Request) -> bool:
        """Whether it is what the request asks for, and nobody has configured JAX otherwise meanwhile."""
        if self.request != request or any(config.option(name) != value for name, value in self._configured.items()):
            return False
        try:
            return self.root is not None and self.root.path == self._choose_path()
        except NoCacheHere:
            return False

    def is_in_effect(self) -> bool:
        """Whether JAX is still configured with its directory, whatever else the program has set meanwhile."""
        return self.root is not None and config.directory() == self.enabled.directory

    def max_bytes(self) -> int | None:
        """The bound of the executables together, which the program may change at any time; None for none."""
        bound = _bound()
        return None if bound == -1 else bound

    def follow_bound(self) -> None:
        """Has `enabled` tell the bound of now."""
        if self.enabled.root is not None and self.enabled.max_bytes != self.max_bytes():
            self.enabled = self.enabled._replace(max_bytes=self.max_bytes())

    def was_used(self) -> bool:
        """Whether JAX has compiled something since the session began."""
        return cache_hook.used_before()

    def report(self) -> RunReport:
        """What JAX's cache has done since the beginning."""
        return self._watch.report(notices=self._said)

    def flush(self) -> None:
        """Writes what has been learnt to the root's ledger, softly."""
        if self._cache is not None:
            self._cache.flush()
        self._flush_statistics()

    def end(self) -> None:
        """Puts back all that has been changed."""
        self.flush()
        self._undo.close()
        if self._cache is not None:
            self._cache.close()

    def renew(self) -> None:
        """Begins to count anew, in a forked child."""
        self._watch.renew()

    @property
    def _said(self) -> tuple[str, ...]:
        return *self._warnings, *self._notes

    def _on_compiled(self) -> None:
        self._soon.ask(in_process.seconds_until_due(self._watch))

    def _flush_statistics(self) -> None:
        if self.root is not None:
            in_process.flush(self.root, self._watch, notices=self._said)

    def _on_event(self, event: Event) -> None:
        """Tells whoever watches, `jcache run` included, what JAX does not know of."""
        if event.what is What.HIT and event.seconds is not None:
            self._watch.build_seconds[event.key] = event.seconds
        elif event.what is What.REFUSED:
            observers.tell_not_stored(event.key, event.detail or "")
        elif event.what is What.PRESENT:
            observers.tell_not_stored(event.key, "an entry with this key was there already")
        elif event.what is What.DAMAGED:
            observers.tell_damaged(event.key, event.detail or "")

    # -- beginning

    def _begin(self) -> Enabled:
        self._watch = in_process.Watch(on_compiled=self._on_compiled)
        self._undo.callback(self._watch.stop)
        self.root = self._find_root()
        if self.root is None:
            return Enabled(None, None, None, self.request.preset, (), "none", tuple(self._warnings), ())
        directory = self.root.directory(Kind.EXECUTABLES)
        self.shared = shared = tuple(self._find_read_only())
        self._look_for_lateness(directory)
        self._configure(directory)
        self._make_keys_portable(self.root, shared)
        store = self._install(self.root, shared)
        return Enabled(
            root=self.root.path,
            directory=directory,
            max_bytes=self.max_bytes(),
            preset=self.request.preset,
            read_only=tuple(root.path for root in shared),
            store=store,
            warnings=tuple(self._warnings),
            notes=tuple(self._notes),
        )

    def _environment(self) -> Mapping[str, str]:
        """The environment, with the directory that the program has set in the place of JAX's own variable."""
        if self._theirs is None:
            return os.environ
        return os.environ | {DIRECTORY.upper(): str(self._theirs)}

    def _choose_path(self) -> Path:
        if self.request.root is None and not os.environ.get("JCACHE_DIR") and self._is_set_by_program:
            return choose_path(str(self._theirs), os.environ, source=f"{DIRECTORY}, which the program has set")
        return choose_path(self.request.root, self._environment(), source="root")

    def _find_root(self) -> Root | None:
        try:
            path = self._choose_path()
            plain = wants_plain(self.request.root, self._environment())
            try:
                root = create_root(path, plain=plain)
                self._check_writable(root)
            except CannotWrite as error:
                self._warnings.append(f"{error} Programs go on, and none of them is stored.")
                self._unwritable = True
                root = open_root(path) if path.is_dir() else Root(path, plain=plain)
        except NoCacheHere as error:
            self._warnings.append(f"{error} JAX is left as it was.")
            return None
        directory = root.directory(Kind.EXECUTABLES)
        if not root.plain and directory.is_symlink():
            self._warnings.append(
                f"{directory} is a symbolic link, which is not followed: name what it points to as root. JAX is left "
                "as it was."
            )
            return None
        return root

    def _check_writable(self, root: Root) -> None:
        if self._may_write():
            directory = root.directory(Kind.EXECUTABLES)
            with files.refusal(f"write to {directory}"):
                directory.mkdir(exist_ok=True)
                os.unlink(files.create_temporary(str(directory)))

    def _may_write(self) -> bool:
        return self.request.write is Write.ALL or cache_hook.process_index() == 0

    def _find_read_only(self) -> list[Root]:
        found = []
        for text in self.request.read_only:
            try:
                found.append(open_own(choose_path(text, os.environ, source="read_only")))
            except NoCacheHere as error:
                self._warnings.append(f"{error} It is not read.")
        return found

    def _look_for_lateness(self, directory: Path) -> None:
        if self._anew or not cache_hook.used_before():
            return
        used = cache_hook.in_use()
        advice = "call jcache.enable() before the first computation."
        if used is not None and used != directory:
            self._warnings.append(
                f"Computations have already used the cache {used}: what was compiled so far is there, and only what is "
                f"compiled from now on is in {directory}; {advice}"
            )
        elif used is None:
            self._notes.append(f"What was compiled so far is not cached; {advice}")

    def _configure(self, directory: Path) -> None:
        """Sets JAX's options; over a preset wins what the program has set before, or else the environment."""
        preset = self.request.preset
        theirs, told = of_preset(preset)
        self._warnings += told
        self._warnings += by_arguments(self.request, self.root.path if self.root else directory, directory)
        values: dict[str, Any] = {o: value for o, value in SETTINGS[preset].items() if o not in theirs}
        values[DIRECTORY] = str(directory)
        if self.request.max_bytes is not None:
            values[BOUND] = self.request.max_bytes
        elif config.option(BOUND) < -1:
            self._warnings.append(f"{BOUND} is {config.option(BOUND)}, which is no bound, so there is none: set -1.")
            values[BOUND] = -1
        configured = config.configure(values)
        self._undo.callback(configured.restore)
        self._configured = {name: value for name, value in values.items() if name not in configured.unknown}
        self._warnings += [
            f"jax {cache_hook.versions()[0]} has no option {option}, which preset '{preset}' sets: choose another "
            "preset, or a later jax."
            for option in configured.unknown
        ]

    def _make_keys_portable(self, root: Root, shared: Sequence[Root]) -> None:
        self._undo.callback(cache_hook.portable_keys, on=False)
        if reason := cache_hook.portable_keys(on=True):
            self._notes.append(f"{reason}: XLA's own caches are off, so that keys do not depend on the directory.")
            if _XLA_CACHES.upper() not in os.environ:
                self._undo.callback(config.configure({_XLA_CACHES: "none"}).restore)
        self._path_keys = try_path_keys([root, *shared], [self.request.root, self._theirs], self._note_once)
        self._undo.callback(cache_keys.try_no_path_keys)

    def _note_once(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _install(self, root: Root, shared: Sequence[Root]) -> str:
        """Puts our cache in JAX, or else configures JAX's own; returns whose it is."""
        if notice := cache_hook.newer_than_tested():
            self._notes.append(notice)
        self._undo.callback(callbacks.cache_callbacks, on=False)
        if reason := callbacks.cache_callbacks(on=self.request.callbacks):
            self._notes.append(f"Programs with host callbacks are compiled anew in every process: {reason}.")
        self._undo.callback(cache_hook.all_ranks_write, on=False)
        if reason := cache_hook.all_ranks_write(on=self.request.write is Write.ALL):
            self._warnings.append(f"Only the first process stores programs: {reason}.")
        self._cache = ExecutableCache(
            root,
            max_size=_bound,
            read_only=shared,
            copy_on_hit=self.request.copy_on_hit,
            may_write=self._may_write,
            warn=_warn,
            on_event=self._on_event,
            lock_timeout=timeout_in(os.environ),
            path_keys=self._path_keys,
            raises=_raises,
            platforms=cache_hook.platforms,
            told=(Refusal.READ_ONLY, Refusal.FULL) if self._unwritable else (),
        )
        installed = cache_hook.install(self._cache_of)
        if isinstance(installed, cache_hook.InstalledCache):
            self._cache.prepare()
            self._undo.callback(installed.uninstall)
            return "jcache"
        self._warnings.append(
            f"{installed}: JAX's own cache is used, configured as well as it can be, without what jcache adds to it"
            f"{' (read_only among it)' if shared else ''}; a later jcache may know this jax."
        )
        self._cache = None
        self._use_jaxs_own(root)
        return "jax"

    def _cache_of(self, path: str) -> ExecutableCache | None:
        """The cache of a directory that JAX is configured with, which the program can change; None for JAX's own."""
        if self.root is not None and Path(path) == self.root.directory(Kind.EXECUTABLES):
            return self._cache
        return (
            None
            if "://" in path
            else PlainDirectoryCache(
                path, max_size=config.option(BOUND), platforms=cache_hook.platforms, raises=_raises
            )
        )

    def _use_jaxs_own(self, root: Root) -> None:
        if config.option(BOUND) != -1:
            try:
                with Store(root) as store:  # a bounded JAX <= 0.11.1 stores nothing while an entry lacks its sidecar
                    store.adopt(Kind.EXECUTABLES, record=False)
                    store.bounded()
            except JcacheError as error:
                self._warnings.append(str(error))
        cache_hook.reset()
        self._undo.callback(cache_hook.reset)


def _bound() -> int:
    """The bound that JAX is configured with; -1 for none."""
    return max(int(config.option(BOUND)), -1)


def _raises() -> bool:
    """Whether JAX is told to raise what fails around its cache, in place of a warning."""
    return bool(config.option("jax_raise_persistent_cache_errors"))


def _warn(text: str) -> None:
    warn(text, stacklevel=6)
