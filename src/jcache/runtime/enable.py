"""`jcache.enable()`: a JAX program uses a jcache root, with the same store as the command line."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jcache.errors import NotInEffect
from jcache.jax_internals.gc_pause import collector
from jcache.jax_internals.presets import Preset
from jcache.runtime.session import Session
from jcache.runtime.settings import ANYTHING, Enabled, EnableRequest, Write
from jcache.runtime.warn import warn_outside
from jcache.store.roots import InUse, path_text, path_texts, put_in_use
from jcache.units import parse_bound, parse_choice

if TYPE_CHECKING:
    from jcache.runs.report import RunReport


class _Current:
    """The session of this process.

    Attributes:
        session: the current session; None if there is none.
        ended: the last session, for its statistics.
        mutex: guards the others.
        is_hooked: whether `multiprocessing` has our hook.
        is_off: whether the program has called `disable` since it last called `enable`.
    """

    session: Session | None = None
    ended: Session | None = None
    mutex = threading.RLock()
    is_hooked = False
    is_off = False


def enable(
    root: str | os.PathLike[str] | None = None,
    *,
    max_size: str | int | None = None,
    preset: Preset | str | None = None,
    read_only: Iterable[str | os.PathLike[str]] = (),
    copy_on_hit: bool = False,
    write: Write | str = Write.RANK0,
    callbacks: bool = True,
    remote: str | None = None,
    remote_write: bool = False,
    remote_signers: str | os.PathLike[str] | None = None,
    strict: bool = False,
) -> Enabled:
    """Make JAX keep its compiled programs in a jcache root, from now on in this process.

    Call it before or after ``import jax``, which it does itself, and before the first computation. As the first thing
    in a program it also freezes the objects that this import makes (``gc.freeze``). A second call with the same
    arguments, or with none, changes nothing; with other arguments, those hold from then on. JAX processes without
    jcache can share the directory. Spawned processes need a call of their own; forked ones do not.

    Args:
        root: a jcache root or a plain JAX cache directory, made if it does not exist. By default ``$JCACHE_DIR``, else
            the directory that JAX is configured with (by ``$JAX_COMPILATION_CACHE_DIR`` or by the program), else
            ``jcache`` in the user's cache directory.
        max_size: bound of the executables' total size, such as ``"20GiB"`` or a number of bytes; 0 stores nothing,
            and warns of each executable, as JAX does. By default ``$JAX_COMPILATION_CACHE_MAX_SIZE``, else what the
            program has set in JAX, else ``max_size`` as `jcache config` shows it, else there is no bound. A
            ``jax_compilation_cache_max_size`` that the program sets later holds from then on, and is in what the next
            call returns.
        preset: the preset of settings for JAX's cache and compiler, see `Preset`; by default the configured one, else
            ``"balanced"``. A setting of the environment, such as ``$JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS``, or of
            the program itself wins over the preset.
        read_only: roots that are read in this order if `root` has no entry, and never written.
        copy_on_hit: whether an entry that a read-only root serves is stored in `root`.
        write: which processes of a multi-process program store executables and traces: ``"rank0"`` for the first one,
            or ``"all"`` of them, into roots of their own or into a common one.
        callbacks: whether to store programs with host callbacks (``jax.debug.print``, ``jax.pure_callback``), if that
            is proven for this version of JAX. From jax 0.11 on JAX does so itself.
        remote: URL of a store, such as ``"s3://bucket/jax"``, that is asked for entries that no root has; what it has
            is kept in `root`. By default ``$JCACHE_REMOTE``, else none; ``""`` for none. However it fails, the program
            goes on as if it had no entry.
        remote_write: whether new entries go to the store, in the background. Whoever may write there can run code in
            every program that reads without `remote_signers`.
        remote_signers: file of allowed signers, as of ``jcache pull --allowed-signers``: the store's entries are used
            only as one of them has pushed them with ``jcache push --sign``. By default ``$JCACHE_REMOTE_SIGNERS``, else
            everybody's are used; ``""`` for everybody's.
        strict: whether to raise an error if any of these does not take effect.

    Returns:
        The settings in effect.

    Raises:
        InvalidValue: an argument cannot be read, or `remote` is plain HTTP, of which no signature can be required.
        NotInEffect: an argument does not take effect, and `strict` is True; JAX is then as without jcache.

    Warns:
        UserWarning: one warning of all that does not take effect, and what to do.

    Example:
        >>> import jcache
        >>> enabled = jcache.enable(max_size="20GiB", preset="balanced")
        >>> import jax, jax.numpy as jnp
        >>> jax.jit(lambda x: x * 2)(jnp.ones(3)).tolist()
        [2.0, 2.0, 2.0]
        >>> enabled.max_bytes
        21474836480
    """
    request = EnableRequest(
        root=None if root is None else path_text(root),
        max_bytes=parse_bound(max_size),
        preset=None if preset is None else parse_choice(Preset, preset, "is not a preset"),
        read_only=path_texts(read_only),
        copy_on_hit=copy_on_hit,
        write=parse_choice(Write, write, "is not a value of write"),
        callbacks=callbacks,
        remote=_checked_url(remote, remote_signers),
        remote_write=remote_write,
        remote_signers=None if remote_signers is None else path_text(remote_signers),
    )
    with _Current.mutex, collector.waits_for_imports(of_jax=True):
        session = _Current.session
        is_kept = request == ANYTHING and session is not None and session.is_in_effect()
        if session is None or not (is_kept or session.matches(request)):
            anew = session is not None and session.was_used()
            _end()
            session = _Current.session = Session(request, anew=anew)
            _Current.is_off = False
            put_in_use(InUse(session.root, session.max_bytes, session.shared, session.remote, session.may_write))
            if session.enabled.warnings and not strict:
                warn_outside(f"jcache.enable(): {' '.join(session.enabled.warnings)}")
        if session.enabled.warnings and strict:
            _end()
            raise NotInEffect(f"jcache.enable() does not take effect as asked: {' '.join(session.enabled.warnings)}")
        session.follow_bound()
        return session.enabled


def _checked_url(remote: str | None, signers: object) -> str | None:
    """Return a URL of a store; raise InvalidValue if it is none, or one of which signatures cannot be required."""
    if remote:
        from jcache.remote.address import check_can_sign, parse_address

        address = parse_address(remote)
        if signers:
            check_can_sign(address)
    return remote


def disable() -> None:
    """Restore JAX's configuration and cache of before `enable`; without `enable`, do nothing.

    Options that the program has set since then stay as they are. Functions of `jcache.jit` are traced as by `jax.jit`
    until the next `enable`.

    Example:
        >>> import jax, jcache
        >>> before = jax.config.jax_compilation_cache_dir
        >>> enabled = jcache.enable()
        >>> jcache.disable()
        >>> jax.config.jax_compilation_cache_dir == before
        True
    """
    with _Current.mutex:
        _Current.is_off = _Current.is_off or _Current.session is not None
        _end()


def is_off() -> bool:
    """Return whether the program has called `disable` since it last called `enable`."""
    return _Current.is_off


def _end() -> None:
    session, _Current.session = _Current.session, None
    if session is not None:
        _Current.ended = session
        put_in_use(None)
        hooks: Any = sys.modules.get("jcache.jax_internals.compile_hook")
        if hooks is not None:  # the next trace puts them back, above what the next session puts into JAX
            hooks.uninstall()
        session.end()


def stats() -> RunReport:
    """Return the report on JAX's cache in this process since `enable`: hits, misses, bypasses, reasons, seconds saved.

    ``traces`` has the outcomes of the calls of `jcache.jit` functions, and ``graphs`` those of the calls for graphs.

    The report is written to the root's ledger every half minute and at exit, and `jcache stats` shows it.

    Raises:
        NotInEffect: `enable` has not been called.

    Example:
        >>> import jax, jcache
        >>> enabled = jcache.enable()
        >>> y = jax.jit(lambda x: x + 1)(1.0)
        >>> stats = jcache.stats()
        >>> stats.requests == stats.hits + stats.misses
        True
        >>> stats.reasons.get("bypassed", {})
        {}
    """
    with _Current.mutex:
        session = _Current.session or _Current.ended
        if session is None:
            raise NotInEffect("Nothing is counted in this process: call jcache.enable() first.")
        return session.report()


def _at_exit() -> None:
    if _Current.session is not None:
        _Current.session.leave()


def _before_fork() -> None:
    """Make the children of `multiprocessing` flush as well: they end without calling the functions of `atexit`."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None and not _Current.is_hooked:
        _Current.is_hooked = True
        util.register_after_fork(_Current, lambda _: util.Finalize(None, _at_exit, exitpriority=10))


def _after_fork() -> None:
    _Current.mutex = threading.RLock()
    if _Current.session is not None:
        _Current.session.renew()


atexit.register(_at_exit)
os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
