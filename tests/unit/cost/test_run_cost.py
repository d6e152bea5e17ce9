"""What a run costs, from its tables: nodes that go late, shared instances, bytes, bills, and what is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.run_tables import FakeRun, Req

from support.prices import WHO, paid_by_use
from towtank.analysis.cost_findings import uncounted_findings
from towtank.analysis.paid import read_paid
from towtank.analysis.run_cost import run_costs
from towtank.cost.bill import BillLine
from towtank.cost.price_list import OwnHardware, PerInstance, PodRequests, Reserved, Waiting
from towtank.cost.spec import ConversionFile, CostSpec, PricedDeployment
from towtank.store import schemas
from towtank.store.run_record import ClockRecord, Window

NODES = Reserved(**WHO, model="reserved", node="1/s", fee="0.1/s")
USE = paid_by_use(vcpu="1/s", request="0.01/1", granularity="100ms", rounded="instance")
S = 1_000_000


def all_costs(runs, plan):
    """Cost of each run, in order; runs of the same id are told apart."""
    records = [
        run.record.model_copy(update={"run_id": f"r{i}"}) if len(runs) > 1 else run.record
        for i, run in enumerate(runs)
    ]
    names = {t.id: t.spec.deployment_name for t in plan.treatments}
    priced = plan.experiment.cost.deployments
    paid = {
        record.run_id: found
        for record, run in zip(records, runs, strict=True)
        if (one := priced.get(names[record.treatment_id])) is not None
        and (found := read_paid(run, one)) is not None
    }
    return list(run_costs(records, paid, plan).values())


def cost_values(run, plan):
    return all_costs([run], plan)[0].values


@dataclass
class PaidRun(FakeRun):
    """A run with single requests, and a table of totals of them."""

    logs: list[dict] = field(default_factory=list)

    @property
    def record(self):
        return super().record.model_copy(update={"logs": self.logs})

    def counts(self, variables=None):
        latency = super().counts(["latency"]).to_pylist()[:-1]
        totals = [
            {**latency[0], "variable": "total", "value": r.latency_us, "count": 1}
            for r in self.requests if r.outcome != "not_sent"
        ]  # fmt: skip
        return pa.Table.from_pylist([*latency, *totals], schema=schemas.COUNTS)

    def requests_dataset(self):
        rows = [
            {
                **dict.fromkeys(schemas.REQUESTS.names), "scheduled_us": r.due_us, "lag_us": 0, "wait_us": 0,
                "after_ttfb_us": None if r.outcome == "not_sent" else r.latency_us, "instance": r.instance,
            }
            for r in self.requests
        ]  # fmt: skip
        table = pa.table({name: [row[name] for row in rows] for name in schemas.REQUESTS.names},
                         schema=pa.schema([f.with_nullable(True) for f in schemas.REQUESTS]))  # fmt: skip
        return ds.dataset(table)


def folder(requests, **options):
    """The requests of a `FakeRun` are a list; those of a run folder are a dataset."""
    run = PaidRun(requests, **options)
    return SimpleNamespace(
        record=run.record, counts=run.counts, totals=run.totals, samples=run.samples, events=run.events,
        requests=run.requests_dataset,
    )  # fmt: skip


def plan(per_1000="successes", **priced):
    cost = CostSpec(
        currency="EUR", per_1000=per_1000, deployments={"app": PricedDeployment(**priced)} if priced else {}
    )
    treatment = SimpleNamespace(id="one", spec=SimpleNamespace(deployment_name="app"))
    return SimpleNamespace(experiment=SimpleNamespace(cost=cost), treatments=(treatment,))


TEN = [Req(i * S // 3, 200_000) for i in range(10)]


def nodes(*counts):
    return [(t_us, "kubernetes", "", "nodes", value) for t_us, value in counts]


def test_a_node_is_paid_until_it_is_gone():
    run = folder(TEN, samples_rows=nodes((-S, 2.0), (2 * S, 3.0), (9 * S, 2.0)))
    found = cost_values(run, plan(prices=NODES))
    # window to 4 s: 2 · 4 + 2 s of the third, and 0.4 of fee; the third until 9 s: 5 more
    assert found["cost_drive"].value == pytest.approx(10.4)
    assert found["cost"].value == pytest.approx(15.4)
    assert found["cost_per_1000"].value == pytest.approx(1540.0)
    assert not found["cost"].above


def test_a_node_that_was_not_seen_to_go_costs_more_than_is_known():
    run = folder(TEN, samples_rows=nodes((0, 2.0), (2 * S, 3.0), (6 * S, 3.0)))
    found = cost_values(run, plan(prices=NODES))
    assert found["cost"].above
    assert "were not seen to go" in found["cost"].reason
    assert found["cost"].value == pytest.approx(2 * 4 + 4 + 0.4)


def test_nodes_may_be_said_where_nobody_counts_them():
    assert cost_values(folder(TEN), plan(prices=NODES, nodes=2))["cost"].value == pytest.approx(8.4)


def test_shared_instances_are_paid_once():
    requests = [
        Req(0, 150_000, instance="a"),
        Req(100_000, 100_000, instance="a"),
        Req(0, 30_000, instance="b"),
    ]
    found = cost_values(folder(requests), plan(prices=USE, vcpu=2, memory=2**30))
    # (0.2 s of a + 0.1 s of b) · 2 vCPU, and three requests
    assert found["cost"].value == pytest.approx(0.3 * 2 + 0.03)
    whole = all_costs([folder(requests)], plan(prices=USE, vcpu=2, memory=2**30))[0]
    assert (whole.billed_s, whole.bytes_each) == (pytest.approx(0.1), 0.0)
    assert found["cost"].reason == ""


def test_without_names_of_instances_it_is_an_approximation_and_says_so():
    requests = [Req(0, 150_000, instance=None), Req(100_000, 100_000, instance=None)]
    found = cost_values(folder(requests), plan(prices=USE, vcpu=1, memory=2**30))
    assert found["cost"].value == pytest.approx(0.2 + 0.1 + 0.02)
    assert "requests × time" in found["cost"].reason


def test_what_was_never_sent_is_not_paid():
    requests = [Req(0, 100_000), Req(S, 100_000, outcome="not_sent", status=None)]
    assert cost_values(folder(requests), plan(prices=USE, vcpu=1, memory=1))["cost"].value == pytest.approx(
        0.11
    )


def test_own_hardware_pays_by_the_load_of_the_machine():
    own = OwnHardware(
        **WHO, model="own-hardware", machine=100, lifetime="100s", electricity="3600/kWh", idle_watts=100,
        busy_watts=300, overhead=1,
    )  # fmt: skip
    samples = [(t * S, "host", "", "cpu_busy_ratio", 0.5) for t in (1, 2, 3)]
    # 4 s: 4 for the machine; 200 W · 4 s · 0.001 a joule
    assert cost_values(folder(TEN, samples_rows=samples), plan(prices=own))["cost"].value == pytest.approx(
        4.8
    )
    said = cost_values(folder(TEN), plan(prices=own))["cost"]
    assert (said.value, said.reason) == (
        None, "app: the share of CPU that worked is not known: add `host` to `observe`",
    )  # fmt: skip


def pods(*counts, metric="replicas_ready"):
    return [(t_us, "kubernetes", "", metric, value) for t_us, value in counts]


def test_instances_are_paid_while_they_are_there():
    there = PerInstance(**WHO, model="per-instance", vcpu="1/s", memory="free")
    samples = [
        *pods((0, 1.0), (2 * S, 1.0), (5 * S, 1.0)),
        *pods((0, 0.0), (2 * S, 1.0), (5 * S, 0.0), metric="replicas_pending"),
    ]
    found = cost_values(folder(TEN, samples_rows=samples), plan(prices=there, vcpu=1, memory=1))
    # one for 4 s, another from 2 s on, and it goes at 5 s
    assert (found["cost_drive"].value, found["cost"].value) == (pytest.approx(6.0), pytest.approx(7.0))
    assert not found["cost"].above


def test_pods_that_are_ending_are_paid_for_and_may_outlast_what_was_seen():
    there = PerInstance(**WHO, model="per-instance", vcpu="1/s", memory="free")
    samples = [
        *pods((0, 1.0), (5 * S, 1.0)),
        *pods((0, 0.0), (5 * S, 1.0), metric="replicas_terminating"),
    ]
    late = [*samples, *pods((4 * S, 2.0))]
    found = cost_values(folder(TEN, samples_rows=late), plan(prices=there, vcpu=1, memory=1))
    assert found["cost"].above
    assert "pods that came with the run were not seen to go" in found["cost"].reason


def test_what_pods_request_is_taken_from_the_cluster_where_nobody_says_it():
    autopilot = PodRequests(**WHO, model="pod-requests", vcpu="1/s", memory="1/s", fee="free")
    samples = [
        *pods((0, 3.0), (5 * S, 3.0)),
        *pods((0, 1.5), (2 * S, 2.5), (4 * S, 1.5), metric="cpu_requested_cores"),
        *pods((0, 2.0**30), (5 * S, 2.0**30), metric="memory_requested_bytes"),
    ]
    found = cost_values(folder(TEN, samples_rows=samples), plan(prices=autopilot))
    # 1.5 · 2 + 2.5 · 2 vCPU-seconds, 4 GiB-seconds
    assert found["cost"].value == pytest.approx(8.0 + 4.0)
    # of three pods the size is written: 3 · 0.5 · 4 vCPU-seconds
    said = cost_values(folder(TEN, samples_rows=samples), plan(prices=autopilot, vcpu=0.5))
    assert said["cost"].value == pytest.approx(6.0 + 4.0)


def in_cluster(zero_s, rows, *, before=(), events=(), requests=TEN):
    """A run whose clock begins at `zero_s` of the machine's, on one cluster."""
    run = folder(requests, samples_rows=rows, events_rows=events)
    clock = ClockRecord(zero_monotonic_ns=round(zero_s * 1e9), zero_utc="", boot_id="boot")
    about = {"cluster": {"id": "one"}, "runs_before": list(before)}
    run.record = run.record.model_copy(update={"clock": clock, "deployment": about})
    return run


def step(t_us, kind):
    return (t_us, "kubernetes", kind, "node/c", "", "{}")


def test_the_next_run_tells_when_a_node_went():
    first = in_cluster(100, nodes((-S, 2.0), (2 * S, 3.0), (5 * S, 3.0)))
    # its clock begins 20 s later: the node goes at 8 s of the first run's, and is counted from 15 s on
    second = in_cluster(120, nodes((-5 * S, 2.0), (5 * S, 2.0)), events=[step(-12 * S, "node_removed")])
    found = all_costs([first, second], plan(prices=NODES))
    assert found[0].values["cost"].value == pytest.approx(2 * 4 + 6 + 0.4)
    assert not found[0].values["cost"].above
    assert found[1].values["cost"].value == pytest.approx(8.4)


def test_a_node_that_goes_while_the_next_run_settles_is_paid_until_then():
    first = in_cluster(100, nodes((-S, 2.0), (2 * S, 3.0), (5 * S, 3.0)))
    second = in_cluster(120, nodes((-10 * S, 3.0), (-4 * S, 2.0), (5 * S, 2.0)))
    assert all_costs([first, second], plan(prices=NODES))[0].values["cost"].value == pytest.approx(
        2 * 4 + 14 + 0.4
    )


def test_a_node_that_is_still_there_when_the_next_run_begins_costs_more_than_is_known():
    first = in_cluster(100, nodes((-S, 2.0), (2 * S, 3.0), (5 * S, 3.0)))
    second = in_cluster(120, nodes((-10 * S, 3.0), (5 * S, 3.0)))
    money = all_costs([first, second], plan(prices=NODES))[0].values["cost"]
    assert (money.value, money.above) == (pytest.approx(2 * 4 + 18 + 0.4), True)


def test_nodes_that_went_unseen_are_not_guessed():
    first = in_cluster(100, nodes((-S, 2.0), (2 * S, 3.0), (5 * S, 3.0)))
    second = in_cluster(120, nodes((-5 * S, 2.0), (5 * S, 2.0)))
    money = all_costs([first, second], plan(prices=NODES))[0].values["cost"]
    assert (money.value, money.above) == (pytest.approx(2 * 4 + 3 + 0.4), True)


def test_pods_of_another_deployment_say_nothing_of_those_before():
    there = PerInstance(**WHO, model="per-instance", vcpu="1/s", memory="free")
    first = in_cluster(100, pods((0, 1.0), (2 * S, 2.0), (5 * S, 2.0)))
    for before, cost, above in (((), 4 + 3, True), (("r0",), 4 + 13, False)):
        second = in_cluster(120, pods((-10 * S, 2.0), (-5 * S, 1.0), (5 * S, 1.0)), before=before)
        money = all_costs([first, second], plan(prices=there, vcpu=1, memory=1))[0].values["cost"]
        assert (money.value, money.above) == (pytest.approx(cost), above)


def test_the_study_comes_out_end_to_end():
    """Two nodes for half an hour, and a third for 2,288 s that goes after the run: 56.29 ct (issue 5)."""
    study = Reserved(**WHO, model="reserved", node="0.0087959 ct/s", fee="0.0024996 ct/s")
    rows = nodes((0, 2.0), (600 * S, 3.0), (1_810 * S, 3.0), (2_888 * S, 2.0))
    run = folder(TEN, samples_rows=rows, window=Window(start_us=0, end_us=1_800 * S, drained_us=1_801 * S))
    found = cost_values(run, plan(prices=study))
    assert 100 * found["cost"].value == pytest.approx(56.29, abs=5e-3)


def test_a_count_holds_until_the_next_was_due():
    rows = nodes((0, 2.0), (3 * S, 2.0))
    run = folder(TEN, samples_rows=rows)
    assert cost_values(run, plan(prices=NODES))["cost"].value is None
    telemetry = {"sources": [{"source": "kubernetes", "interval_s": 2.0}]}
    run.record = run.record.model_copy(update={"telemetry": telemetry})
    assert cost_values(run, plan(prices=NODES))["cost"].value == pytest.approx(8.4)


def test_a_load_that_was_over_early_was_counted_to_its_end():
    rows = nodes((0, 2.0), (3 * S, 2.0))
    for drained_us, cost in ((3 * S, 8.4), (3 * S - 1, 8.4), (4 * S, None)):
        window = Window(start_us=S, end_us=4 * S, drained_us=drained_us)
        found = cost_values(folder(TEN, samples_rows=rows, window=window), plan(prices=NODES))
        assert found["cost"].value == (cost and pytest.approx(cost))


def test_the_items_of_a_bill_add_up():
    rate = [{"from": "EUR", "to": "USD", "rate": 2, "date": "2026-01-01"}]
    dollars = plan(prices=NODES, nodes=1)
    dollars.experiment.cost = dollars.experiment.cost.model_copy(
        update={"currency": "USD", "conversions": tuple(map(ConversionFile.model_validate, rate))}
    )
    found = all_costs([folder(TEN)], dollars)[0]
    items = {item.name: (item.quantity, item.unit, item.money) for item in found.items}
    assert items["nodes"] == (4.0, "node-s", pytest.approx(8.0))
    assert items["fee"] == (4.0, "s", pytest.approx(0.8))
    assert sum(money for *_, money in items.values()) == pytest.approx(found.values["cost"].value)


def test_bytes_are_items():
    dear = Reserved(**{**WHO, "log": "1/kB", "egress": "1/kB"}, model="reserved", node="free", fee="free")
    run = folder(TEN, logs=[{"instance": "a", "bytes_in_window": 500, "bytes_in_drive": 600}])
    found = all_costs([run], plan(prices=dear, nodes=1))[0]
    assert found.values["cost"].value == found.values["cost_drive"].value == pytest.approx(0.6 + 1.0)
    # all ten requests, those three of the warm-up too, logged 600 bytes and answered with 1000
    assert found.bytes_each == pytest.approx((0.6 + 1.0) / 10)


def test_what_is_charged_and_was_not_counted_is_said():
    dear = Reserved(**{**WHO, "log": "1/kB"}, model="reserved", node="free", fee="free")
    untimed = {"instance": "b", "bytes_written": 9}
    for logs, why in (
        ([], "no output of the deployment was followed"),
        (
            [{"instance": "a", "bytes_in_window": 5, "bytes_in_drive": 6}, untimed],
            "the log of b has no times",
        ),
    ):
        said = cost_values(folder(TEN, logs=logs), plan(prices=dear, nodes=1))["cost"]
        assert said.value is None
        assert said.reason.startswith(f"app: {why}")
        assert said.reason.endswith("and the price list charges for logs")


def test_gaps_of_the_count_are_bridged_and_said():
    """From 1 s to 3 s nobody counted: two nodes are billed throughout, and what came in between is not known."""
    gaps = [("kubernetes", S, 3 * S), ("kubernetes", 3_500_000, 6 * S), ("host", 0, 4 * S)]
    telemetry = {
        "gaps": [{"source": s, "from_us": a, "to_us": b, "reason": ""} for s, a, b in gaps],
        "gap_count": 3,
    }
    run = folder(TEN, samples_rows=nodes((0, 2.0), (S, 2.0), (3 * S, 2.0), (4 * S, 2.0)))
    run.record = run.record.model_copy(update={"telemetry": telemetry})
    found = all_costs([run], plan(prices=NODES))[0]
    assert found.values["cost"].value == pytest.approx(8.4)
    assert found.uncounted_s == pytest.approx(2.5)
    assert all_costs([run], plan(prices=NODES, nodes=2))[0].uncounted_s == 0, "nobody had to count"
    (finding,) = uncounted_findings({"one": [found]}, {"one": [SimpleNamespace(run_id="r1")]})
    assert (finding.name, finding.severity, finding.runs) == ("cost_uncounted", "warning", ("r1",))
    assert "up to 2.5 s of the drive phase (1 run)" in finding.message
    whole = folder(TEN, samples_rows=nodes((0, 2.0), (4 * S, 2.0)))
    assert not list(uncounted_findings({"one": all_costs([whole], plan(prices=NODES))}, {"one": [None]}))


def test_errors_are_not_divided_by_where_successes_count():
    requests = [*TEN, Req(S, 1000, outcome="check:status", status=500)]
    ok, every = (
        cost_values(folder(requests), plan(prices=NODES, nodes=1, per_1000=what))["cost_per_1000"].value
        for what in ("successes", "requests")
    )
    assert ok == pytest.approx(1000 * 4.4 / 10)
    assert every == pytest.approx(1000 * 4.4 / 11)


def test_a_bill_is_paid_by_the_runs_together():
    billed = plan(bill=(BillLine("CPU", 6.0, "request-seconds"), BillLine("calls", 3.0, "invocations")))
    runs = [folder([Req(0, 100_000)]), folder([Req(0, 250_000), Req(S, 250_000)])]
    found = [one.values["cost"].value for one in all_costs(runs, billed)]
    # 0.1 s and 0.5 s of requests for 6; one and two calls for 3
    assert found == [pytest.approx(1.0 + 1.0), pytest.approx(5.0 + 2.0)]


def test_deployments_with_the_same_bill_share_it():
    bill = (BillLine("calls", 3.0, "invocations"),)
    cost = CostSpec(
        currency="EUR", deployments={name: PricedDeployment(bill=bill) for name in ("app", "other")}
    )
    treatments = [
        SimpleNamespace(id=id_, spec=SimpleNamespace(deployment_name=name))
        for id_, name in (("one", "app"), ("two", "other"))
    ]
    both = SimpleNamespace(experiment=SimpleNamespace(cost=cost), treatments=treatments)
    runs = [folder([Req(0, 1000)]), folder([Req(0, 1000), Req(S, 1000)])]
    runs[1].record = runs[1].record.model_copy(update={"treatment_id": "two"})
    found = [one.values["cost"].value for one in all_costs(runs, both)]
    assert found == [pytest.approx(1.0), pytest.approx(2.0)]


def test_a_bill_without_requests_to_share_it_out_to_is_said():
    billed = plan(bill=(BillLine("calls", 3.0, "invocations"),))
    run = folder([Req(0, 1000, outcome="not_sent", status=None)])
    said = cost_values(run, billed)["cost"]
    assert (said.value, said.reason) == (None, "no run of app sent requests to share its bill out to")


def test_a_deployment_without_a_price_is_said():
    found = cost_values(folder(TEN), plan())
    assert {q.value for q in found.values()} == {None}
    assert found["cost"].reason == "app has no price: write it in `cost.deployments`"


@dataclass(frozen=True)
class Kept:
    """A deployment that keeps one instance of 2 CPU and 1 GiB."""

    def used_at_least(self):
        return 2.0, float(2**30)

    def used_at_most(self):
        return 4.0, float(2**31)


def test_instances_that_are_kept_are_paid_for_what_is_left_of_their_time():
    """Window of 4 s: 2 s of work on 2 CPU and 1 GiB leave 4 CPU-seconds and 2 GiB-seconds of waiting."""
    prices = USE.model_copy(update={"memory": 1.0, "waiting": Waiting(vcpu="0.25/s", memory="0.5/s")})
    one = plan(prices=prices, vcpu=2.0, memory=2**30)
    run = folder(TEN)
    without = cost_values(run, one_with(one, deployment=None))
    (found,) = all_costs([run], one_with(one, deployment=Kept()))
    assert found.values["cost"].value == pytest.approx(without["cost"].value + 4 * 0.25 + 2 * 0.5)
    assert "too little where more of them worked at a time" in found.values["cost"].reason
    assert [(item.name, item.quantity) for item in found.items if item.name.startswith("waiting")] == [
        ("waiting vCPU", pytest.approx(4.0)), ("waiting memory", pytest.approx(2.0)),
    ]  # fmt: skip


def one_with(made, *, deployment):
    """The plan with a deployment that says how many instances it keeps."""
    spec = SimpleNamespace(deployment_name="app", deployment=deployment)
    return SimpleNamespace(experiment=made.experiment, treatments=(SimpleNamespace(id="one", spec=spec),))
