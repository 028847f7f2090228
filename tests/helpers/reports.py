"""Reports of runs, from the logs of their processes."""

from pathlib import Path
from typing import Any

from jcache.runs.log import read_all
from jcache.runs.report import RunReport, report_of


def collect(log_dir: Path, **arguments: Any) -> RunReport:
    """Return the report of a run from the logs of its processes; the arguments are those of `report_of`."""
    return report_of(read_all(log_dir), **arguments)
