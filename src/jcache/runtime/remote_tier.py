"""The remote tier: entries that a root lacks come from a store, and new ones go there in the background.

A program notices the store by fewer misses, and by nothing else: no exception, no wait beyond a deadline, at most one
warning. A look-up is one GET in a thread of its own, repeated once at most. The deadline grows with the size of the
entry, and is no longer than building it took last time. After two failures in a row the store is left alone for 30 s
(`jcache.runtime.circuit_breaker`). What is read is compared with its digest and passes the checks of `jcache verify`.
Where signers are named, it must also be what one of them has pushed (`jcache.runtime.remote_signatures`).

Only programs that are given a store import this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from jcache import clock
from jcache.errors import JcacheError, RemoteDenied
from jcache.findings import Damage
from jcache.forking import TellInChild
from jcache.jax_internals.compile_scope import is_compiling
from jcache.jax_internals.gc_pause import collector
from jcache.jax_internals.maker import maker
from jcache.jax_internals.rank_agreement import is_shared
from jcache.layout import Kind, is_key
from jcache.remote import FoundEntry, Timeouts, namespace_of, open_remote
from jcache.remote.run_keys import read_run
from jcache.remote.transport import Pace
from jcache.remote.usage import RemoteId
from jcache.runs import observers
from jcache.runtime.circuit_breaker import CircuitBreaker
from jcache.runtime.remote_claims import SILENCE_S, Claims
from jcache.runtime.remote_request import Request
from jcache.runtime.remote_signatures import SignedEntries
from jcache.runtime.remote_uploads import ReleasedClaim, Trouble, Upload, Uploads, Uses
from jcache.runtime.verified_read import VerifiedEntry, build_seconds
from jcache.verify.faults import fault_of
from jcache.verify.signatures import Signers

T = TypeVar("T")

_READING: Final = Timeouts(connect_s=1.0, request_s=60.0, retries=0, silence_s=1.5)
_WRITING: Final = Timeouts(connect_s=2.0, request_s=60.0, retries=0)  # the answer to a large upload takes a while
_CLAIMING: Final = Timeouts(connect_s=1.0, request_s=4.0, retries=0)
_PAUSES_S: Final = (0.05, 1.0)  # the least and the longest between two looks at what another host compiles
_LONGEST_WAIT_S: Final = 1800.0
_MOST_IN_VAIN: Final = 3  # waits of a process for hosts that have died
_HOST: Final = 16  # digits of a claim that say whose it is
_MOST_HOSTS: Final = 2  # that one after the other claim what is waited for
_ATTEMPTS: Final = 2
_RETRY_AFTER_S: Final = 0.05
_SLOW_S: Final = 0.5
_FLUSH_S: Final = 3.0


class RemoteTier:
    """A store behind the roots of a program; several threads may use it, and forked children inherit it.

    Args:
        url: its URL.
        writes: whether new entries are stored there.
        signers: those whose entries may be used; None for everybody's.
        platforms: returns JAX's platforms in the process that loads the entries; None if they are not known.
        namespace: returns the namespace of the executables of the calling thread's program.
        warn: receives the first failure of the store, in sentences.

    Raises:
        InvalidValue: it is no URL of a store, or a package is not installed; or the store cannot list what the signers
            have signed.
    """

    def __init__(
        self,
        url: str,
        *,
        writes: bool = False,
        signers: Signers | None = None,
        platforms: Callable[[], frozenset[str] | None] = lambda: None,
        namespace: Callable[[], str] = lambda: namespace_of(*maker()),
        warn: Callable[[str], object],
    ) -> None:
        self._url = url
        self._writes = writes
        self._platforms = platforms
        self._namespace = namespace
        self._warn = warn
        self._is_off = False
        self._signers = signers
        self._open()
        _TIERS.add(self)

    def _open(self) -> None:
        self._remote = open_remote(self._url, _READING)
        self._breaker = CircuitBreaker()
        self._used: set[RemoteId] = set()  # entries that have come from the store since the last flush
        self._unsound: set[tuple[Kind, str]] = set()  # entries with the right digest of wrong bytes
        signers = self._signers
        self._trouble = Trouble()
        self._note = self._trouble.note  # refers to no tier: what is in no cycle closes its connections at once
        self._signed = signers and SignedEntries(self._remote, signers, self._answer, self._note)
        self._has_warned = False
        writing = open_remote(self._url, _WRITING) if self._writes else None
        self._uploads = None if writing is None else Uploads(writing, self._breaker, self._note)
        self._waits_in_vain = 0
        is_claiming = writing is not None and signers is None  # what another host uploads has no signature
        self._claims = Claims(open_remote(self._url, _CLAIMING)) if is_claiming else None

    def __str__(self) -> str:
        return str(self._remote)

    def get(self, kind: Kind, key: str) -> VerifiedEntry | None:
        """Return an entry that was checked; None if there is none, or not in time."""
        if self._is_off or not is_key(key) or not self._breaker.allows():
            self._tell()
            return None
        namespace = self._namespace() if kind is Kind.EXECUTABLES else ""
        found = self._find(kind, namespace, key)
        if found is None and namespace and self._claims is not None and is_compiling() and not is_shared():
            found = self._made_elsewhere(self._claims, namespace, key)
        entry = None if found is None else self._checked(kind, key, found)
        if entry is not None:
            self._used.add((kind, namespace, key))
            observers.tell_fetched(kind, len(entry.data), str(self))
        self._tell()
        return entry

    def used_by(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the keys of the executables that the last run of a command used, as far as the store knows."""
        if self._is_off or not self._breaker.allows():
            return ()
        found = self._answer(lambda _: read_run(self._remote, command))
        self._tell()
        return found or ()

    def _find(self, kind: Kind, namespace: str, key: str) -> FoundEntry | None:
        """Return an entry; None if there is none in time, or none that an allowed signer has pushed."""
        signed = self._signed
        digests = None if signed is None else signed.digests(kind, key)
        if signed is not None and not digests:
            is_to_be_told = digests is not None and self._trouble.text is None
            if is_to_be_told and self._answer(lambda _: self._remote.exists(kind, namespace, key)):
                signed.refuse(kind, key)
            return None
        found = self._answer(lambda pace: self._remote.find(kind, namespace, key, pace))
        if signed is None or found is None or found.digest in (digests or ()):
            return found
        signed.refuse(kind, key)
        return None

    def _answer(self, ask: Callable[[Pace], T | None]) -> T | None:
        """Return the answer to a request that is sent once more if it fails; None if there is none in time."""
        return self._request(lambda pace: self._attempt(lambda: ask(pace)))

    def _request(self, ask: Callable[[Pace], T | None]) -> T | None:
        """Return the answer to a request; None if there is none in time."""
        request = Request(ask)
        if not request.is_answered():
            self._breaker.open()
            self._note(f"Cannot read from {self}: it did not answer in time. The program goes on without the store.")
        return request.found

    def _made_elsewhere(self, claims: Claims, namespace: str, key: str) -> FoundEntry | None:
        """Return the executable that another host compiles now; None if this one is to compile it."""
        thread = threading.get_ident()

        def claim(*, over: bool) -> bool | None:
            return self._request(lambda _: self._softly(lambda: claims.take(namespace, key, thread, over=over)))

        def look(pace: Pace) -> tuple[bytes | None, FoundEntry | None] | None:
            return self._softly(
                lambda: (claims.text(namespace, key), self._remote.find(Kind.EXECUTABLES, namespace, key, pace))
            )

        if not self._breaker.allows() or claim(over=False) is not False or self._waits_in_vain >= _MOST_IN_VAIN:
            return None
        collector.go_on()  # it may be off while a trace is looked up
        began = changed = clock.monotonic()
        known, hosts = b"", set[bytes]()
        while (now := clock.monotonic()) - began < _LONGEST_WAIT_S and self._breaker.allows():
            clock.sleep(min(max((now - began) / 8, _PAUSES_S[0]), _PAUSES_S[1]))
            text, found = self._request(look) or (None, None)
            if found is not None or text is None:
                return found
            if text != known:
                hosts.add(text[:_HOST])
                known, changed = text, now
                if len(hosts) > _MOST_HOSTS:
                    return None
            elif now - changed > SILENCE_S:
                self._waits_in_vain += 1
                claim(over=True)
                return None
        return None

    def _softly(self, act: Callable[[], T]) -> T | None:
        """Return what a request about claims returns; None if the store fails or denies it."""
        try:
            found = act()
        except RemoteDenied:  # an upload will tell it
            self._claims = None
        except JcacheError:
            self._breaker.failed()
        else:
            self._breaker.succeeded()
            return found
        return None

    def compiled(self) -> None:
        """Note that the program that this thread has asked for is compiled, and offered if it is stored at all."""
        claims, uploads = self._claims, self._uploads
        if claims is not None and uploads is not None:
            for name in claims.of_thread():
                uploads.offer(ReleasedClaim(claims, name, is_stored=False))

    def offer(self, kind: Kind, key: str, data: bytes, seconds: float | None) -> None:
        """Store an entry in the background, if this program stores entries and not too many are waiting.

        Args:
            kind: kind of the entry.
            key: its key.
            data: its bytes.
            seconds: what building it took, where that is known.
        """
        if self._uploads is None or self._is_off or not is_key(key):
            return
        namespace = self._namespace() if kind is Kind.EXECUTABLES else ""
        replaces = (kind, key) in self._unsound or self._remote.was_damaged(kind, namespace, key)
        claims, claim = self._claims, None
        if claims is not None and namespace and (name := claims.begin_to_send(namespace, key)):
            claim = ReleasedClaim(claims, name)
        if not self._uploads.offer(Upload(kind, namespace, key, bytes(data), seconds, replaces, claim)) and claim:
            self._uploads.offer(claim._replace(is_stored=False))
        self._tell()

    def flush(self, timeout_s: float = _FLUSH_S) -> None:
        """Wait until all uploads have ended, but no longer than some seconds; the others are given up."""
        if self._uploads is not None and not self._is_off:
            used, self._used = self._used, set()
            if used and self._remote.can_list:  # else nobody can prune it
                self._uploads.offer(Uses(frozenset(used)))
            self._uploads.flush(timeout_s)
            self._tell()

    def _attempt(self, act: Callable[[], T | None]) -> T | None:
        for attempt in range(_ATTEMPTS):
            if attempt:
                clock.sleep(_RETRY_AFTER_S)
            if attempt and self._breaker.is_open:
                return None
            began = clock.monotonic()
            try:
                found = act()
            except RemoteDenied as error:  # stores answer so, too, where there is nothing, to whoever may not list
                if clock.monotonic() - began > _SLOW_S:
                    self._breaker.failed()
                self._note(f"{error} The program goes on without the store.")
                return None
            except JcacheError as error:
                self._breaker.failed()
                if self._breaker.is_open:
                    self._note(f"{error} The program goes on without the store.")
            else:
                self._breaker.succeeded()
                return found
        return None

    def _checked(self, kind: Kind, key: str, found: FoundEntry) -> VerifiedEntry | None:
        fault = fault_of(found.data, kind, key, platforms=self._platforms())
        if fault is not None and fault.damage is not Damage.OPAQUE:
            self._unsound.add((kind, key))
            self._note(f"{key} in {self} is damaged ({fault.evidence.rstrip('.')}): it is not used.")
            return None
        seconds = build_seconds(found.data) if kind is Kind.EXECUTABLES and found.seconds is None else found.seconds
        return VerifiedEntry(found.data, seconds)

    def _tell(self) -> None:
        """Warn of the first trouble."""
        if self._trouble.text is not None and not self._has_warned:
            self._has_warned = True
            self._warn(self._trouble.text)

    def _after_fork(self) -> None:
        """Begin anew in a forked child: connections and uploads are the parent's.

        The threads of obstore do not live in a child: a request would hang there, with a new client as well, and then
        in the parent, too, which shares the sockets' poll. A child has no store but one of plain HTTP.
        """
        if self._remote.address.is_web:
            self._open()
        else:
            self._is_off, self._has_warned = True, False
            self._trouble.text = (
                f"{self} is not asked in forked processes, which its client does not support: spawn them."
            )


_TIERS: Final = TellInChild(RemoteTier._after_fork)
