"""Record what the keys of this process are made of, with the recorder of `jcache run`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from jcache.layout import Root
from jcache.patching import AttributePatch, Patch
from jcache.runs.recorder.key_hooks import REPLACEMENTS, hide_from_tracebacks
from jcache.runs.recorder.key_recorder import MAX_MODULES_BYTES, KeyRecorder
from jcache.store.run_records import MODULES, secret_of


class KeyMonitor:
    """Sends lines about the keys that this process computes, from its construction until `stop`. JAX is imported.

    Args:
        root: the root whose secret the digests of variables have.
        mode: what is recorded, `KEYS` or `MODULES`.
        write_line: receives each line.
    """

    def __init__(self, root: Root, mode: str, write_line: Callable[[dict[str, Any]], object]) -> None:
        self._modules: dict[str, bytes] = {}
        self._kept_bytes = 0
        self._undo = ExitStack()
        for module_name, replacements in REPLACEMENTS.items():
            module = sys.modules[module_name]
            for name, replace in replacements.items():
                patch = (Patch if callable(getattr(module, name)) else AttributePatch)(module, name, replace)
                self._undo.callback(patch.undo)
        hide_from_tracebacks()
        recorder = KeyRecorder(write_line, self._keep if mode == MODULES else None, lambda: secret_of(root))
        self._undo.callback(recorder.stop)
        recorder.start()

    def take_modules(self) -> Mapping[str, bytes]:
        """Return the missed modules since the last call, by their hashes."""
        taken, self._modules = self._modules, {}
        return taken

    def stop(self) -> None:
        """Record no more keys, and put JAX's functions back."""
        self._undo.close()

    def _keep(self, name: str, data: bytes) -> None:
        if self._kept_bytes + len(data) <= MAX_MODULES_BYTES:
            self._kept_bytes += len(data)
            self._modules[name] = data
