"""The reason why an entry was not stored, from the error that storing it raised."""

import errno

import pytest

from jcache.errors import CannotWrite, JcacheError, LedgerUnavailable, Locked
from jcache.runtime.events import Refusal, refusal_of

REASONS = {
    errno.EROFS: Refusal.READ_ONLY, errno.EACCES: Refusal.READ_ONLY, errno.EPERM: Refusal.READ_ONLY,
    errno.ENOSPC: Refusal.FULL, errno.EDQUOT: Refusal.FULL, errno.EIO: Refusal.FAILED, errno.EMFILE: Refusal.FAILED,
}  # fmt: skip


@pytest.mark.parametrize("number", REASONS, ids=lambda number: errno.errorcode[number])
def test_the_systems_error_is_the_reason(number: int) -> None:
    """An error of the system means the same, whether it is raised itself or is the cause of another one."""
    cause = OSError(number, "text")
    error = CannotWrite("Cannot store it.")
    error.__cause__ = cause
    assert refusal_of(cause) is refusal_of(error) is REASONS[number]


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (Locked("x"), Refusal.LOCKED),
        (LedgerUnavailable("x"), Refusal.PINS_UNKNOWN),
        (JcacheError("x"), Refusal.FAILED),
        (OSError("x"), Refusal.FAILED),
    ],
)
def test_other_errors_have_reasons_of_their_own(error: OSError | JcacheError, refusal: Refusal) -> None:
    """A held lock and unknown pins are told apart; what has no number has failed."""
    assert refusal_of(error) is refusal
