"""Phases of requests: warm answers of the measured window only, pooled over runs, exact to the microsecond."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from towtank.analysis import request_phases
from towtank.analysis.distribution import Distribution, Pool
from towtank.store.schemas import REQUESTS


class Folder:
    """As much of a run folder as is read."""

    def __init__(self, *rows):
        self.rows = rows

    def requests(self):
        return ds.dataset(pa.Table.from_pylist(list(self.rows), schema=REQUESTS))


def row(ttfb_us, *, outcome="answered", dns_us=None, **more):
    return {"ttfb_us": ttfb_us, "dns_us": dns_us, "outcome": outcome, "warmup": False, **more}


def test_only_warm_answers_of_the_window_count():
    found = request_phases.of_run(
        Folder(
            row(10), row(30), row(30, cold=False), row(999, cold=True), row(998, warmup=True),
            row(997, outcome="check:status"), row(None, outcome="timeout:first_byte"),
        ),
        ("ttfb", "dns"),
    )  # fmt: skip
    assert found["ttfb"].values.tolist() == [10, 30]
    assert found["ttfb"].counts.tolist() == [1, 2]
    assert found["dns"].n == 0, "no name was resolved: there is nothing to show, not a time of 0"


def test_a_phase_that_did_not_happen_is_no_time():
    found = request_phases.of_run(Folder(row(10, dns_us=5), row(11), row(12, dns_us=0)), ("dns",))
    assert found["dns"].values.tolist() == [0, 5]


def test_nothing_is_read_where_nothing_is_asked_for():
    assert request_phases.of_run(None, ()) == {}


def pools(**times):
    found = {}
    for treatment, values in times.items():
        found[treatment, "ttfb"] = Pool()
        found[treatment, "ttfb"].add(Distribution.of(values))
    return found


def test_spreads_are_those_of_all_requests_in_the_order_asked_for():
    values = [1_000, 2_000, 4_000, 9_000]
    table = request_phases.spreads(pools(b=[7_000], a=values), ["a", "none", "b"])
    assert table["treatment_id"].tolist() == ["a", "b"]
    first = table.iloc[0]
    assert first["n"] == 4
    numbers = first[["min_s", "p25_s", "median_s", "p75_s", "max_s"]].astype(float).to_numpy()
    assert numbers == pytest.approx(np.percentile(values, [0, 25, 50, 75, 100]) / 1e6)
    assert first["std_s"] == pytest.approx(np.std(values, ddof=1) / 1e6)
    assert np.isnan(table.iloc[1]["std_s"])


def test_curves_reach_all_of_what_was_answered():
    table = request_phases.curves(pools(a=[1_000, 3_000]), ["a"])
    assert table[["latency_s", "share"]].to_numpy().tolist() == [[0.001, 0.5], [0.003, 1.0]]
    assert request_phases.curves({}, ["a"]).empty
    assert request_phases.spreads({}, ["a"]).empty
