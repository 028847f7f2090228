"""What can go wrong, and the exit code of each.

JcacheError                 1   something failed; the message says what, why and what to do
├── InvalidValue            2   a size, age, filter, kind or other argument that cannot be read
├── OutOfReach              3   what is asked for cannot be reached, so that nothing was done
├── NoCacheHere            10   the path is neither a root nor a JAX cache directory
├── Locked                 11   another process holds the directory's lock
├── UnknownKey              1   no entry, or more than one, has this key or prefix
├── BadArchive              1   an archive that is torn, malformed, hostile or larger than allowed
│   └── Truncated           1   one that ends too early: what came before its end is whole
├── Untrusted              12   an archive that is unsigned, or not signed by whom it should be
├── DamagedEntry            1   bytes that do not follow the grammar of an entry
├── NotStorable             1   a value that no codec of graphs can turn into bytes
├── Unresolved              1   a sound graph that cannot be made again in this program
├── LedgerUnavailable       1   the ledger cannot be read or written
├── NotInEffect             1   `jcache.enable(strict=True)` could not do all that it was asked for
├── GraphKeyError           1   a callable or an argument of which no key can be made
└── CannotWrite             1   a root that is read-only, full or otherwise refuses a change

Every message is one sentence that names the thing, the reason and, where there is one, the next command.
"""


class JcacheError(Exception):
    """Base of every error that jcache raises on purpose."""

    exit_code = 1


class InvalidValue(JcacheError, ValueError):
    """An argument that cannot be read as what it should be."""

    exit_code = 2


class OutOfReach(JcacheError):
    """What is asked for cannot be reached, whatever is done, and so nothing was."""

    exit_code = 3


class NoCacheHere(JcacheError):
    """The path is neither a jcache root nor a JAX cache directory."""

    exit_code = 10


class Locked(JcacheError):
    """Another process held the directory's lock for longer than we may wait."""

    exit_code = 11


class UnknownKey(JcacheError, KeyError):
    """No entry, or more than one, answers to a key or prefix."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class DamagedEntry(JcacheError):
    """The bytes of an entry do not follow its grammar."""


class NotStorable(JcacheError):
    """A value holds something that no codec can turn into bytes."""


class Unresolved(JcacheError):
    """A sound graph cannot be made again here: its class is not imported, say, or has other fields by now."""


class LedgerUnavailable(JcacheError):
    """The ledger cannot be read or written now.

    Attributes:
        lost: whether what it held is lost anyway, so that waiting for it is of no use.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class CannotWrite(JcacheError):
    """A root refuses a change: read-only, full, or not ours."""


class NotInEffect(JcacheError):
    """Something that `jcache.enable` was asked for does not take effect."""


class GraphKeyError(JcacheError, TypeError):
    """A callable, or something that its result depends on, cannot be fingerprinted."""


class BadArchive(JcacheError):
    """An archive is torn, malformed, hostile or larger than allowed."""


class Truncated(BadArchive):
    """An archive ends too early, as after a broken connection."""


class Untrusted(JcacheError):
    """An archive is not signed by somebody who is allowed to, or differs from what was signed."""

    exit_code = 12
