"""Directories, links, FIFOs and sockets: what is no regular file."""

import os
import socket
from pathlib import Path

import pytest


def odd(what: str, path: Path, beyond: Path) -> Path:
    """Something at the path that is no regular file."""
    match what:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(beyond / "precious")
        case "dangling link":
            path.symlink_to(beyond / "nothing")
        case "FIFO":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                os.chdir(path.parent)  # the path of a socket may not be long
                server.bind(path.name)
    return path


ODD = pytest.mark.parametrize("what", ["directory", "link", "dangling link", "FIFO", "socket"])
