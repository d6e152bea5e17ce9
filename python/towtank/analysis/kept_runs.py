"""Where the analysis of a result folder keeps what it derived of single runs, and what code it is good for."""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

import towtank
from towtank.store import Results
from towtank.store.derived import DerivedRuns

_PARTS = ("", "analysis", "autoscaling/hpa", "autoscaling/kpa", "cost", "design", "store")
"""Packages that what is derived of a run depends on."""
_LIBRARIES = ("numpy", "pandas", "scipy", "pyarrow", "duckdb")
"""Distributions of others that it depends on: what one of them mends, or breaks, is in the numbers."""


def kept_runs(results: Results) -> DerivedRuns:
    """Return what is kept of the runs of a result folder, for `analyse`."""
    return DerivedRuns(results.layout.derived, made_by=_code())


@functools.cache
def _code() -> str:
    """Digest of the code that derives runs: its files, so that nobody has to remember to count a version up."""
    root = Path(towtank.__file__).parent
    versions = [towtank.__version__, *(f"{name} {metadata.version(name)}" for name in _LIBRARIES)]
    sha = hashlib.sha256("\n".join(versions).encode())
    for part in _PARTS:
        for path in sorted((root / part).glob("*.py")):
            sha.update(path.name.encode())
            sha.update(path.read_bytes())
    return sha.hexdigest()
