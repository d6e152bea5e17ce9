"""Break-even from what runs measured: lines of every model, their crossings in words, and what has no line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from support.prices import WHO, paid_by_use
from towtank.analysis.break_even import break_even
from towtank.analysis.run_cost import RunCost
from towtank.cost.money import DAY_S, MONTH_S
from towtank.cost.price_list import OwnHardware, PerInstance, PodRequests, Reserved
from towtank.cost.spec import CostSpec, PricedDeployment

NODES = Reserved(**WHO, model="reserved", node="100/month", fee="free")
USE = paid_by_use(vcpu="0.00001/s", request="free", granularity="1ms", rounded="request")


def found(levels=None, **priced):
    """Break-even of deployments whose runs billed 0.09, 0.10 and 0.11 s for a request."""
    cost = CostSpec(currency="EUR", deployments=priced)
    treatments = [
        SimpleNamespace(
            id=name, label=name, spec=SimpleNamespace(deployment_name=name),
            levels={"deployment": name, **(levels or {}).get(name, {})},
        )
        for name in [*priced, *(["gratis"] if "nodes" in priced else [])]
    ]  # fmt: skip
    plan = SimpleNamespace(experiment=SimpleNamespace(cost=cost), treatments=treatments)
    runs = {t.id: [RunCost({}, (), billed, 0.0, 5.0) for billed in (0.09, 0.10, 0.11)] for t in treatments}
    return break_even(plan, runs, confidence=0.95)


PAID = {
    "nodes": PricedDeployment(prices=NODES, carries="100/s"),
    "use": PricedDeployment(prices=USE, vcpu=1, memory="1GiB"),
}


def test_pay_per_use_is_cheaper_below_what_a_node_costs():
    every = found(**PAID)
    first = every.crossings[0]
    # 100 a month ÷ (0.1 s · 0.00001) = 1e8 requests a month; a node carries more than that
    assert first.per_s * MONTH_S == pytest.approx(1e8)
    # t of 2 degrees of freedom, 4.303 · 0.01 ÷ √3 = 0.0248 s
    assert first.low * MONTH_S == pytest.approx(100 / (0.12484 * 1e-5), rel=1e-3)
    assert first.high * MONTH_S == pytest.approx(100 / (0.07516 * 1e-5), rel=1e-3)
    assert (first.cheaper_below, first.cheaper_above) == ("use", "nodes")
    assert every.sentences[0] == (
        f"use is cheaper than nodes below {1e8 / MONTH_S * DAY_S / 1e6:.3g} M requests a day (2.63 M to 4.37 M)"
    )


def test_what_has_no_line_is_said_with_its_reason():
    assert found(**PAID).unknown == {"gratis": "it has no price list"}
    alone = found(nodes=PricedDeployment(prices=NODES))
    assert "write `carries`" in alone.unknown["nodes"]
    there = PerInstance(**WHO, model="per-instance", vcpu="1/s", memory="free")
    assert (
        "write `idle`"
        in found(run=PricedDeployment(prices=there, vcpu=1, memory=1, carries="5/s")).unknown["run"]
    )


PODS = PodRequests(
    **WHO, model="pod-requests", vcpu="100/month", memory="10/month", fee="free", vcpu_step="250m"
)


def test_pods_of_unknown_size_have_no_line_and_do_not_cost_nothing():
    by_steps = PODS.model_copy(update={"vcpu_step": None})
    small = found(nodes=PAID["nodes"], pods=PricedDeployment(prices=by_steps, carries="5/s", memory="1GiB"))
    assert (
        small.unknown["pods"] == "what one pod requests is not known: write its `vcpu` and `memory` in `cost`"
    )
    assert "`vcpu` and `memory`" in found(pods=PricedDeployment(prices=PODS, carries="5/s")).unknown["pods"]


def test_pods_are_rounded_up_as_they_are_billed():
    every = found(pods=PricedDeployment(prices=PODS, carries="1000/s", vcpu=0.3, memory="1GiB"))
    assert every.unknown == {}
    assert every.curves["cost"].iloc[0] == pytest.approx(0.5 * 100 + 10)


def test_a_pair_that_changes_places_again_is_said_from_where_to_where():
    first, second, *_ = found(
        **PAID | {"nodes": PAID["nodes"].model_copy(update={"carries": 40.0})}
    ).sentences
    # 1e8 requests a month are 38.05/s; the second node comes at 40/s
    assert first.startswith("use is cheaper than nodes below 3.29 M requests a day")
    assert second.startswith("nodes is cheaper than use from 3.29 M to 3.46 M requests a day")


def test_treatments_that_differ_in_more_are_not_compared():
    apart = found(levels={"nodes": {"cpu": 1}, "use": {"cpu": 2}}, **PAID)
    assert (apart.crossings, apart.always, apart.sentences) == ((), (), ())


def test_a_pair_that_never_changes_places_is_said():
    every = found(a=PAID["nodes"], b=PAID["nodes"].model_copy(update={"carries": 1e6}))
    assert every.crossings == ()
    assert every.sentences == ("b is cheaper than a or costs the same, from 1 to 1 G requests a day",)


def test_bytes_that_are_charged_and_not_known_leave_no_line():
    dear = USE.model_copy(update={"egress": 1e-9})
    cost = CostSpec(currency="EUR", deployments={"use": PricedDeployment(prices=dear, vcpu=1, memory=1)})
    one = SimpleNamespace(id="use", label="use", levels={}, spec=SimpleNamespace(deployment_name="use"))
    plan = SimpleNamespace(experiment=SimpleNamespace(cost=cost), treatments=[one])
    said = break_even(plan, {"use": [RunCost({}, (), 0.1, None)]}, confidence=0.95)
    assert "no run knows its bytes" in said.unknown["use"]


def test_own_machines_pay_energy_by_their_load():
    own = OwnHardware(
        **WHO, model="own-hardware", machine=50, lifetime=f"{MONTH_S:.0f}s", electricity="1/kWh", idle_watts=0,
        busy_watts=1000, overhead=1,
    )  # fmt: skip
    # a month: 50, and 730 kWh for 730 at full load of 10/s; nodes cost 100: level at 50 ÷ 730 of 10/s
    every = found(own=PricedDeployment(prices=own, carries="10/s"), nodes=PAID["nodes"])
    assert every.crossings[0].per_s == pytest.approx(10 * 50 / 730, rel=1e-6)
    assert every.crossings[0].cheaper_below == "own"


def test_what_a_node_carries_may_have_an_interval():
    steady = PricedDeployment(prices=NODES.model_copy(update={"node": 100 / MONTH_S}), carries="100/s")
    unsure = steady.model_copy(update={"fails": 120.0})
    dear = PricedDeployment(prices=NODES.model_copy(update={"node": 150 / MONTH_S}), carries="1000/s")
    (sure,) = found(nodes=steady, dear=dear).crossings
    (crossing,) = found(nodes=unsure, dear=dear).crossings
    # the second node of 100 is what makes one of 150 cheaper: at 100 a second, or only at 120
    assert (sure.low, sure.high) == (pytest.approx(100.0), pytest.approx(100.0))
    assert (crossing.per_s, crossing.low, crossing.high) == tuple(
        pytest.approx(load) for load in (100.0, 100.0, 120.0)
    )


def test_lines_are_drawn_around_what_was_measured_and_where_they_cross():
    every = found(**PAID)
    at = every.curves["per_s"]
    loads = [*every.measured.values(), *(one.per_s for one in every.crossings)]
    assert every.measured["use"] == pytest.approx(5.0)
    assert at.min() == pytest.approx(min(loads) / 10)
    assert at.max() == pytest.approx(max(loads) * 10)
    nodes = every.curves[every.curves["treatment_id"] == "nodes"].set_index("per_s")["cost"]
    assert nodes[nodes.index <= 100].iloc[-1] == pytest.approx(100.0), "just below the step"
    assert nodes[nodes.index > 100].iloc[0] == pytest.approx(200.0), "just above it"
