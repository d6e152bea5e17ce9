"""The table of costs: the cheapest is marked, parity is a total and what is more, and nothing is made up."""

from __future__ import annotations

from types import SimpleNamespace

from towtank.analysis.break_even import BreakEven
from towtank.analysis.cost_findings import cost_findings
from towtank.analysis.model import Estimate, Quantity
from towtank.cost.break_even import Crossing
from towtank.cost.money import DAY_S
from towtank.cost.spec import CostSpec
from towtank.report.naming import Names
from towtank.report.tables.cost import break_even, costs


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


def test_what_is_not_known_is_not_the_cheapest():
    rows = table(
        treatment("gke", 36.0, 0.12), treatment("run", None, None, reason="run has no price"),
        treatment("late", 1.0, 0.01, above=True),
    )  # fmt: skip
    assert not any("cheapest" in row[3].text for row in rows.values())
    assert (rows["run"][1].text, rows["run"][1].note) == ("–", "run has no price")
    assert rows["late"][1].text == "> 1"


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


def test_without_crossings_there_is_no_table():
    assert break_even(SimpleNamespace(break_even=None)) is None
    assert break_even(SimpleNamespace(break_even=BreakEven())) is None
