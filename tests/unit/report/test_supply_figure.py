"""Supply against demand as a figure: lines, the band of what is not sure, one run of each treatment."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank.analysis.scaling import SERIES_COLUMNS
from towtank.report.figures.supply import supply
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


def drawn(plain, rows):
    return supply(replace(plain, scaling=pd.DataFrame(rows, columns=list(SERIES_COLUMNS))), Names(plain))


def run(treatment, name, metrics=("supply", "demand", "demand_low", "demand_high")):
    return [(treatment, name, t_s, metric, float(2 + t_s / 10)) for metric in metrics for t_s in (0.0, 10.0)]


def test_first_runs_are_drawn_with_their_band(plain):
    one, two = (t.treatment_id for t in plain.treatments[:2])
    figure = drawn(plain, [*run(one, "r1"), *run(one, "r2"), *run(two, "r3", ("supply",))])
    lines = figure.datasets["supply"]
    assert len(lines) == 4  # two lines of two instants, of one run
    assert {row["metric"] for row in lines} == {"supply", "demand"}
    assert [row["demand_high"] for row in figure.datasets["demand_bounds"]] == [2, 3]


def test_without_a_demand_there_is_no_such_figure(plain):
    assert drawn(plain, run(plain.treatments[0].treatment_id, "r1", ("supply",))) is None
    assert drawn(plain, []) is None


def test_both_lines_are_drawn_over_the_measured_window_alone(plain):
    """Pods were counted from 2 s before the load to 9 s; supply that was known last holds to the end, at 10 s."""
    one = plain.treatments[0].treatment_id
    supplied = [(one, "r1", t_s, "supply", value) for t_s, value in ((-2.0, 3.0), (4.0, 5.0), (9.0, 5.0))]
    figure = drawn(plain, [*supplied, *run(one, "r1", ("demand", "demand_low", "demand_high"))])
    lines = pd.DataFrame(figure.datasets["supply"])
    shown = lines[lines.metric == "supply"][["t_s", "value"]].to_numpy().tolist()
    assert shown == [[0.0, 3.0], [4.0, 5.0], [9.0, 5.0], [10.0, 5.0]]
    assert (lines.t_s.min(), lines.t_s.max()) == (0.0, 10.0)


def test_there_is_no_half_of_an_instance_on_its_axis(plain):
    one = plain.treatments[0].treatment_id
    spec = json.dumps(drawn(plain, run(one, "r1")).spec())
    assert '"format": "d"' in spec
    assert '"values": [0, 1, 2, 3]' in spec
