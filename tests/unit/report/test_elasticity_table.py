"""What a report says of supply against demand: numbers with their spread and bounds, or why there are none."""

from dataclasses import replace

import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank.analysis.scaling import COLUMNS, METRICS, SPEEDUP_COLUMNS, TIMES, UNCALIBRATED, means
from towtank.report import tables
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


def rows(treatment, run, value, low=None, high=None, *, reason=""):
    return [(treatment, run, metric, value, low, high, reason) for metric in (*METRICS, *TIMES)]


def shown(plain, found, faster=()):
    values = means(pd.DataFrame(found, columns=list(COLUMNS)), confidence=0.95)
    faster = pd.DataFrame(faster, columns=list(SPEEDUP_COLUMNS))
    analysis = replace(plain, elasticity_means=values, elastic_speedups=faster)
    return tables.elasticity(analysis, Names(plain))


def test_numbers_stand_with_their_spread_and_bounds(plain):
    one = plain.treatments[0].treatment_id
    table = shown(plain, [*rows(one, "r1", 0.2, 0.1, 0.3), *rows(one, "r2", 0.4, 0.3, 0.5)])
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    assert cells["Time short"].text == "30 %"
    assert cells["Time short"].detail == "0 % to 100 % [20 % to 40 %]"
    assert "Elastic speedup" not in cells
    assert cells["Up within"].text == "300 ms"
    assert "mean over runs" in table.remark.lower()


def test_a_run_without_a_number_is_counted(plain):
    one = plain.treatments[0].treatment_id
    table = shown(plain, [*rows(one, "r1", 0.2), *rows(one, "r2", None, reason="a gap")])
    assert table.rows[0][1].note == "1 of 2 runs; a gap"


def test_without_a_calibration_the_report_says_so(plain):
    one = plain.treatments[0].treatment_id
    table = shown(plain, rows(one, "r1", None, reason=UNCALIBRATED))
    assert "there is no calibration" in table.rows[0][1].text


def test_without_counted_pods_there_is_no_table(plain):
    assert shown(plain, []) is None


def test_speedup_stands_beside_the_treatment_and_what_has_none_says_why(plain):
    one, two, *_ = (t.treatment_id for t in plain.treatments)
    found = [*rows(one, "r1", 0.2), *rows(two, "r2", 0.1)]
    table = shown(plain, found, [(two, one, 2.0, "")])
    assert table.columns[-1].title == "Elastic speedup"
    baseline, scaled = (row[-1] for row in table.rows)
    assert (scaled.text, baseline.note) == ("2", "the baseline, or compared with none")
    assert scaled.detail.startswith("against ")
    undefined = shown(plain, found, [(two, one, None, "nothing can be divided by that")])
    assert undefined.rows[1][-1].note == "nothing can be divided by that"
