"""The parts of a fingerprint: labels, digests, words, and how each was reached."""

from pathlib import Path

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import imported


def test_jaxs_options_are_parts_of_a_graphs_key_where_a_library_runs(tmp_path: Path) -> None:
    """They are no parts of the key of what uses none, nor of a trace's, which has them by itself."""
    sources = {"model.py": "import numpy as np\ndef build(): return np.ones(3)\ndef plain(): return 1"}
    with imported(tmp_path, sources) as model:
        parts = fingerprint(model.build).parts, fingerprint(model.plain).parts
        trace = fingerprint(model.build, for_trace=True).parts
    assert "environment jax_enable_x64" in parts[0]
    assert not any(label.startswith("environment") for label in (*parts[1], *trace))
