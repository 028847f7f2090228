"""Distributions as installers leave them in a scratch directory of packages, made without an installer."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

BEGAN_S = 1_700_000_000  # when the first of the files was written; none of the tests looks at the clock


class As(StrEnum):
    """The way in which a distribution is installed."""

    REGULAR = "regular"
    EDITABLE = "editable"
    UNRECORDED = "without a record"


class Site:
    """A directory of packages, and beside it the projects of those that are editable.

    Args:
        base: the directory for all of it.
    """

    def __init__(self, base: Path) -> None:
        self.packages = base / "lib" / "python3" / "site-packages"
        self.packages.mkdir(parents=True)
        self._projects = base / "projects"
        self._written = 0

    def install(
        self,
        name: str,
        files: Mapping[str, str],
        how: As = As.REGULAR,
        *,
        metadata: str = "",
        entry_points: str = "",
        local: bool = True,
    ) -> Path:
        """Installs version 1.0 of a distribution, over what there is of it; returns where its files are.

        Args:
            name: of the distribution.
            files: the texts of its files by their paths.
            how: it is installed.
            metadata: more lines of its metadata.
            entry_points: the text of its file of this name.
            local: whether from a directory of this host; else as from an index.
        """
        where = self._projects / name if how is As.EDITABLE else self.packages
        info = f"{name.replace('-', '_')}-1.0.dist-info"
        about = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}"}
        if entry_points:
            about[f"{info}/entry_points.txt"] = entry_points
        if local:
            url = {"url": f"file://{self._projects / name}", "dir_info": {"editable": how is As.EDITABLE}}
            about[f"{info}/direct_url.json"] = json.dumps(url)
        installed = {**about, **files}
        if how is As.EDITABLE:
            installed = {f"_{name}.pth": f"{where}\n"} | about
            self.write(where, files)
        elif how is As.UNRECORDED:
            tops = {path.partition("/")[0] for path in files}
            installed[f"{info}/top_level.txt"] = "\n".join(sorted(tops))
        self.write(self.packages, installed)
        if how is not As.UNRECORDED:
            self.write(self.packages, {f"{info}/RECORD": "".join(map(_row, installed.items())) + f"{info}/RECORD,,\n"})
        return where

    def write(self, where: Path, files: Mapping[str, str]) -> None:
        """Writes files, a second later than those before."""
        self._written += 1
        for name, text in files.items():
            path = where / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (BEGAN_S + self._written, BEGAN_S + self._written))


def _row(file: tuple[str, str]) -> str:
    name, text = file
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text.encode())}\n"
