"""Response variables that a file declares: claimed, estimated and shown like any other."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from support.make_results import TreatmentModel, make_results
from towtank import report
from towtank.analysis import analyse
from towtank.campaign.adaptive import _pilot_values
from towtank.design.model import Adaptive, Answer
from towtank.report.interchange import write_junit, write_k6_summaries
from towtank.store import Results

SLOW = "select avg((latency_us > 12000)::int) from requests where in_window"
P999 = "select quantile_cont(latency_us, 0.999) / 1e6 from requests where in_window and ok"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    answer = Answer(
        primary=("slow_ratio", "p99.9"), baseline="one",
        variables={
            "slow_ratio": {"sql": SLOW, "better": "lower"},
            "fast_per_s": {"sql": "select 1e6 / median(latency_us) from requests where ok", "better": "higher"},
            "never": {"sql": "select avg(latency_us) from requests where step = 'none'", "better": "lower"},
        },
    )  # fmt: skip
    path = make_results(
        tmp_path_factory.mktemp("own") / "results",
        treatments={"one": TreatmentModel(median_ms=10), "two": TreatmentModel(median_ms=5)},
        blocks=5, rate_per_s=20.0, duration_s=3.0, answer=answer, slo={"slow_ratio": 0.2, "fast_per_s": 150.0},
    )  # fmt: skip
    return Results.open(path)


@pytest.fixture(scope="module")
def found(results):
    return analyse(results)


def test_it_is_claimed_with_the_direction_that_was_declared(found):
    claim = next(c for c in found.comparisons if c.variable == "slow_ratio")
    assert (claim.verdict, claim.scale, claim.confirmatory) == ("better", "difference", True)
    assert claim.estimate < 0
    explored = next(c for c in found.comparisons if c.variable == "fast_per_s")
    assert explored.verdict is None
    assert 1.6 < explored.estimate < 2.4
    assert any(c.variable == "p99.9" and c.confirmatory and c.n == 5 for c in found.comparisons)


def test_what_says_nothing_says_why(found):
    estimate = found.treatments[0].estimates["never"]
    assert estimate.mean is None
    assert "null" in estimate.reason


def test_the_report_shows_it_with_its_unit_and_direction(found):
    text = report.markdown.render(report.build(found, figures=False))
    assert "| Slow |" in text.replace("Slow (a)", "Slow")
    assert "higher is better" in text
    assert "slow (" in found.headline


def test_a_bound_of_it_is_kept_or_missed_in_its_own_direction(found):
    held = found.slo.set_index(["treatment_id", "variable"])["held"]
    assert not held["one", "slow_ratio"]  # a third of its requests take longer than 12 ms
    assert held["two", "slow_ratio"]
    assert not held["one", "fast_per_s"]
    assert held["two", "fast_per_s"]
    assert found.slo_held is False
    text = report.markdown.render(report.build(found, figures=False))
    table = text.partition("Service-level objectives")[2]
    assert "≤ 20 %" in table
    assert "≥ 150 /s" in table


def test_exchange_formats_have_its_bounds(results, tmp_path):
    write_junit(results, tmp_path / "slo.xml")
    failed = ET.parse(tmp_path / "slo.xml").findall(".//testcase[failure]")
    assert len(failed) == 10  # both bounds in all five runs of one
    assert {case.get("name").split(" in ")[0] for case in failed} == {"slow ≤ 20 %", "fast per s ≥ 150 /s"}
    written = write_k6_summaries(results, tmp_path / "k6")
    summary = json.loads(written[0].path.read_text("utf-8"))["metrics"]["towtank_fast_per_s"]
    assert list(summary["thresholds"]) == ["value>=150"]


def test_two_stage_repetitions_can_be_for_it(results):
    values = _pilot_values(results, results.plan, Adaptive(at_most=20, until={"slow_ratio": 0.05}))
    assert set(values["slow_ratio", "one"]) == {1, 2, 3, 4, 5}
    assert all(q.value is not None for q in values["slow_ratio", "two"].values())
