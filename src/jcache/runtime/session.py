"""A session: all changes that `jcache.enable` makes to JAX in this process, and their removal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jcache.configuration.files import for_program
from jcache.errors import InvalidValue, JcacheError, NoCacheHere
from jcache.jax_internals import cache_hook, cache_keys, callbacks, compile_scope, config, rank_agreement
from jcache.jax_internals.presets import RUN_BOUND, SETTINGS, Preset
from jcache.layout import Kind, Root
from jcache.runs import flush, in_process, observers
from jcache.runtime.debounce import Debouncer
from jcache.runtime.events import CacheEvent, EventKind, Refusal
from jcache.runtime.executable_cache import ExecutableCache
from jcache.runtime.lru_cache import PlainDirectoryCache
from jcache.runtime.overrides import BOUND, DIRECTORY, bound, by_arguments, of_preset, raises
from jcache.runtime.path_keys import try_path_keys
from jcache.runtime.session_roots import SessionRoots, store_behind
from jcache.runtime.settings import Enabled, EnableRequest, Write
from jcache.runtime.write_queue import flush_all
from jcache.store.locking import mark_bounded, timeout_in
from jcache.store.remote_entries import RemoteEntries
from jcache.store.run_records import OFF, record_mode
from jcache.store.store import Store

if TYPE_CHECKING:
    from jcache.runs.report import RunReport

_XLA_CACHES: Final = "jax_persistent_cache_enable_xla_caches"


class Session:
    """jcache installed in JAX, from construction until `end`.

    Args:
        request: the arguments of `jcache.enable`; what does not take effect raises no error: see `enabled.warnings`.
        anew: whether the session replaces one in which JAX has compiled something.

    Attributes:
        enabled: the settings in effect.
        root: the root that is read and written; None if there is none.
        shared: the read-only roots.
        remote: the store behind the roots; None if there is none.
        may_write: returns whether this process stores executables and traces.
    """

    def __init__(self, request: EnableRequest, *, anew: bool = False) -> None:
        self.request = request
        self._anew = anew
        self.root: Root | None = None
        self.shared: tuple[Root, ...] = ()
        self.remote: RemoteEntries | None = None
        self._warnings: list[str] = []
        self._notes: list[str] = []
        self._cache: ExecutableCache | None = None
        self._configured: dict[str, Any] = {}
        self._path_keys: dict[str, str] = {}  # keys that depend on a path, each with the key that does not
        self._preset = request.preset or Preset.BALANCED
        self._roots = SessionRoots(request, self._warnings.append)
        self.may_write = self._roots.may_write
        self._debouncer = Debouncer(self._flush_statistics)
        self._undo = ExitStack()
        try:
            self.enabled = self._begin()
        except BaseException:
            self._undo.close()
            raise

    def matches(self, request: EnableRequest) -> bool:
        """Return whether the session has this request, and nobody has changed JAX's configuration meanwhile."""
        if self.request._replace(preset=self._preset) != request._replace(preset=request.preset or self._preset):
            return False
        if any(config.option(name) != value for name, value in self._configured.items()):
            return False
        try:
            has_root = self.root is not None and self.root.path == self._roots.path()
            return has_root and self._roots.behind == store_behind(request)
        except NoCacheHere:
            return False

    def is_in_effect(self) -> bool:
        """Return whether JAX is still configured with the session's directory."""
        return self.root is not None and config.directory() == self.enabled.directory

    def max_bytes(self) -> int | None:
        """Return the bound of the executables' total size, which the program may change; None for no bound."""
        return value if (value := bound()) != -1 else None

    def follow_bound(self) -> None:
        """Update the bound in `enabled`."""
        if self.enabled.root is not None and self.enabled.max_bytes != self.max_bytes():
            self.enabled = self.enabled._replace(max_bytes=self.max_bytes())

    def was_used(self) -> bool:
        """Return whether JAX has compiled something since the session began."""
        return cache_hook.used_before()

    def report(self) -> RunReport:
        """Return the report on JAX's cache since the session began."""
        return self._monitor.report(notices=self._notices)

    def flush(self) -> None:
        """Write all pending records and the statistics to the root's ledger; a failure is ignored."""
        if self.root is not None:
            flush_all(self.root)
        self._flush_statistics()

    def leave(self) -> None:
        """Flush, and wait some seconds for what goes to the store."""
        self.flush()
        if self.remote is not None:
            self.remote.flush()

    def end(self) -> None:
        """Undo all changes to JAX; later, nothing is written to the root."""
        self.leave()
        self._undo.close()

    def renew(self) -> None:
        """Start with empty statistics in a forked child."""
        self._monitor.renew()

    @property
    def _notices(self) -> tuple[str, ...]:
        return *self._warnings, *self._notes

    def _on_compiled(self) -> None:
        self._debouncer.schedule(flush.seconds_until_due(self._monitor))

    def _flush_statistics(self) -> None:
        if self.root is not None:
            flush.flush(self.root, self._monitor, notices=self._notices)

    def _on_event(self, event: CacheEvent) -> None:
        """Pass on what JAX does not report, to the monitor and to `jcache run`."""
        if event.kind is EventKind.HIT and event.seconds is not None:
            self._monitor.build_seconds[event.key] = event.seconds
        elif event.kind is EventKind.REFUSED:
            observers.tell_not_stored(event.key, event.detail or "")
        elif event.kind is EventKind.PRESENT:
            observers.tell_present(event.key)
        elif event.kind is EventKind.DAMAGED:
            observers.tell_damaged(event.key, event.detail or "")

    def _begin(self) -> Enabled:
        self._monitor = in_process.CacheMonitor(on_compiled=self._on_compiled)
        self._undo.callback(self._monitor.stop)
        self.root = self._roots.open()
        self._configuration, faults = for_program(self.root, os.environ)
        self._warnings += faults
        self._preset = self.request.preset or Preset(self._configuration.value("preset"))
        if self.root is None:
            return Enabled(None, None, None, self._preset, (), "none", tuple(self._warnings), ())
        self._record_keys(self.root)
        directory = self.root.directory(Kind.EXECUTABLES)
        self.shared = shared = tuple(self._roots.open_read_only())
        self.remote = self._roots.open_remote(self._note_once)
        self._check_not_late(directory)
        self._configure(directory)
        self._make_keys_portable(self.root, shared)
        store = self._install(self.root, shared)
        return Enabled(
            root=self.root.path,
            directory=directory,
            max_bytes=self.max_bytes(),
            preset=self._preset,
            read_only=tuple(root.path for root in shared),
            remote=None if self.remote is None else str(self.remote),
            store=store,
            warnings=tuple(self._warnings),
            notes=tuple(self._notes),
        )

    def _record_keys(self, root: Root) -> None:
        """Record what keys are made of, unless `jcache run` does."""
        from jcache.runs.environment import is_recorded_by_run

        try:
            mode = record_mode(root, os.environ)
        except InvalidValue as error:
            self._warnings.append(str(error))
            return
        if mode != OFF and not is_recorded_by_run(os.environ):
            self._monitor.record_keys(root, mode)

    def _check_not_late(self, directory: Path) -> None:
        if self._anew or not cache_hook.used_before():
            return
        used = cache_hook.in_use()
        advice = "call jcache.enable() before the first computation."
        if used is not None and used != directory:
            self._warnings.append(
                f"Computations have already used the cache {used}: programs compiled so far are there, and only later "
                f"ones are in {directory}; {advice}"
            )
        elif used is None:
            self._notes.append(f"Programs compiled so far are not cached; {advice}")

    def _configure(self, directory: Path) -> None:
        """Set JAX's options; values that the program or the environment has set win over the preset."""
        preset = self._preset
        already_set, warnings = of_preset(preset)
        self._warnings += warnings
        self._warnings += by_arguments(self.request, self.root.path if self.root else directory, directory)
        values: dict[str, Any] = {o: value for o, value in SETTINGS[preset].items() if o not in already_set}
        values[DIRECTORY] = str(directory)
        if self.request.max_bytes is not None:
            values[BOUND] = self.request.max_bytes
        elif config.option(BOUND) < -1:
            self._warnings.append(f"{BOUND} is {config.option(BOUND)}, which is no bound, so there is none: set -1.")
            values[BOUND] = -1
        elif str(config.option(BOUND)) in ("-1", os.environ.get(RUN_BOUND)):
            bound = self._configuration.value("max_size")
            values[BOUND] = -1 if bound is None else bound
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
        self._path_keys = try_path_keys([root, *shared], [self.request.root, self._roots.configured], self._note_once)
        self._undo.callback(cache_keys.try_no_path_keys)

    def _note_once(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _install(self, root: Root, shared: Sequence[Root]) -> str:
        """Install jcache's cache in JAX, or else configure JAX's own; return which one it is, as `Enabled.store`."""
        if notice := cache_hook.newer_than_tested():
            self._notes.append(notice)
        self._undo.callback(callbacks.cache_callbacks, on=False)
        if reason := callbacks.cache_callbacks(on=self.request.callbacks):
            self._notes.append(f"Programs with host callbacks are compiled again in every process: {reason}.")
        self._undo.callback(cache_hook.all_ranks_write, on=False)
        if reason := cache_hook.all_ranks_write(on=self.request.write is Write.ALL):
            self._warnings.append(f"Only the first process stores programs: {reason}.")
        self._undo.callback(rank_agreement.install(observers.tell_absent))
        if self.remote is not None and self.request.remote_write:
            self._undo.callback(compile_scope.call_after(self.remote.compiled))
        self._cache = ExecutableCache(
            root,
            max_size=bound,
            read_only=shared,
            copy_on_hit=self.request.copy_on_hit,
            may_write=self.may_write,
            on_event=self._on_event,
            lock_timeout=timeout_in(os.environ),
            path_keys=self._path_keys,
            raises=raises,
            platforms=cache_hook.platforms,
            remote=self.remote,
            known_refusals=(Refusal.READ_ONLY, Refusal.FULL) if self._roots.is_unwritable else (),
        )
        self._undo.callback(self._cache.close)
        installed = cache_hook.install(self._cache_of)
        if isinstance(installed, cache_hook.InstalledCache):
            self._cache.prepare()
            self._undo.callback(installed.uninstall)
            return "jcache"
        self._warnings.append(
            f"{installed}: JAX's own cache is used with jcache's settings, but without jcache's features"
            f"{', such as read_only and remote' if shared or self.remote else ''}; a later jcache may know this jax."
        )
        self._cache = None
        self._configure_jaxs_own(root)
        return "jax"

    def _cache_of(self, path: str) -> ExecutableCache | None:
        """Return the cache for JAX's configured directory, which the program may change; None for JAX's own cache."""
        if self.root is not None and Path(path) == self.root.directory(Kind.EXECUTABLES):
            return self._cache
        if "://" in path:
            return None
        return PlainDirectoryCache(path, max_size=config.option(BOUND), platforms=cache_hook.platforms, raises=raises)

    def _configure_jaxs_own(self, root: Root) -> None:
        if config.option(BOUND) != -1:
            try:
                with Store(root) as store:  # a bounded JAX <= 0.11.1 stores nothing while an entry lacks its sidecar
                    store.maintenance.adopt(Kind.EXECUTABLES, record=False)
                    mark_bounded(store.root)
            except JcacheError as error:
                self._warnings.append(str(error))
        cache_hook.reset()
        self._undo.callback(cache_hook.reset)
