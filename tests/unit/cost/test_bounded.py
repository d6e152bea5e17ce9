"""What a plan says of the price of deployments that say how many instances there can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import towtank
from towtank.design import forecast, load_plan
from towtank.design.expected_cost import expected_costs, in_words

EXPERIMENT = """
experiment: priced
question: What does it cost at most?
repetitions: 3
deployments:
  run:
    platform: cloud_run
    project: some-project
    region: europe-west1
    services: {hello: {image: some/image, cpu: 2, memory: 1Gi, min_instances: 1, max_instances: 5}}
workloads:
  calls:
    timeout: 1s
    load: {model: open, stages: [{rate: 10, hold: 10s}]}
    journey: {steps: [{name: call, path: /}]}
cost: {deployments: {run: {prices: PRICES, vcpu: 2, memory: 1GiB}}}
"""


@pytest.mark.parametrize(
    ("prices", "low", "high"),
    [
        # 3 runs of 10 s and 100 requests, 2 CPU and 1 GiB: by request, at least the one that is kept waits; at most 5
        (
            "cloud-run-requests",
            300 * 0.4e-6 + 30 * 3 * 0.0000025,
            300 * 0.4e-6 + 30 * 5 * (2 * 0.000024 + 0.0000025),
        ),
        # by instance: at least the one that is kept
        ("cloud-run-instances", 30 * (2 * 0.000018 + 0.000002), 30 * 5 * (2 * 0.000018 + 0.000002)),
    ],
)
def test_a_price_is_bounded_by_the_instances_there_may_be(
    tmp_path: Path, prices: str, low: float, high: float
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.replace("PRICES", prices))
    plan = load_plan(path)
    (found,) = costs = expected_costs(plan, forecast(plan))
    assert found.low == pytest.approx(low, rel=1e-6)
    assert found.high is None, "logs and egress are not known before"
    (line,) = in_words(costs, "USD")
    said = float(line.rpartition("at most ")[2].partition(" USD")[0])
    assert said == pytest.approx(high, rel=0.01)


def test_a_plan_says_what_would_be_created_and_asks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.replace("PRICES", "cloud-run-requests"))
    done = towtank("plan", path)
    assert done.returncode == 0, done.stderr
    assert (
        "would create: service towtank-hello-… in some-project, europe-west1: image some/image, 2 CPU during requests, "
        "1 GiB, 1 to 5 instances of as many as Cloud Run takes requests at a time, for callers with a token"
    ) in done.stdout
    assert "cost of " in done.stdout
