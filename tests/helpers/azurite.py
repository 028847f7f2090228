"""Azurite, the emulator of Azure Blob Storage, where it is installed (npm)."""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.remote_servers import accepts, free_ports
from tests.helpers.waiting import until

CONTAINER: Final = "jcache"
_ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = base64.b64encode(bytes(range(64))).decode()
_VERSION: Final = "2021-08-06"


@contextmanager
def azurite(directory: Path) -> Iterator[dict[str, str]]:
    """Run Azurite with an empty container; yield the environment of its users. Skip the test where there is none."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not installed")
    (port,) = free_ports(1)
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory),
               "--skipApiVersionCheck", "--disableTelemetry"]  # fmt: skip
    server = subprocess.Popen(
        command, env={**os.environ, "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_KEY}"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    try:
        until(lambda: server.poll() is not None or accepts(port), 60)
        assert server.poll() is None
        _make_container(endpoint)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
            "AZURE_STORAGE_ENDPOINT": endpoint,
        }
    finally:
        server.kill()
        server.wait()


def _make_container(endpoint: str) -> None:
    """Create the container, which obstore cannot, by a request that is signed as Azure's "Shared Key" demands."""
    told = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
    lines = "".join(f"{name}:{value}\n" for name, value in told.items())
    text = "PUT" + "\n" * 12 + f"{lines}/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(_KEY), text.encode(), hashlib.sha256)).decode()
    headers = told | {"Authorization": f"SharedKey {_ACCOUNT}:{signature}", "Content-Length": "0", "Content-Type": ""}
    request = urllib.request.Request(f"{endpoint}/{CONTAINER}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 201
