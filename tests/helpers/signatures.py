"""Keys and signatures as OpenSSH makes them."""

import os
import subprocess
from pathlib import Path

import pytest


def ssh_keygen(*words: str | Path, data: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = ["ssh-keygen", *map(str, words)]
    return subprocess.run(command, input=data, capture_output=True, check=False, env=os.environ | environment)


def _has_openssh() -> bool:
    """Return whether there is an ssh-keygen that signs and finds principals: it complains of missing arguments."""
    try:
        return b"Too few arguments for find-principals" in ssh_keygen("-Y", "find-principals").stderr
    except OSError:
        return False


needs_openssh = pytest.mark.skipif(not _has_openssh(), reason="needs OpenSSH 8.2 or later")


def new_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    done = ssh_keygen("-q", "-t", kind, "-N", passphrase, "-C", "me@here", "-f", path)
    assert done.returncode == 0, done.stderr
    return path


def public(key: Path) -> str:
    """The line of a key's public half."""
    return Path(f"{key}.pub").read_text().strip()


def allowed(path: Path, *lines: str) -> Path:
    """A file of allowed signers in a directory."""
    file = path / "allowed"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def signature_by(
    key: Path, folder: Path, data: bytes, *, namespace: str = "jcache-archive", options: str = ""
) -> bytes:
    """The signature that ssh-keygen makes when it is called by hand."""
    file = folder / "data"
    file.write_bytes(data)
    done = ssh_keygen("-Y", "sign", "-q", "-f", key, "-n", namespace, *options.split(), file)
    assert done.returncode == 0, done.stderr
    signature = (folder / "data.sig").read_bytes()
    (folder / "data.sig").unlink()
    return signature
