"""What a report says of capacities: bounds, reasons, what contradicts them, and factors."""

from dataclasses import replace

import pytest

from support import capacities
from support.sample_analysis import sample_analysis
from towtank.analysis.capacity import searched_in
from towtank.design.capacity_file import CapacityFile
from towtank.errors import ResultsError
from towtank.report import tables


def capacity(label, holds, fails, **changes):
    known = {
        "treatment": label, "label": label, "deployment": label, "model": "closed", "holds": holds, "fails": fails,
        "why": {"p95": 5}, "lowest": 10.0, "runs": 23,
    }  # fmt: skip
    return capacities.capacity(**{**known, **changes})


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


def test_bounds_reason_and_factor(plain):
    found = (capacity("GKE-50", 410.0, 430.0), capacity("Whisk <b>", 205.0, 215.0, against=((300.0, 1, 2),)))
    table = tables.capacities(replace(plain, capacities=found))
    first, second = ([cell.text for cell in row] for row in table.rows)
    assert first == [
        "GKE-50", "410 users", "430 users", "p95 in 5 of 5", "a load holds, one above it fails", "23",
    ]  # fmt: skip
    assert second[1:3] == ["205 users", "215 users"]
    assert "not monotone" in table.rows[1][0].note
    assert "carries 0.5 times what GKE-50 carries" in table.remark


def test_what_was_not_found_has_its_reason(plain):
    found = (capacity("GKE-50", 410.0, None, end="generator", why={}),)
    (row,) = tables.capacities(replace(plain, capacities=found)).rows
    assert row[2].note == "no load was refuted"
    assert row[4].text == "the generator ends first"


def test_other_experiments_have_no_such_table(plain, tmp_path):
    assert tables.capacities(plain) is None
    assert searched_in(tmp_path) == ()


def test_results_of_a_search_have_their_capacities(tmp_path):
    file = CapacityFile(experiment="x", digest="d", capacities=(capacity("GKE-50", 410.0, 430.0),))
    (tmp_path / "capacity.json").write_text(file.to_json())
    assert searched_in(tmp_path) == file.capacities
    (tmp_path / "capacity.json").write_text("{")
    with pytest.raises(ResultsError, match="cannot be read"):
        searched_in(tmp_path)
