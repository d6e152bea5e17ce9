"""Cost from stored runs to answers: claimed, planned with, compared, exported, and said where it is not known."""

from __future__ import annotations

import json

import pytest

from support.make_results import TreatmentModel, make_results
from towtank import report, store
from towtank.analysis import analyse
from towtank.analysis.kept_runs import kept_runs
from towtank.analysis.planning import pilot_values
from towtank.analysis.session import read_session
from towtank.cost.price_list import OwnHardware, PerRequest
from towtank.cost.spec import CostSpec, PricedDeployment
from towtank.design.model import Answer
from towtank.report.interchange.files import write_k6_summaries
from towtank.store import Results

WHO = {"prices": "t", "date": "2026-01-01", "source": "p", "currency": "EUR", "log": "free", "egress": "free"}
MACHINE = OwnHardware(
    **WHO, model="own-hardware", machine=3600, lifetime="1h", electricity="free", idle_watts=9, busy_watts=9,
    overhead=1,
)  # fmt: skip
USE = PerRequest(
    **WHO, model="per-request", vcpu="0.1/s", memory="free", request="0.001/1", granularity="1ms",
    rounded="instance",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Four blocks of an own machine at 1 EUR a second, of pay-per-use, and of a deployment without a price."""
    path = make_results(
        tmp_path_factory.mktemp("paid") / "results",
        treatments={
            "machine": TreatmentModel(),
            "use": TreatmentModel(instances=2, invalid=(2,)),
            "gratis": TreatmentModel(),
        },
        blocks=4, rate_per_s=20.0, duration_s=3.0, answer=Answer(primary=("cost_per_1000",), baseline="machine"),
        slo={"p95": 1.0},
    )  # fmt: skip
    plan = Results.open(path).plan
    cost = CostSpec(
        currency="EUR",
        deployments={
            "machine": PricedDeployment(prices=MACHINE, carries="100/s"),
            "use": PricedDeployment(prices=USE, vcpu=1, memory="1GiB"),
        },
    )
    priced = plan.experiment.model_copy(update={"cost": cost})
    store.write_plan(path, plan.__class__(**{**vars(plan), "experiment": priced}))
    return path


@pytest.fixture(scope="module")
def analysis(results):
    return analyse(Results.open(results))


def values(analysis, treatment):
    return [run.values for run in analysis.runs if run.treatment_id == treatment]


def test_runs_have_their_cost_those_that_do_not_count_too(analysis):
    for of_run in values(analysis, "machine"):
        assert of_run["cost_drive"].value == pytest.approx(3.0)
        assert of_run["cost_per_1000"].value > 0
    assert len(values(analysis, "use")) == 5
    assert all(of_run["cost"].value > 0.01 for of_run in values(analysis, "use"))
    assert {of_run["cost"].value for of_run in values(analysis, "gratis")} == {None}


def test_what_is_claimed_of_cost_is_decided_where_there_is_one(analysis):
    claims = {c.treatment_id: c for c in analysis.comparisons if c.confirmatory}
    assert (claims["use"].verdict, claims["use"].variable) == ("better", "cost_per_1000")
    assert claims["gratis"].verdict == "undecided"
    found = {finding.name: finding for finding in analysis.findings}
    assert "gratis has no price" in found["cost_unknown"].message
    assert "gratis" in found["break_even_unknown"].message


def test_the_report_says_what_cannot_be_said_and_nothing_is_nan(analysis):
    model = report.build(analysis)
    tables = {table.id: table for table in model.tables}
    rows = {row[0].text: row for row in tables["cost"].rows}
    assert "cheapest" in rows["use"][3].text
    assert (rows["gratis"][1].text, "has no price" in rows["gratis"][1].note) == ("–", True)
    assert {row[0].text for row in tables["cost-items"].rows} == {"machine", "use"}
    assert "break-even-figure" in {figure.id for figure in model.figures}
    shown = json.dumps([[cell.text + cell.detail for row in t.rows for cell in row] for t in tables.values()])
    assert "nan" not in shown


def test_the_items_of_all_runs_are_the_cost(analysis):
    for treatment in ("machine", "use"):
        mine = [item for item in analysis.cost_items if item.treatment_id == treatment]
        whole = next(t for t in analysis.treatments if t.treatment_id == treatment).estimates["cost"].mean
        assert sum(item.money.mean for item in mine) == pytest.approx(whole)
        assert sum(item.share_ratio for item in mine) == pytest.approx(1.0)


def test_what_is_kept_of_runs_has_what_they_are_paid_by(results, analysis):
    for _ in range(2):
        opened = Results.open(results)
        derived = kept_runs(opened)
        again = analyse(opened, derived=derived)
        assert [run.values for run in again.runs] == [run.values for run in analysis.runs]
    assert derived.missed == []


def test_cost_is_known_wherever_runs_are_read(results, tmp_path):
    opened = Results.open(results)
    session = read_session(opened, None)
    assert len(session.values["cost_per_1000"]["use"]) == 4
    pilot = pilot_values(opened.plan, opened, ("cost_per_1000",))
    assert {q.value for q in pilot["cost_per_1000"]["use"].values()} == {
        q.value for q in session.values["cost_per_1000"]["use"].values()
    }
    assert len(write_k6_summaries(opened, tmp_path / "k6")) == 12
