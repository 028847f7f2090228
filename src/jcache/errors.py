"""The errors of jcache, and the exit code of each.

JcacheError                 1   something failed; the message names the thing, the reason and the next command
├── InvalidValue            2   a size, age, filter, kind or other argument that cannot be read
├── OutOfReach              3   the request cannot be fulfilled, so that nothing was done
├── NoCacheHere            10   the path is neither a root nor a JAX cache directory
├── Locked                 11   another process holds the directory's lock
├── UnknownKey              1   no entry, or more than one, has this key or prefix
├── BadArchive              1   an archive that is torn, malformed, hostile or larger than allowed
│   └── Truncated           1   one that ends too early: what came before its end is whole
├── Untrusted              12   an archive without a signature, or without one of an allowed signer
├── DamagedEntry            1   bytes that do not follow the grammar of an entry
├── NotStorable             1   a value that no codec of graphs can turn into bytes
├── Unresolved              1   a sound graph that cannot be made again in this program
├── LedgerUnavailable       1   the ledger cannot be read or written
├── RemoteUnavailable       1   a remote store that cannot be reached, fails or does not answer in time
├── RemoteDenied            1   a remote store that does not allow a request
├── NotInEffect             1   a request to `jcache.enable(strict=True)` that does not take effect
├── GraphKeyError           1   a callable or an argument that cannot be fingerprinted
└── CannotWrite             1   a root that is read-only, full or otherwise refuses a change

Every message is one sentence that names the thing, the reason and, where there is one, the next command.
"""


class JcacheError(Exception):
    """Base of every error that jcache raises on purpose."""

    exit_code = 1


class InvalidValue(JcacheError, ValueError):
    """An argument is not of the form that it must have."""

    exit_code = 2


class OutOfReach(JcacheError):
    """A request cannot be fulfilled by any means, so nothing was done."""

    exit_code = 3


class NoCacheHere(JcacheError):
    """The path is neither a jcache root nor a JAX cache directory."""

    exit_code = 10


class Locked(JcacheError):
    """Another process held the directory's lock for longer than jcache waits."""

    exit_code = 11


class UnknownKey(JcacheError, KeyError):
    """No entry, or more than one, has a key or a key with a prefix."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class DamagedEntry(JcacheError):
    """The bytes of an entry do not follow its grammar."""


class NotStorable(JcacheError):
    """A value has a part that no codec can turn into bytes."""


class Unresolved(JcacheError):
    """An undamaged graph cannot be made again in this program: its class is not imported, say, or has other fields."""


class LedgerUnavailable(JcacheError):
    """The ledger cannot be read or written.

    Attributes:
        lost: whether its content is lost, so that waiting does not help.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class CannotWrite(JcacheError):
    """A root refuses a change: it is read-only, full, or another user's."""


class RemoteUnavailable(JcacheError):
    """A remote store cannot be reached, fails, or does not answer in time."""


class RemoteDenied(JcacheError):
    """A remote store does not allow a request, such as a write with credentials that only read."""


class NotInEffect(JcacheError):
    """A request to `jcache.enable` does not take effect."""


class GraphKeyError(JcacheError, TypeError):
    """A callable, or a value that its result depends on, cannot be fingerprinted."""


class BadArchive(JcacheError):
    """An archive is torn, malformed, hostile or larger than allowed."""


class Truncated(BadArchive):
    """An archive ends too early, as after a broken connection."""


class Untrusted(JcacheError):
    """An archive is not signed by an allowed signer, or differs from the content that was signed."""

    exit_code = 12
