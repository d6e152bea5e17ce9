"""Where costs are said: in what `plan` prints, and in what the report knows of prices."""

from __future__ import annotations

import pytest

from support.prices import reserved_nodes
from towtank.analysis.analyse import _prices
from towtank.cli.plan import _cost, _data
from towtank.design import forecast, load_plan

EXPERIMENT = """\
experiment: small
question: Which is cheaper?
repetitions: 2
factors: {deployment: [a, b]}
deployments:
  a: {platform: external, url: "http://127.0.0.1:1"}
  b: {platform: external, url: "http://127.0.0.1:2"}
workloads:
  w: {timeout: 2s, load: {model: open, rate: 10/s, duration: 3600s}, journey: {steps: [{name: home}]}}
cost: {deployments: {a: {prices: nodes.yaml, nodes: 3}}}
"""
NODES = reserved_nodes(node="0.10/h", fee="0.20/h", name="nodes of ours")


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODES, encoding="utf-8")
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return load_plan(path)


def test_plan_prints_the_expected_cost(plan):
    # two runs of an hour: 2 · (3 · 0.10 + 0.20)
    assert _cost(plan, forecast(plan)) == [
        "cost of a: 1 EUR for its drive phases",
        "cost of b: not known before: b has no price",
        "cost of all: at least 1 EUR",
    ]
    assert _data(plan, forecast(plan), None, ())["costs"][0]["low"] == pytest.approx(1.0)


def test_the_report_knows_whose_prices_it_has(plan):
    said = _prices(plan)
    assert (said["currency"], said["per_1000"]) == ("EUR", "successes")
    assert said["prices"] == {
        "a": {"list": "nodes of ours", "of": "2026-01-01", "source": "paper", "note": ""}
    }
