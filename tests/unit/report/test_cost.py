"""The table of costs: the cheapest is marked, parity is a total and what is more, and nothing is made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
from altair import load_schema
from jsonschema import Draft7Validator

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.break_even import CURVE_COLUMNS, BreakEven
from towtank.analysis.cost_findings import cost_findings
from towtank.analysis.cost_items import cost_items
from towtank.analysis.model import Estimate, Quantity
from towtank.analysis.run_cost import RunCost
from towtank.cost.break_even import Always, Crossing, Measured, a_day, crossings, pay_per_use, staircase
from towtank.cost.money import DAY_S
from towtank.cost.price_list import FreePerMonth
from towtank.cost.rules import Item
from towtank.cost.spec import CostSpec
from towtank.report.figures import svg
from towtank.report.naming import Names
from towtank.report.tables import cost_items as cost_items_table
from towtank.report.tables.cost import break_even, costs
from towtank.report.values import NOTHING


def treatment(name, cost, per_1000, *, above=False, reason=""):
    def one(variable, mean):
        low, high = (None, None) if mean is None else (mean * 0.9, mean * 1.1)
        return Estimate(variable, mean, low, high, 5, 0.95, "t", reason=reason, above=above)

    estimates = {
        "cost": one("cost", cost),
        "cost_drive": one("cost_drive", cost),
        "cost_per_1000": one("cost_per_1000", per_1000),
    }
    return SimpleNamespace(treatment_id=name, label=name, levels={"deployment": name}, estimates=estimates)


def table(*treatments, **meta):
    analysis = SimpleNamespace(
        treatments=treatments, own={}, meta={"currency": "EUR", "per_1000": "successes", **meta}
    )
    found = costs(analysis, Names(analysis))
    return found and {row[0].text: row for row in found.rows}


def test_the_cheapest_is_marked_and_the_others_have_a_parity():
    # 36 for 300,000 requests is 0.12 per 1,000; at 0.10 they would be 360,000
    rows = table(treatment("gke", 36.0, 0.12), treatment("run", 20.0, 0.10))
    assert rows["run"][3].text == "0.1 ✓ cheapest"
    assert [cell.text for cell in rows["gke"][4:]] == ["360\u202f000", "+60\u202f000"]
    assert rows["run"][4].note == "the cheapest itself"


def test_what_is_paid_by_use_has_no_parity():
    rows = table(treatment("gke", 36.0, 0.10), treatment("run", 20.0, 0.12), by_use=["run"])
    assert rows["run"][4].note == "paid by use: more requests cost more"


def test_what_is_not_known_is_not_the_cheapest():
    rows = table(
        treatment("gke", 36.0, 0.12), treatment("run", None, None, reason="run has no price"),
        treatment("late", 1.0, 0.01, above=True),
    )  # fmt: skip
    assert not any("cheapest" in row[3].text for row in rows.values())
    assert (rows["run"][1].text, rows["run"][1].note) == ("–", "run has no price")
    assert rows["late"][1].text == "> 1"


def test_what_is_known_by_a_bound_only_may_be_the_cheapest():
    known = treatment("gke", 36.0, 0.12), treatment("run", 20.0, 0.10)
    open_ = table(*known, treatment("late", 9.0, 0.09, above=True))
    assert not any("cheapest" in row[3].text for row in open_.values())
    assert open_["gke"][4].note == "it is not known which one is the cheapest"
    assert open_["late"][4].note == "its cost is not known, or in part only"
    settled = table(*known, treatment("late", 11.0, 0.11, above=True))
    assert "cheapest" in settled["run"][3].text


def test_a_cheapest_that_costs_nothing_has_no_parity():
    rows = table(treatment("gke", 36.0, 0.12), treatment("gift", 0.0, 0.0))
    assert rows["gke"][4].note == "the cheapest costs nothing"


def test_without_prices_there_is_no_table():
    assert table(treatment("gke", 36.0, 0.12), currency=None) is None


def run(run_id, quantity):
    return SimpleNamespace(run_id=run_id, values={"cost": quantity})


def test_what_cannot_be_said_is_a_finding_with_its_runs():
    cost = CostSpec(currency="EUR", deployments={})
    runs = {
        "a": [
            run("a1", Quantity(None, reason="a has no price")),
            run("a2", Quantity(None, reason="a has no price")),
        ],
        "b": [run("b1", Quantity(2.0, above=True, reason="nodes were not seen back"))],
        "c": [run("c1", Quantity(2.0, reason="requests × time"))],
        "d": [run("d1", Quantity(2.0))],
    }
    found = list(cost_findings(cost, runs))
    assert [(f.name, f.severity, f.runs) for f in found] == [
        ("cost_unknown", "warning", ("a1", "a2")), ("cost_at_least", "warning", ("b1",)),
        ("cost_approximated", "info", ("c1",)),
    ]  # fmt: skip
    assert list(cost_findings(None, runs)) == []


def test_crossings_are_rows_and_words():
    sure, unsure = (2.2e6, 2e6, 2.5e6), (1e8, None, None)
    crossings = tuple(
        Crossing(below, above, *(at and at / DAY_S for at in ats))
        for below, above, ats in (("run", "gke", sure), ("gke", "run", unsure))
    )
    found = break_even(SimpleNamespace(break_even=BreakEven(crossings, 4, {"own": "no `carries`"})))
    assert [cell.text for cell in found.rows[0]] == ["run", "gke", "2.2 M"]
    assert (found.rows[0][2].detail, found.rows[0][2].note) == ("2 M – 2.5 M", "")
    assert found.rows[1][2].note == "at an end of what was measured there is no crossing"
    assert found.remark.startswith(
        "run is cheaper than gke below 2.2 M requests a day (2 M to 2.5 M). gke is cheaper"
    )
    assert "4 more crossings are not listed." in found.remark
    assert "No line of own: no `carries`." in found.remark


def test_a_pair_without_a_crossing_has_a_row_and_words():
    level = BreakEven(always=(Always("run", "gke", "always", 1 / DAY_S, 1e9 / DAY_S, is_sure=True),))
    found = break_even(SimpleNamespace(break_even=level))
    (row,) = found.rows
    assert [cell.text for cell in row] == ["run", "gke", NOTHING]
    assert row[2].note == "run is cheaper than gke at every load from 1 to 1 G requests a day"
    assert found.remark.startswith(row[2].note)


def test_without_a_pair_there_is_no_table():
    assert break_even(SimpleNamespace(break_even=None)) is None
    assert break_even(SimpleNamespace(break_even=BreakEven())) is None


def runs_of(*bills):
    return [RunCost({}, tuple(Item(*item) for item in bill)) for bill in bills]


def test_items_are_listed_with_their_share_the_dearest_first():
    fee = ("fee", 1800.0, 0.001, "s")
    gke = runs_of(
        [("nodes", 3600.0, 0.001, "node-s"), fee, ("logs", 0.0, 0.0, "bytes")],
        [("nodes", 7200.0, 0.001, "node-s"), fee],
    )
    run = runs_of([("requests", 500_000.0, 4e-7, "requests")])
    items = cost_items({"gke": gke, "run": run, "none": []}, confidence=0.95)
    analysis = SimpleNamespace(
        treatments=[treatment("gke", 1, 1), treatment("run", 1, 1)], own={}, meta={"currency": "EUR"},
        cost_items=items,
    )  # fmt: skip
    rows = [[cell.text for cell in row] for row in cost_items_table(analysis, Names(analysis)).rows]
    assert rows == [
        ["gke", "nodes", "1.5 node-h", "3.6 / node-h", "5.4", "75 %"],
        ["gke", "fee", "0.5 h", "3.6 / h", "1.8", "25 %"],
        ["run", "requests", "500\u202f000 requests", "0.4 / million", "0.2", "100 %"],
    ]
    assert cost_items_table(SimpleNamespace(cost_items=()), None) is None


def test_an_item_that_is_known_by_a_bound_reads_so():
    (seen,) = runs_of([("nodes", 3600.0, 0.001, "node-s"), ("fee", 1800.0, 0.001, "s")])
    items = cost_items({"gke": [replace(seen, values={"cost": Quantity(5.4, above=True)})]}, confidence=0.95)
    analysis = SimpleNamespace(
        treatments=[treatment("gke", 1, 1)], own={}, meta={"currency": "EUR"}, cost_items=items
    )
    nodes, fee = cost_items_table(analysis, Names(analysis)).rows
    assert [cell.text for cell in nodes[2:]] == ["> 1 node-h", "3.6 / node-h", "> 3.6", "–"]
    assert [cell.text for cell in fee[2:]] == ["0.5 h", "3.6 / h", "1.8", "–"]
    assert fee[5].note == "the cost is known by a bound only"


def priced(analysis):
    """The sample, priced: pay-per-use in one deployment, a staircase in another."""
    one, two = (t for t in analysis.treatments[:2])
    lines = [
        pay_per_use(
            one.label, vcpu_price=1e-5, gib_price=0.0, request_price=0.0, vcpu=1, gib=0,
            billed_s=Measured(0.1, 0.09, 0.12), free=FreePerMonth(requests=0, vcpu_seconds=1e5),
        ),
        staircase(
            two.label, node_per_s=2e-5, fee_per_s=0.0, capacity=Measured(50.0, 50.0, 60.0), least_nodes=1,
            most_per_s=1e4,
        ),
    ]  # fmt: skip
    found = crossings(*lines, least_per_s=1e-3, most_per_s=1e4)
    loads = [0.001 * 1.2**i for i in range(70)]
    rows = [
        (treatment.treatment_id, load, line.cost(load), line.low(load), line.high(load))
        for treatment, line in zip((one, two), lines, strict=True)
        for load in loads
    ]
    curves = pd.DataFrame(rows, columns=list(CURVE_COLUMNS))
    level = BreakEven(tuple(found), curves=curves, measured={one.treatment_id: 20.0})
    return replace(analysis, break_even=level, meta={**analysis.meta, "currency": "EUR"})


def test_the_figure_has_lines_bands_and_crossings_and_fits_the_published_schema():
    analysis = priced(sample_analysis())
    (figure,) = (f for f in report.build(analysis).figures if f.id == "break-even-figure")
    schema = Draft7Validator(load_schema())
    for narrow in (False, True):
        found = next(schema.iter_errors(figure.spec(narrow=narrow)), None)
        assert found is None, found and found.message
    rows = figure.datasets["costs"]
    assert all(0 < row["low"] <= row["cost"] <= row["high"] for row in rows), "what is free lies on the edge"
    assert min(row["cost"] for row in rows) == rows[0]["cost"]
    crossing = figure.datasets["crossings"][0]
    assert crossing["low"] <= crossing["day"] <= crossing["high"]
    assert crossing["load"] == a_day(analysis.break_even.crossings[0].per_s)
    assert figure.datasets["driven"][0]["day"] == 20 * DAY_S
    assert crossing["load"] in svg(figure)
    assert "is cheaper than" in figure.alt


def test_without_prices_there_is_no_figure():
    assert "break-even-figure" not in {f.id for f in report.build(sample_analysis()).figures}
