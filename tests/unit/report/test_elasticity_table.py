"""What a report says of supply against demand: numbers with their spread and bounds, or why there are none."""

from dataclasses import replace

import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank.analysis.scaling import COLUMNS, METRICS, TIMES, UNCALIBRATED
from towtank.report import tables
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


def rows(treatment, run, value, low=None, high=None, *, reason=""):
    return [(treatment, run, metric, value, low, high, reason) for metric in (*METRICS, *TIMES)]


def shown(plain, found):
    analysis = replace(plain, elasticity=pd.DataFrame(found, columns=list(COLUMNS)))
    return tables.elasticity(analysis, Names(plain))


def test_numbers_stand_with_their_spread_and_bounds(plain):
    one = plain.treatments[0].treatment_id
    table = shown(plain, [*rows(one, "r1", 0.2, 0.1, 0.3), *rows(one, "r2", 0.4, 0.3, 0.5)])
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    assert cells["Time short"].text == "30 %"
    assert cells["Time short"].detail == "20 % to 40 % [20 % to 40 %]"
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
