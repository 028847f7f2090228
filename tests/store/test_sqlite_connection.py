"""Errors of SQLite tell a busy ledger from a damaged one, and from a file system without locks."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.errors import LedgerUnavailable
from jcache.layout import Kind
from jcache.store import sqlite
from jcache.store.ledger import Known
from tests.helpers.entries import key
from tests.helpers.stores import open_ledger

PINS = {(Kind.EXECUTABLES, key(1))}
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
static int answer(int fd, int command, void *argument) {
    static int (*real)(int, int, ...);
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) {
        errno = atoi(getenv("NO_LOCKS_ERRNO"));
        return -1;
    }
    if (!real) real = dlsym(RTLD_NEXT, "fcntl");
    return real(fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list list; va_start(list, command); void *argument = va_arg(list, void *); va_end(list);
    return answer(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list list; va_start(list, command); void *argument = va_arg(list, void *); va_end(list);
    return answer(fd, command, argument);
}
"""


USE_LEDGER = """
import sys
from pathlib import Path
from jcache.layout import Kind
from jcache.store.ledger import Known, Ledger
for number in range(3):
    ledger = Ledger(Path(sys.argv[1]), busy_timeout=0.2)
    ledger.record([Known(Kind.EXECUTABLES, f"jit_f-{number:064x}", pinned_ns=1)])
    ledger.close()
    assert len(Ledger(Path(sys.argv[1]), busy_timeout=0.2).pins()) == number + 1
"""


def test_a_disk_that_fails_costs_no_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails or is full, an empty file is removed, but no ledger that may hold pins."""

    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "_check", fail)
        with pytest.raises(LedgerUnavailable, match="disk I/O error"):
            open_ledger(path).record([Known(Kind.EXECUTABLES, key(7))])
    assert open_ledger(path).pins() == PINS


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="takes Linux and a C compiler")
@pytest.mark.parametrize("error", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_a_file_system_without_locks(tmp_path: Path, error: str) -> None:
    """If POSIX locks do not work, as on some network file systems, SQLite's lock files are used."""
    import errno

    (tmp_path / "shim.c").write_text(SHIM)
    build = ["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"]
    subprocess.run(build, cwd=tmp_path, check=True)
    more = {"LD_PRELOAD": str(tmp_path / "shim.so"), "NO_LOCKS_ERRNO": str(getattr(errno, error))}
    ledger = tmp_path / "state" / "ledger.sqlite3"
    command = [sys.executable, "-c", USE_LEDGER, str(ledger)]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(open_ledger(ledger).pins()) == 3
