"""From a search for capacities to the crossings of costs: what one instance carries, with its interval."""

from __future__ import annotations

import pytest

from support.prices import reserved_nodes
from towtank.analysis.break_even import break_even
from towtank.analysis.capacity import Rules, capacity_of
from towtank.analysis.load_line import LoadLine
from towtank.analysis.run_cost import RunCost
from towtank.design import load_plan
from towtank.design.capacity_file import CapacityFile
from towtank.errors import DesignError

RULES = Rules(step=0.2, confirmations=3, most_runs=20)
RUNGS = (40.0, 50.0, 60.0)
EXPERIMENT = """\
experiment: shop
question: Which is cheaper?
repetitions: 2
factors: {{{factors}}}
deployments:
  nodes: {{platform: external, url: "http://127.0.0.1:1"}}
  use: {{platform: external, url: "http://127.0.0.1:2"}}
workloads:
  w: {{timeout: 2s, load: {{model: {load}, duration: 60s}}, journey: {{steps: [{{name: home}}, {{name: cart}}]}}}}
{more}
"""
NODES = reserved_nodes(node="{node}/month")
ONE_SIZE = "deployment: [nodes, use]"
COST = (
    "cost: {prices: cheap.yaml, "
    "deployments: {nodes: {capacity: found.json}, use: {prices: dear.yaml, carries: 1e5/s}}}"
)


@pytest.fixture
def folder(tmp_path):
    """A folder with price lists; nodes of 100 and of 150 a month."""
    for name, node in (("cheap", 100), ("dear", 150)):
        (tmp_path / f"{name}.yaml").write_text(NODES.format(node=node), encoding="utf-8")
    return tmp_path


def plan_of(folder, more="", *, factors=ONE_SIZE, load="open, rate: 10/s"):
    path = folder / "experiment.yaml"
    path.write_text(EXPERIMENT.format(factors=factors, load=load, more=more), encoding="utf-8")
    return load_plan(path)


def search(folder, *, holds=0, fails=2, wanted=("nodes",), **options):
    """Write what a search found of some deployments, as the search itself does."""
    plan = plan_of(folder, "slo: {p95: 300ms}", **options)
    line = LoadLine("found" if fails else "top", holds, fails, (), {}, (), 12)
    capacities = [
        capacity_of(treatment, RUNGS, line, RULES)
        for treatment in plan.treatments
        if treatment.spec.deployment_name in wanted
    ]
    file = CapacityFile(experiment="shop", digest="d", capacities=tuple(capacities))
    (folder / "found.json").write_text(file.to_json(), encoding="utf-8")


def level(folder, cost=COST):
    """Break-even of an experiment whose cost names the search."""
    plan = plan_of(folder, f"slo: {{p95: 300ms}}\n{cost}")
    runs = {t.id: [RunCost({}, (), None, 0.0, 5.0)] for t in plan.treatments}
    return break_even(plan, runs, confidence=0.95)


def problems(folder, cost=COST, **options):
    with pytest.raises(DesignError) as caught:
        plan_of(folder, f"slo: {{p95: 300ms}}\n{cost}", **options)
    return [(one.path, one.message) for one in caught.value.problems]


def test_the_interval_of_a_capacity_is_that_of_the_crossing(folder):
    """A node holds at 40 arrivals/s and fails at 60, two requests each: the second comes between 80 and 120."""
    search(folder)
    found = level(folder)
    (crossing,) = found.crossings
    assert (crossing.cheaper_below, crossing.cheaper_above) == ("nodes", "use")
    assert (crossing.per_s, crossing.low, crossing.high) == tuple(map(pytest.approx, (80.0, 80.0, 120.0)))
    nodes = found.curves[found.curves["treatment_id"] == "nodes"].set_index("per_s")
    between = nodes[(nodes.index > 80.1) & (nodes.index < 119.9)]
    assert set(between["low"].round(6)) == {100.0}
    assert set(between["cost"].round(6)) == {200.0}


def test_a_search_that_refuted_nothing_leaves_the_upper_end_open(folder):
    search(folder, fails=None)
    (crossing,) = level(folder).crossings
    assert crossing.per_s == pytest.approx(80.0)
    assert (crossing.low, crossing.high) == (None, None), (
        "one node may carry any load: no crossing is certain"
    )


def test_of_a_search_over_replicas_that_of_one_counts(folder):
    search(folder, factors=f"{ONE_SIZE}, replicas: [1, 2]", wanted=("nodes", "use"))
    plan = plan_of(folder, "cost: {prices: cheap.yaml, capacity: found.json}")
    carried = [plan.experiment.cost.deployments[name].carried for name in ("nodes", "use")]
    assert [[(one.holds, one.fails, one.levels) for one in of_it] for of_it in carried] == [
        [(80.0, 120.0, {})]
    ] * 2
    assert '"requests": 2.0' in plan.files["found.json"], "the file is kept with the plan"


def test_capacities_go_to_treatments_with_the_same_levels(folder):
    search(folder, factors=f"{ONE_SIZE}, cpu: [1, 2]")
    cost = "cost: {deployments: {nodes: {prices: cheap.yaml, capacity: found.json}}}"
    both = plan_of(folder, cost, factors=f"{ONE_SIZE}, cpu: [1, 2]")
    nodes = both.experiment.cost.deployments["nodes"]
    assert [len(nodes.carried_at(t.levels)) for t in both.treatments] == [1] * 4
    assert problems(folder, cost)[0][1].startswith("2 capacities fit ")
    (said,) = {message for _, message in problems(folder, cost, factors=f"{ONE_SIZE}, cpu: [4]")}
    assert said.startswith("no capacity fits ")


def test_a_search_of_another_name_is_named(folder):
    search(folder)
    (path, said), *_ = problems(folder, "cost: {prices: cheap.yaml, capacity: found.json}")
    assert (path, said.partition(":")[0]) == (
        "cost.capacity",
        "the search has no deployment 'use'; it has nodes",
    )
    plan = plan_of(folder, "cost: {prices: cheap.yaml, capacity: found.json, capacity_of: nodes}")
    assert plan.experiment.cost.deployments["use"].carried[0].holds == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("made", "cost", "said"),
    [
        ({"load": "closed, users: 10"}, COST, "was searched in users; break-even needs requests per second"),
        ({"holds": None, "fails": 0}, COST, "the search confirmed no load of"),
        ({"factors": f"{ONE_SIZE}, replicas: [2, 4]"}, COST, "no capacity of 'nodes' is of one instance"),
        ({}, COST.replace("found.json}", "found.json, carries: 3/s}"), "both say what one carries"),
        ({}, COST.replace("found.json", "other.json"), "there is no file 'other.json'"),
    ],
)
def test_what_cannot_be_used_is_said(folder, made, cost, said):
    search(folder, **made)
    assert said in problems(folder, cost)[0][1]


def test_other_objectives_are_another_question(folder):
    search(folder)
    path = folder / "found.json"
    path.write_text(path.read_text("utf-8").replace('"p95": 0.3', '"p95": 0.1'), encoding="utf-8")
    assert "was searched for the objectives {'p95': 0.1}" in problems(folder)[0][1]


def test_files_of_an_older_search_say_what_is_missing(folder):
    search(folder)
    path = folder / "found.json"
    older = (
        path.read_text("utf-8")
        .replace('"version": 2', '"version": 1')
        .replace('"requests": 2.0', '"requests": null')
    )
    path.write_text(older, encoding="utf-8")
    assert "does not say how many requests an arrival makes" in problems(folder)[0][1]
