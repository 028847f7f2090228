"""Totals of recorded runs in Prometheus' text format."""

import re
from pathlib import Path

from tests.helpers.command_line import Jcache

SAMPLE = re.compile(r"(jcache_[a-z_]+) (-?[0-9.e+-]+)")


def test_every_metric_has_help_and_a_type_and_is_in_the_json(jcache: Jcache, recorded: Path) -> None:
    """Each sample follows the two lines about it, no name is there twice, and the values are those of `--json`."""
    lines = jcache("stats", "--prometheus", "--root", recorded).out.splitlines()
    assert len(lines) % 3 == 0
    found = {}
    for about, kind, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        matched = SAMPLE.fullmatch(sample)
        assert matched is not None, sample
        name, value = matched.groups()
        assert about.startswith(f"# HELP {name} ") and about.endswith(".")
        assert kind == f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        assert name not in found
        found[name] = float(value)
    totals = jcache("stats", "--json", "--root", recorded).json["totals"]
    assert (found["jcache_runs_total"], found["jcache_hits_total"]) == (totals["runs"], totals["hits"]) == (7, 21)
    assert found["jcache_traces_hits_total"] == totals["traces"]["hits"]
    assert found["jcache_time_saved_seconds"] == totals["total_saved_seconds"] == 42.0
