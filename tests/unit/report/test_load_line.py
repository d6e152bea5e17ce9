"""The load line as a figure, and the tables of what bends and scales."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from support.capacities import capacity
from support.sample_analysis import sample_analysis
from towtank.analysis.load_curves import COLUMNS, LoadCurve, Scales
from towtank.analysis.load_levels import LoadFamily
from towtank.analysis.scalability import fit_scalability
from towtank.analysis.turning_point import TurningPoint
from towtank.report import tables
from towtank.report.figures.load_line import load_line
from towtank.report.naming import Names

FAMILY = LoadFamily(
    "gke <b>", "gke", "open", {"a": 10.0, "b": 20.0, "c": 40.0}, pauses=False, slo={"p95": 0.3}
)


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


@pytest.fixture(scope="module")
def loaded(plain):
    rows = [("gke <b>", "a", f"r{n}", load, "p95", p95, p95 >= 2, p95 <= 0.3)
            for n, (load, p95) in enumerate([(10.0, 0.1), (10.0, 0.2), (20.0, 0.25), (40.0, 2.0)])]  # fmt: skip
    rows += [("gke <b>", "a", "r0", load, "throughput", load, False, None) for load in (10.0, 20.0, 40.0)]
    points = type(plain.load_points)(rows, columns=list(COLUMNS))
    return replace(plain, load_families=(FAMILY,), load_points=points)


def test_every_run_is_drawn_with_the_objective_and_the_median(loaded):
    figure = load_line(loaded, Names(loaded))
    points = [one for one in figure.datasets["load_points"] if one["variable"] == "p95"]
    assert [one["kept"] for one in points] == [*["objective kept"] * 3, "objective missed"]
    assert points[-1]["shown"] == "> 2 s"
    medians = {
        one["load"]: one["value"] for one in figure.datasets["load_medians"] if one["variable"] == "p95"
    }
    assert medians[10] == pytest.approx(0.15)
    assert figure.datasets["load_bounds"] == [{"variable": "p95", "bound": 0.3}]
    assert figure.datasets["capacities"] == []
    assert "40 arrivals/s" in figure.alt


def test_curves_over_users_and_over_arrivals_have_their_own_units(loaded):
    closed = replace(FAMILY, label="whisk", model="closed")
    points = loaded.load_points
    both = pd.concat([points, points.assign(family="whisk")], ignore_index=True)
    figure = load_line(replace(loaded, load_families=(FAMILY, closed), load_points=both), Names(loaded))
    assert "at 40 arrivals/s; whisk" in figure.alt
    assert "at 40 users." in figure.alt
    assert "arrivals/s or users" in json.dumps(figure.wide)


def test_a_search_is_shaded_between_what_held_and_what_failed(loaded):
    known = capacity(label="gke <b>", holds=20.0, fails=25.0, highest=100.0, runs=9)
    searched = replace(loaded, capacities=(known,))
    figure = load_line(searched, Names(loaded))
    ((shade),) = figure.datasets["capacities"]
    assert (shade["holds"], shade["fails"]) == (20, 25)
    assert "A shade reaches" in figure.caption


def test_without_several_loads_there_is_nothing(plain):
    assert load_line(plain, Names(plain)) is None
    assert tables.turning_points(plain, Names(plain)) is None
    assert tables.scaling_laws(plain) is None


def test_a_place_stands_with_its_interval_and_its_slopes(plain):
    turning = TurningPoint(60.0, 55.0, 64.0, 0.001, 0.08, 0.001)
    found = replace(plain, load_curves=(LoadCurve(FAMILY, "p95", turning, 2),))
    (row,) = tables.turning_points(found, Names(plain)).rows
    assert (row[2].text, row[2].detail) == ("60 arrivals/s", "55 to 64")
    assert "2 runs whose value lies among failures" in row[2].note
    assert row[3].text == "+0.1 % → +8.3 %"


def test_no_place_has_its_reason(plain):
    found = replace(plain, load_curves=(LoadCurve(FAMILY, "p95", TurningPoint(None, reason="too few"), 0),))
    (row,) = tables.turning_points(found, Names(plain)).rows
    assert row[2].note == "too few"


def test_a_law_stands_with_its_cautions_and_no_law_with_its_reason(plain):
    users = [1, 2, 4, 8, 16, 32]
    fitted = fit_scalability(users, [10 * n / (1 + 0.05 * (n - 1)) for n in users])
    found = replace(
        plain,
        scaling_laws=(
            Scales("gke", "throughput", "users", fitted, cautions=fitted.cautions),
            Scales("whisk", "throughput", "users", None, "too few"),
        ),
    )
    with_law, without = tables.scaling_laws(found).rows
    assert with_law[3].text == "0.05"
    assert "no crosstalk was shown" in with_law[0].note
    assert "no peak either" in with_law[5].note
    assert without[2].note == "too few"
