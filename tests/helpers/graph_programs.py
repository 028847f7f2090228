"""Caches of graphs in this process, and programs that build graphs in processes of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jcache.layout import ENTRY_SUFFIX, Kind, Root
from tests.helpers.jax_programs import environment

MODEL = '''
import os, sys, time

def rate(n):
    return 2 * n

def grow(n, theta=1.0, log=None):
    """Builds a list, slowly; `__cache_key__` keeps the log out of the key."""
    if log is not None:
        log.write()
    return [rate(i) * theta for i in range(n)]

class Log:
    """Writes down who builds, which takes so long, or until a file is there; no part of the key."""
    def __init__(self, path, seconds=0.0, until=None):
        self.path, self.seconds, self.until = path, seconds, until
    def __cache_key__(self):
        return ""
    def write(self):
        with open(self.path, "a") as file:
            file.write(os.readlink('/proc/self') + "\\n")
        time.sleep(self.seconds)
        while self.until and not os.path.exists(self.until):
            time.sleep(0.01)
'''


def write_model(directory: Path, text: str = MODEL, name: str = "model") -> Path:
    """Writes a user's module, and gives the directory that it is in."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.py").write_text(text)
    return directory


def program(code: str, *arguments: object, at: Path, **env: object) -> "subprocess.Popen[str]":
    """Starts a program that can import the modules of a directory."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    more = {"PYTHONPATH": at} | env
    return subprocess.Popen(command, env=environment(more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(child: "subprocess.Popen[str]") -> Any:
    """Return the JSON in the last line of a program, which must end with success."""
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def run(code: str, *arguments: object, at: Path, **env: object) -> Any:
    """Runs a program to its end."""
    return said(program(code, *arguments, at=at, **env))


def graphs_of(root: Root) -> list[str]:
    """The keys of the graphs of a root."""
    directory = root.directory(Kind.GRAPHS)
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    return [name.removesuffix(ENTRY_SUFFIX) for name in names if name.endswith(ENTRY_SUFFIX)]


def graph_file(root: Root, key: str | None = None) -> Path:
    """The file of a graph, or of the only one."""
    (only,) = [key] if key else graphs_of(root)
    return root.directory(Kind.GRAPHS) / (only + ENTRY_SUFFIX)


@contextmanager
def forked() -> Iterator[bool]:
    """Run the block in the parent and in a forked child, which ends with it; yield True in the child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            yield True
            code = 0
        finally:
            os._exit(code)
    try:
        yield False
    finally:
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, signal.strsignal(-status)
