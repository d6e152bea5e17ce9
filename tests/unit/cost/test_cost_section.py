"""The `cost` key and what it names: right price lists become numbers, wrong ones problems with their places."""

from __future__ import annotations

import textwrap

import pytest
from jsonschema import Draft202012Validator

from support.prices import reserved_nodes
from towtank.cost.price_list import Reserved
from towtank.cost.spec import CostSpec
from towtank.design import forecast, json_schema, load_plan
from towtank.design.cost_section import read_cost
from towtank.design.document import parse_document
from towtank.design.expected_cost import expected_costs, in_words
from towtank.design.include import Library
from towtank.design.plan import Plan
from towtank.design.price_lists import read_price_list, shipped_names
from towtank.design.problems import Place, Problems
from towtank.design.tree import plain
from towtank.errors import DesignError

NODES = reserved_nodes(node="0.0087959 ct/s", fee="0.0024996 ct/s", egress="0.12/GB")

THERE, BACK = (
    "{from: EUR, to: USD, rate: 1.1, date: 2026-01-01}",
    "{from: USD, to: EUR, rate: 7, date: 2026-01-01}",
)


@pytest.fixture
def read(tmp_path):
    """Read a `cost` beside files: ``read("cost: nodes.yaml", nodes=NODES)``; deployments are a and b."""

    def read(cost, **files):
        for name, text in files.items():
            path = tmp_path / f"{name}.{'csv' if name == 'invoice' else 'yaml'}"
            path.write_text(text, encoding="utf-8")
        problems = Problems()
        text = "deployments: {a: {}, b: {}}\n" + textwrap.dedent(cost)
        root = parse_document(text, "e.yaml", problems)
        spec = read_cost(root, Library(tmp_path, "", problems), problems)
        return spec, [str(problem) for problem in problems.sorted()]

    return read


def test_one_list_is_for_all_deployments(read):
    spec, problems = read("cost: nodes.yaml", nodes=NODES)
    assert problems == []
    assert list(spec.deployments) == ["a", "b"]
    prices = spec.deployments["a"].prices
    assert isinstance(prices, Reserved)
    assert prices.node == pytest.approx(8.7959e-5)
    assert prices.egress == pytest.approx(0.12e-9)
    assert spec.currency == "EUR"


def test_it_is_kept_with_the_plan_and_read_again(read):
    spec, _ = read("cost: {deployments: {a: nodes.yaml, b: {prices: lambda-x86, memory: 512MiB}}, currency: EUR,"
                   " conversions: [{from: USD, to: EUR, rate: 0.9, date: 2026-01-01}]}", nodes=NODES)  # fmt: skip
    again = CostSpec.model_validate_json(spec.model_dump_json(by_alias=True))
    assert again.deployments["a"].prices.node == pytest.approx(spec.deployments["a"].prices.node, rel=1e-12)
    assert again.deployments["b"].prices.request == pytest.approx(2e-7)
    assert again.deployments["b"].memory == 512 * 2**20


def test_a_deployment_has_what_holds_for_all_and_its_own(read):
    spec, problems = read(
        "cost: {prices: cloud-run-instances, vcpu: 500m, memory: 1GiB, idle: 15m, carries: 600/min,"
        " deployments: {b: {vcpu: 2}}}"
    )
    assert problems == []
    a, b = spec.deployments["a"], spec.deployments["b"]
    assert (a.vcpu, a.memory, a.idle, a.carries) == (0.5, 2**30, 900.0, 10.0)
    assert (b.vcpu, b.memory, b.idle, b.carries) == (2.0, 2**30, 900.0, 10.0)


def test_what_fails_lies_above_what_is_carried(read):
    for given, said in (
        (
            "carries: 10/s, fails: 9/s",
            "fails: found 9/s, and `carries` is 10/s; allowed is more than `carries`",
        ),
        ("fails: 9/s", "fails: found 9/s, and the key 'carries' is missing"),
    ):
        spec, problems = read(f"cost: {{deployments: {{a: {{prices: nodes.yaml, {given}}}}}}}", nodes=NODES)
        assert spec is None
        assert said in problems[0]


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_lists_are_right(name, tmp_path):
    problems = Problems()
    found = read_price_list(name, Place("e.yaml"), "cost", Library(tmp_path, "", problems), problems)
    assert problems.sorted() == ()
    assert found is not None
    assert found.note


def test_a_file_beside_the_experiment_overrides_a_shipped_list(read, tmp_path):
    own = NODES.replace("prices: nodes", "prices: my own")
    (tmp_path / "reserved-nodes.yaml").write_text(own, encoding="utf-8")
    spec, problems = read("cost: reserved-nodes")
    assert (problems, spec.deployments["a"].prices.prices) == ([], "my own")


def test_a_deployment_without_a_price_is_left_out(read):
    spec, problems = read("cost: {deployments: {a: nodes.yaml}}", nodes=NODES)
    assert (problems, list(spec.deployments)) == ([], ["a"])


def test_a_bill_is_read(read):
    spec, problems = read(
        "cost: {bill: invoice.csv, currency: EUR}",
        invoice="name,amount,by\nCPU,7,request-seconds\ncalls,2.5,invocations\n",
    )
    assert problems == []
    assert [(line.name, line.amount, line.by) for line in spec.deployments["a"].bill] == [
        ("CPU", 7.0, "request-seconds"), ("calls", 2.5, "invocations"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("node: 0.0087959 ct/s\n", "", "nodes.yaml:1:1: node: the key 'node' is missing here"),
        ("log: free\n", "", "nodes.yaml:1:1: log: the key 'log' is missing here"),
        (
            "currency: EUR",
            "currency: EURO",
            "nodes.yaml:4:11: currency: 'EURO' is not a known currency; allowed are",
        ),
        (
            "0.0024996 ct/s",
            "0.1",
            "nodes.yaml:7:6: fee: 0.1 is not a price of this; allowed is an amount for one of",
        ),
        (
            "0.12/GB",
            "0.12/h",
            "nodes.yaml:9:9: egress: '0.12/h' is not a price of this; allowed is an amount for",
        ),
        ("0.12/GB", "-1/GB", "nodes.yaml:9:9: egress: '-1/GB' is not a price of this"),
        (
            "model: reserved",
            "model: reservd",
            "nodes.yaml:5:8: model: found 'reservd'; allowed are reserved, pod-",
        ),
        ("2026-01-01", "yesterday", "nodes.yaml:2:7: date: found 'yesterday'; allowed is text of the form"),
        ("fee:", "fees:", "unknown key 'fees'; allowed are"),
    ],
)
def test_what_is_wrong_in_a_list_is_said_where_it_stands(read, old, new, said):
    assert old in NODES
    spec, problems = read("cost: nodes.yaml", nodes=NODES.replace(old, new))
    assert spec is None
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (
            "cost: lambda-x68",
            "e.yaml:2:7: cost.prices: there is no price list 'lambda-x68'; shipped are cloud-run",
        ),
        ("cost: gone.yaml", "e.yaml:2:7: cost.prices: there is no file 'gone.yaml'"),
        ("cost: ../gone.yaml", "lies outside of the experiment's folder"),
        ("cost: {deployments: {c: nodes.yaml}}", "there is no deployment 'c'; there are a, b"),
        ("cost: lambda-x86", "the price list is by per-request, and the key 'memory' is missing here"),
        ("cost: {}", "no deployment has a price"),
        ("cost: [a]", "allowed is the name of a price list"),
        ("cost: {prices: nodes.yaml, bill: x.csv}", "prices and a bill cannot hold at once"),
        (
            "cost: {deployments: {a: nodes.yaml, b: reserved-nodes}}",
            "prices are in EUR, USD; a report has one",
        ),
        (
            "cost: {prices: nodes.yaml, currency: BRL}",
            "prices are in EUR and the report is in BRL, and no conversion",
        ),
        ("cost: {prices: nodes.yaml, currency: XXX}", "'XXX' is not a known currency"),
        ("cost: {price: nodes.yaml}", "unknown key 'price'"),
        (
            "cost: {prices: nodes.yaml, memory: 0.5}",
            "cost.memory: 0.5 is not a size: a number without a unit",
        ),
        ("cost: {prices: nodes.yaml, memory: 1e400}", "cost.memory: inf is not a size"),
        ("cost: {prices: nodes.yaml, carries: 1e-310/s}", "cost.carries: found"),
        ("cost: {prices: nodes.yaml, memory: 0}", "cost.memory: found 0; allowed is"),
        ("cost: {deployments: {a: '', b: nodes.yaml}}", "cost.deployments.a.prices: must not be empty"),
        (
            "cost: {prices: nodes.yaml, conversions: [{from: EUR, to: USD, rate: 1e-320, date: 2026-01-01}]}",
            "cost.conversions[0].rate: found",
        ),
        (
            "cost: {prices: nodes.yaml, conversions: [{from: EUR, to: USD, rate: 1, date: 2026-02-31}]}",
            "'2026-02-31' is no day of the calendar",
        ),
        (
            f"cost: {{prices: nodes.yaml, conversions: [{THERE}, {BACK}]}}",
            "there is more than one rate between EUR, USD",
        ),
    ],
)
def test_what_is_wrong_in_the_section_is_said_where_it_stands(read, cost, said):
    spec, problems = read(cost, nodes=NODES)
    assert spec is None
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name;amount;by\n", "the first line is 'name;amount;by'; allowed is 'name,amount,by'"),
        (
            "name,amount,by\nCPU,1,hours\n",
            "invoice.csv:2:1: by: found 'hours'; allowed are invocations, request-",
        ),
        ("name,amount,by\nCPU,one,invocations\n", "invoice.csv:2:1: amount: 'one' is not a number"),
        (
            "name,amount,by\nCPU,-1,invocations\n",
            "invoice.csv:2:1: amount: found -1; allowed is an amount ≥ 0",
        ),
        ("name,amount,by\nCPU,1\n", "invoice.csv:2:1: 2 cells; allowed are 3"),
        ("name,amount,by\n", "the bill has no lines"),
    ],
)
def test_what_is_wrong_in_a_bill_is_said_with_its_line(read, text, said):
    spec, problems = read("cost: {bill: invoice.csv, currency: EUR}", invoice=text)
    assert spec is None
    assert any(said in problem for problem in problems), problems


def test_a_bill_is_not_taken_to_be_in_the_currency_of_another_deployments_prices(read):
    spec, problems = read(
        "cost: {deployments: {a: nodes.yaml, b: {bill: invoice.csv}}}",
        nodes=NODES, invoice="name,amount,by\nCPU,7,request-seconds\n",
    )  # fmt: skip
    assert spec is None
    assert "cost.currency: a bill does not say its currency; a report has one" in problems[0]


def test_two_bills_that_read_alike_are_not_shared_out_as_one(read, tmp_path):
    (tmp_path / "other.csv").write_text("name,amount,by\nflat,70,invocations\n", encoding="utf-8")
    cost = "cost: {{currency: EUR, deployments: {{a: {{bill: invoice.csv}}, b: {{bill: {}}}}}}}"
    bill = "name,amount,by\nflat,70,invocations\n"
    assert read(cost.format("invoice.csv"), invoice=bill)[1] == []
    spec, (problem,) = read(cost.format("other.csv"), invoice=bill)
    assert spec is None
    assert "cost.deployments.b.bill: other.csv has the same lines as invoice.csv" in problem


def test_cost_cannot_be_claimed_without_prices(read):
    _, problems = read("answer: {primary: [p95, cost]}\nslo: {cost_per_1000: 2}\n")
    assert problems == [
        "e.yaml:2:25: answer.primary[1]: 'cost' is known only of an experiment with `cost`, and there is none",
        "e.yaml:3:7: slo.cost_per_1000: 'cost_per_1000' is known only of an experiment with `cost`, and there is none",
    ]


EXPERIMENT = """\
experiment: small
question: Which is cheaper?
answer: {primary: [cost_per_1000, p95], baseline: a}
repetitions: 3
factors: {deployment: [a, b]}
deployments:
  a: {platform: external, url: "http://127.0.0.1:1"}
  b: {platform: external, url: "http://127.0.0.1:2"}
workloads:
  w: {timeout: 2s, load: {model: open, rate: 10/s, duration: 10s, warmup: 1s}, journey: {steps: [{name: home}]}}
slo: {cost: 0.5}
cost: nodes.yaml
"""


def test_prices_are_part_of_the_plan(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODES, encoding="utf-8")
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    plan = load_plan(path)
    assert plan.experiment.cost.deployments["b"].prices.fee == pytest.approx(2.4996e-5)
    assert plan.files["nodes.yaml"] == NODES
    again = Plan.from_json(plan.to_json())
    assert again.experiment.cost.currency == "EUR"
    assert again.treatments[0].spec.slo == {"cost": 0.5}
    path.write_text(EXPERIMENT.replace("cost: nodes.yaml", "cost: nodes-of-nobody"), encoding="utf-8")
    with pytest.raises(DesignError, match="there is no price list 'nodes-of-nobody'"):
        load_plan(path)


def test_the_plan_says_what_runs_will_cost(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODES.replace("0.12/GB", "free"), encoding="utf-8")
    path = tmp_path / "experiment.yaml"
    cost = "cost: {currency: EUR, conversions: [{from: USD, to: EUR, rate: 0.5, date: 2026-01-01}], deployments: "
    priced = "{a: {prices: nodes.yaml, nodes: 2}, b: {prices: lambda-x86, memory: 512MiB}}}"
    path.write_text(EXPERIMENT.replace("cost: nodes.yaml", cost + priced), encoding="utf-8")
    plan = load_plan(path)
    a, b = expected_costs(plan, forecast(plan))
    # three runs of 10 s: 3 · 10 · (2 · 8.7959e-5 + 2.4996e-5)
    assert (a.low, a.high, a.open) == (pytest.approx(0.00602742), pytest.approx(0.00602742), "")
    # three runs of 100 requests, warm-up included, at 0.20 a million, in EUR
    assert (b.low, b.high) == (pytest.approx(3 * 100 * 2e-7 * 0.5), None)
    assert in_words((a, b), "EUR") == [
        "cost of a: 0.00603 EUR for its drive phases",
        "cost of b: at least 0.00003 EUR for its drive phases, and the time for which instances work, logs, egress",
        "cost of all: at least 0.00606 EUR",
    ]
    assert in_words((a, a), "EUR")[-1] == "cost of all: 0.0121 EUR"


def test_the_plan_says_of_what_it_knows_no_cost(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODES, encoding="utf-8")
    path = tmp_path / "experiment.yaml"
    path.write_text(
        EXPERIMENT.replace("cost: nodes.yaml", "cost: {deployments: {a: nodes.yaml}}"), encoding="utf-8"
    )
    plan = load_plan(path)
    said = in_words(expected_costs(plan, forecast(plan)), "EUR")
    assert said[0].startswith("cost of a: not known before: nodes are counted while it runs")
    assert said[1] == "cost of b: not known before: b has no price"


@pytest.mark.parametrize(
    ("cost", "is_right"),
    [
        ("nodes.yaml", True),
        ({"deployments": {"a": "nodes.yaml", "b": {"prices": "lambda-x86", "memory": "512MiB"}}}, True),
        (
            {
                "prices": "nodes.yaml",
                "conversions": [{"from": "USD", "to": "EUR", "rate": 1, "date": "2026-01-01"}],
            },
            True,
        ),
        ({"price": "nodes.yaml"}, False),
        ({"currency": "XXX"}, False),
        ({"deployments": {"a": {"price": "nodes.yaml"}}}, False),
        (7, False),
    ],
)
def test_editors_know_the_section(schema, cost, is_right):
    experiment = plain(parse_document(EXPERIMENT, "e.yaml", Problems()))
    assert schema.is_valid({**experiment, "cost": cost}) == is_right


@pytest.fixture(scope="module")
def schema():
    return Draft202012Validator(json_schema())
