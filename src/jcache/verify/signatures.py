"""Sign manifests and check signatures by ``ssh-keygen -Y`` of OpenSSH 8.2 or later, as git does.

ssh-keygen works in a temporary directory that no other user can read. It asks for passphrases on the terminal, and only
while it signs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import InvalidValue, JcacheError, Untrusted
from jcache.store.files import refusal
from jcache.text import shown

NAMESPACE: Final = "jcache-archive"
_DATA, _SIGNATURE, _SIGNERS, _ABSENT = "manifest", "manifest.sig", "allowed_signers", "absent-manifest"
_MAX_SIGNERS_BYTES: Final = 16 << 20
_MAX_PROMPTS: Final = 3
_SIGN_LIMIT_S: Final = 600  # the user may type a passphrase or touch a hardware key
_CHECK_LIMIT_S: Final = 60
_PROMPT_VARIABLES: Final = ("DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS_REQUIRE")
_TOO_OLD = re.compile("^(usage: ssh-keygen|Unsupported operation for -Y)", re.MULTILINE)
_REASON = re.compile(rf"^{_SIGNERS}:(\d+: .*?)\r?$", re.MULTILINE)
_INSTALL: Final = "install OpenSSH's client, 8.2 or later, such as Debian's openssh-client"


class Signers(NamedTuple):
    """Who may sign: the path of a file of allowed signers, and its content."""

    path: Path
    text: bytes


def check_key(key_path: Path) -> bool:
    """Check that ssh-keygen can sign with a key, without signing anything or asking anybody.

    Args:
        key_path: file of a private key, or of a public key whose private key is beside it or in ssh-agent.

    Returns:
        Whether ssh-keygen will ask for the key's passphrase.

    Raises:
        InvalidValue: ssh-keygen finds no key there, or the key has a passphrase and there is no terminal to ask on.
        JcacheError: ssh-keygen is missing or too old.
    """
    with _folder() as folder:  # ssh-keygen loads the key first, and then finds no file to sign
        done = _run("sign", "-q", "-n", NAMESPACE, "-f", os.path.abspath(key_path), _ABSENT, folder=folder)
    if _ABSENT in done.stderr:
        return False
    if "incorrect passphrase" not in done.stderr:
        raise InvalidValue(
            f"Cannot sign with {key_path}: ssh-keygen says '{_reason(done)}': name a private key that only you can "
            "read, as `ssh-keygen -t ed25519` makes one, or the public half of one that ssh-agent holds."
        )
    if not _can_ask():
        raise InvalidValue(
            f"The key {key_path} has a passphrase, and there is no terminal to ask for it on: add the key to ssh-agent "
            "with ssh-add."
        )
    return True


def sign(data: bytes, key_path: Path) -> bytes:
    """Return the armored signature of the data by a key. ssh-keygen may ask for a passphrase on the terminal.

    Raises:
        InvalidValue, JcacheError: as `check_key` does, or ssh-keygen did not sign.
    """
    prompts = _MAX_PROMPTS if check_key(key_path) else 1
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", os.path.abspath(key_path), _DATA]
    with _folder({_DATA: data}) as folder, _terminal() as terminal:
        if any(_signs(command, folder, terminal) for _ in range(prompts)):
            return (folder / _SIGNATURE).read_bytes()
    raise JcacheError(f"ssh-keygen did not sign with {key_path}: it says why above.")


def check_signature(data: bytes, signature: bytes) -> str:
    """Check that an armored signature is of the data, whoever made it; return the fingerprint of the key.

    Raises:
        Untrusted: it is not a signature of the data for `NAMESPACE`.
        JcacheError: ssh-keygen is missing or too old.
    """
    with _folder({_SIGNATURE: signature}) as folder:
        return _fingerprint(data, folder)


def verify(data: bytes, signature: bytes, allowed_signers: Path) -> str:
    """Return the principal who signed the data, by a file of allowed signers (see ssh-keygen(1), ALLOWED SIGNERS).

    Args:
        data: the data that the signature should be of.
        signature: armored.
        allowed_signers: file of principals and their keys.

    Raises:
        Untrusted: the signature is not one of the data, or its key is not allowed to sign for `NAMESPACE` now.
        InvalidValue: the file of allowed signers cannot be read.
        JcacheError: ssh-keygen is missing or too old.
    """
    return verify_by(data, signature, read_signers(allowed_signers))


def verify_by(data: bytes, signature: bytes, signers: Signers) -> str:
    """Return the principal who signed the data, as `verify` does, by signers that have been read."""
    with _folder({_SIGNATURE: signature, _SIGNERS: signers.text}) as folder:
        files = ("-s", _SIGNATURE, "-f", _SIGNERS)
        found = _run("find-principals", *files, folder=folder)
        said = found.stderr
        for principal in found.stdout.split("\n"):  # patterns; those with a ! name nobody
            if principal and not principal.startswith("!"):
                done = _run("verify", *files, "-n", NAMESPACE, "-I", principal, folder=folder, data=data)
                if _is_good(done):
                    return shown(principal)
                said += done.stderr
        fingerprint = _fingerprint(data, folder)
    reasons = "; ".join(f"line {shown(reason)}" for reason in dict.fromkeys(_REASON.findall(said)))
    why = f" ({reasons})" if reasons else ""
    raise Untrusted(
        f"{signers.path} does not allow the key of this signature, {fingerprint}, to sign for '{NAMESPACE}' now"
        f"{why}: if you trust its owner, add a line such as `me@example.org ssh-ed25519 AAAA…`."
    )


def _fingerprint(data: bytes, folder: Path) -> str:
    """Check the signature in the folder; return the fingerprint of its key, such as ``SHA256:…``."""
    done = _run("check-novalidate", "-n", NAMESPACE, "-s", _SIGNATURE, folder=folder, data=data)
    if not _is_good(done):
        raise Untrusted(
            f"The signature is not one of this manifest for '{NAMESPACE}': ssh-keygen says '{_reason(done)}': get the "
            "archive anew from its maker."
        )
    return done.stdout.split()[-1]


def _is_good(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether ssh-keygen has said that a signature is good.

    Its exit code alone does not tell: Python returns 0 for a child whose code somebody else has taken, such as a
    program that ignores SIGCHLD.
    """
    return done.returncode == 0 and done.stdout.startswith(f'Good "{NAMESPACE}" signature ')


def read_signers(allowed_signers: Path) -> Signers:
    """Return the signers of a file, read once, since it may be a pipe, or change while ssh-keygen runs.

    Raises:
        InvalidValue: the file cannot be read.
    """
    try:
        with allowed_signers.open("rb") as file:
            data = file.read(_MAX_SIGNERS_BYTES + 1)
    except OSError as error:
        raise InvalidValue(f"Cannot read the allowed signers {allowed_signers}: {error.strerror or error}.") from error
    if len(data) > _MAX_SIGNERS_BYTES:
        raise InvalidValue(f"{allowed_signers} is too large for a file of allowed signers.")
    return Signers(allowed_signers, data)


# ssh-keygen


@contextmanager
def _folder(contents: dict[str, bytes] | None = None) -> Iterator[Path]:
    """Make a private directory with these files; remove it in the end."""
    from tempfile import TemporaryDirectory

    with refusal("write temporary files"), TemporaryDirectory(prefix="jcache-") as name:
        for file, data in (contents or {}).items():
            Path(name, file).write_bytes(data)
        yield Path(name)


def _run(operation: str, *words: str, folder: Path, data: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run ssh-keygen without a terminal, so that it cannot ask for anything; ``data`` is its standard input."""
    environment = {name: value for name, value in os.environ.items() if name not in _PROMPT_VARIABLES}
    with _refusals(_CHECK_LIMIT_S):
        done = subprocess.run(
            ["ssh-keygen", "-Y", operation, *words],
            input=data,
            capture_output=True,
            cwd=folder,
            env=environment | {"LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"},
            timeout=_CHECK_LIMIT_S,
            start_new_session=True,
            check=False,
        )
    out, said = os.fsdecode(done.stdout), os.fsdecode(done.stderr)
    if done.returncode != 0 and _TOO_OLD.search(said):
        raise JcacheError(f"The ssh-keygen here is too old to sign archives or to check signatures: {_INSTALL}.")
    return subprocess.CompletedProcess(done.args, done.returncode, out, said)


def _signs(command: list[str], folder: Path, terminal: int) -> bool:
    """Run ssh-keygen, which may ask on the terminal and speak on stderr; return whether it succeeds."""
    environment = os.environ | {"LC_ALL": "C"}
    with (
        _refusals(_SIGN_LIMIT_S),
        subprocess.Popen(command, cwd=folder, env=environment, stdin=terminal, stdout=subprocess.DEVNULL) as child,
    ):
        try:
            return child.wait(_SIGN_LIMIT_S) == 0
        except BaseException:
            child.terminate()  # not kill: ssh-keygen turns the terminal's echo on again, which is waited for
            child.wait()
            raise


@contextmanager
def _refusals(limit_s: float) -> Iterator[None]:
    """Raise one sentence if ssh-keygen cannot be started or takes too long."""
    try:
        yield
    except OSError as error:
        raise JcacheError(
            f"Archives are signed and signatures checked by ssh-keygen, which cannot be started here: {_INSTALL}."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise JcacheError(f"ssh-keygen has not ended within {limit_s} seconds: try it again.") from error


@contextmanager
def _terminal() -> Iterator[int]:
    """Open the terminal on which ssh-keygen may ask; /dev/null if there is none."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        terminal = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield terminal
    finally:
        os.close(terminal)


def _can_ask() -> bool:
    """Return whether there is a terminal, or a program that asks in its place (see SSH_ASKPASS in ssh(1))."""
    with _terminal() as terminal:
        return os.isatty(terminal) or (
            "SSH_ASKPASS" in os.environ and any(os.environ.get(name) for name in _PROMPT_VARIABLES)
        )


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line that ssh-keygen printed, without the frame around its warnings."""
    lines = (line.strip() for line in done.stderr.splitlines() if not line.startswith("@"))
    return shown(next(filter(None, lines), "nothing").rstrip("."))
