"""One synthetic result folder for reading; a copy of it for damaging."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.make_results import SPIKE, TreatmentModel, make_results

TREATMENTS = {
    "one": TreatmentModel(collapsed=(2,)),
    "two": TreatmentModel(
        median_ms=8, instances=2, errors=0.01, timeouts=0.005, not_sent=0.002, invalid=(1,), unfinished=(3,)
    ),
}


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of 2 treatments × 3 blocks: a collapsed, an invalid and a killed run among them. Read only."""
    path = tmp_path_factory.mktemp("results") / "synthetic"
    return make_results(path, treatments=TREATMENTS, blocks=3, stages=SPIKE, duration_s=4.0)


@pytest.fixture
def damaged(stored: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(stored, tmp_path / "synthetic"))
