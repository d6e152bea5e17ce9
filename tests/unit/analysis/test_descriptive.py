"""Quartiles and moments over runs, against numpy; lost and censored runs are said."""

from __future__ import annotations

import numpy as np
import pytest

from towtank.analysis.descriptive import spread
from towtank.analysis.model import Quantity


def test_it_is_numpys_default_quantile():
    values = [3.0, 1.0, 7.0, 2.0, 9.0, 4.0, 8.0]
    found = spread("one", "p95", [Quantity(v) for v in values], blocks=7)
    for key, share in {"min": 0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1}.items():
        assert found.cells[key].value == pytest.approx(np.quantile(values, share))
    assert found.cells["std"].value == pytest.approx(np.std(values, ddof=1))
    assert found.lost == 0


def test_lost_runs_are_counted_of_the_blocks_begun():
    found = spread("one", "p95", [Quantity(1.0), Quantity(None, reason="gone"), Quantity(3.0)], blocks=5)
    assert (found.lost, found.planned) == (3, 5)
    assert found.cells["median"].value == 2.0
    nothing = spread("one", "p95", [], blocks=5)
    assert nothing.lost == 5
    assert nothing.cells["min"].value is None
    assert nothing.cells["min"].reason == "no valid run"


def test_quartiles_among_failures_lie_above():
    found = spread(
        "one", "p95", [Quantity(1.0), Quantity(2.0), Quantity(3.0), Quantity(5.0, above=True)], blocks=4
    )
    assert found.cells["q25"] == Quantity(1.75)
    assert found.cells["q75"].above
    assert found.cells["max"].above
    assert found.cells["std"].value is None
    assert "1 of 4 runs" in found.cells["std"].reason
    assert found.cells["mean"].above


def test_one_run_has_no_deviation():
    found = spread("one", "p95", [Quantity(1.0)], blocks=1)
    assert found.cells["std"].value is None
    assert found.cells["min"].value == found.cells["max"].value == 1.0
