"""Hand-computed bills: every figure here is worked out on paper, in issue 5 or in the comment beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from towtank.cost.bill import BillLine, Rates, Share, rates
from towtank.cost.billing import billing
from towtank.cost.busy import busy_seconds, request_seconds
from towtank.cost.money import Conversion, converted
from towtank.cost.per_request import parity, per_1000
from towtank.cost.price_list import OwnHardware, PerInstance, PerRequest, PodRequests, Reserved
from towtank.cost.rules import CannotPriceError, Usage, priced, total

WHO = {
    "prices": "test",
    "date": "2026-01-01",
    "source": "paper",
    "currency": "EUR",
    "log": "free",
    "egress": "free",
}
STUDY = Reserved(**WHO, model="reserved", node="0.0087959 ct/s", fee="0.0024996 ct/s")
LAMBDA = PerRequest(
    **WHO, model="per-request", vcpu="free", memory="0.0000166667/s", request="0.20/1M", granularity="1ms",
    rounded="request",
)  # fmt: skip


def cents(prices, usage):
    return 100 * total(priced(prices, usage))


def test_two_nodes_for_half_an_hour():
    # 2 · 0.0087959 · 1800 + 0.0024996 · 1800 = 31.66524 + 4.49928
    assert cents(STUDY, Usage(1800, node_seconds=3600)) == pytest.approx(36.1645, abs=5e-5)


def test_a_third_node_is_billed_until_it_is_gone():
    assert cents(STUDY, Usage(1800, node_seconds=3600 + 2288)) == pytest.approx(56.29, abs=5e-3)


def test_cost_for_a_thousand_requests():
    assert per_1000(36.1645, 327_921) == pytest.approx(0.1103, abs=5e-5)
    assert per_1000(36.1645, 0) is None


def test_a_bill_shared_out():
    run = Share(325_239, 25.94e-3)
    assert total(Rates(2.568e-5, 9.122e-4).items(run)) == pytest.approx(16.05, abs=5e-3)


def test_shares_of_a_bill_add_up_to_it():
    runs = [Share(1000, 0.1), Share(3000, 0.3)]
    bill = [
        BillLine("CPU", 7.0, "request-seconds"), BillLine("RAM", 3.0, "request-seconds"),
        BillLine("invocations", 2.0, "invocations"),
    ]  # fmt: skip
    found = rates(bill, runs)
    # 1000 s of requests for 10, 4000 invocations for 2
    assert (found.per_request_second, found.per_invocation) == (pytest.approx(0.01), pytest.approx(0.0005))
    assert sum(total(found.items(run)) for run in runs) == pytest.approx(12.0)


def test_a_bill_that_no_run_can_take_is_refused():
    with pytest.raises(ValueError, match="CPU to be shared out by request-seconds"):
        rates([BillLine("CPU", 7.0, "request-seconds")], [Share(10, 0.0)])


def test_a_million_calls_of_lambda():
    # 1e6 · 0.3 s · 0.5 GiB · 0.0000166667 + 1e6 · 0.20/1e6 = 2.500005 + 0.20
    seconds = 1e6 * 0.3
    assert total(priced(LAMBDA, Usage(60, gib_seconds=0.5 * seconds, requests=1_000_000))) == pytest.approx(
        2.70, abs=1e-4
    )


def test_pods_are_paid_by_what_they_request():
    autopilot = PodRequests(**WHO, model="pod-requests", vcpu="0.0445/h", memory="0.0049225/h", fee="0.10/h")
    # one hour of 2 vCPU and 4 GiB: 0.089 + 0.01969 + 0.10
    assert total(priced(autopilot, Usage(3600, vcpu_seconds=7200, gib_seconds=14400))) == pytest.approx(
        0.20869
    )


def test_instances_are_paid_as_long_as_they_are_there():
    run = PerInstance(**WHO, model="per-instance", vcpu="0.000018/s", memory="0.000002/s")
    assert total(priced(run, Usage(100, vcpu_seconds=100, gib_seconds=50))) == pytest.approx(0.0019)


def test_own_hardware_pays_depreciation_and_energy():
    own = OwnHardware(
        **WHO, model="own-hardware", machine=3652, lifetime="1826d", electricity="0.36/kWh", idle_watts=50,
        busy_watts=150, overhead=2,
    )  # fmt: skip
    # a day: 3652 ÷ 1826 = 2.00, and half busy (50 + 100 ÷ 2) W · 2 · 24 h = 4.8 kWh · 0.36 = 1.728
    items = {i.name: i.money for i in priced(own, Usage(86_400, machine_seconds=86_400, busy_ratio=0.5))}
    assert items == {
        "depreciation": pytest.approx(2.0),
        "energy": pytest.approx(1.728),
        "logs": 0.0,
        "egress": 0.0,
    }


def test_logs_and_egress_are_items():
    dear = Reserved(
        **{**WHO, "log": "0.50/GiB", "egress": "0.12/GB"}, model="reserved", node="1/h", fee="free"
    )
    items = {
        i.name: i.money for i in priced(dear, Usage(0, node_seconds=0, logged_bytes=2**31, egress_bytes=5e9))
    }
    assert (items["logs"], items["egress"]) == (pytest.approx(1.0), pytest.approx(0.6))


@pytest.mark.parametrize(
    ("prices", "usage", "said"),
    [
        (STUDY, Usage(10), "add `kubernetes` to `observe`"),
        (LAMBDA, Usage(10, requests=1), "write `memory` in `cost.deployments`"),
        (LAMBDA, Usage(10, gib_seconds=1), "number of requests"),
    ],
)
def test_what_is_not_known_is_said_and_never_nothing(prices, usage, said):
    with pytest.raises(CannotPriceError, match=said):
        priced(prices, usage)


def test_what_is_free_need_not_be_known():
    assert total(priced(STUDY, Usage(0, node_seconds=0))) == 0.0


def table(*rows):
    found = pd.DataFrame(rows, columns=["instance", "started_us", "total_us"])
    return found.assign(due_us=found.started_us)


SHARED = table(("a", 0, 150_000), ("a", 100_000, 100_000), ("a", 500_000, 10_000), ("b", 0, 30_000))
"""Instance a works 0–200 ms and 500–510 ms, b 0–30 ms."""


@pytest.mark.parametrize(
    ("rounded", "seconds"),
    [
        ("interval", 0.2 + 0.1 + 0.1),  # 200, 10 and 30 ms, each up to 100
        ("instance", 0.3 + 0.1),  # 210 ms and 30 ms
    ],
)
def test_requests_at_the_same_time_share_their_instance(rounded, seconds):
    assert busy_seconds([SHARED], granularity_s=0.1, rounded=rounded) == pytest.approx(seconds)


def test_requests_that_share_nothing_are_rounded_one_by_one():
    # two of 150 ms are 200 ms each, one of 100 ms stays
    took, count = np.array([150_000, 100_000]), np.array([2, 1])
    assert request_seconds(took, count, granularity_s=0.1) == pytest.approx(0.5)
    assert request_seconds(took[:0], count[:0], granularity_s=0.1) == 0.0


def test_a_short_request_inside_of_a_long_one_ends_nothing():
    inside = table(("a", 0, 1_000_000), ("a", 100_000, 1000), ("a", 900_000, 200_000))
    assert busy_seconds([inside], granularity_s=0.001, rounded="interval") == pytest.approx(1.1)


def test_whole_steps_are_not_rounded_up():
    assert busy_seconds([table(("a", 7, 300_000))], granularity_s=0.1, rounded="instance") == pytest.approx(
        0.3
    )


@pytest.mark.parametrize("rounded", ["interval", "instance"])
def test_read_in_parts_the_work_is_the_same(rounded):
    """Stretches go on from one part to the next, also over parts in which their instance does not appear."""
    rng = np.random.default_rng(5)
    started = np.sort(rng.integers(0, 2_000_000, 400))
    rows = [
        (f"i{rng.integers(3)}", int(begin), int(took))
        for begin, took in zip(started, rng.exponential(20_000, 400), strict=True)
    ]
    whole = table(("long", 0, 1_500_000), *rows, ("late", 2_000_000, 5))
    wanted = busy_seconds([whole], granularity_s=0.001, rounded=rounded)
    for size in (1, 7, 100):
        parts = [whole.iloc[i : i + size].reset_index(drop=True) for i in range(0, len(whole), size)]
        assert busy_seconds(parts, granularity_s=0.001, rounded=rounded) == pytest.approx(wanted)


def test_requests_out_of_order_are_refused_and_not_counted_twice():
    with pytest.raises(ValueError, match="not in the order"):
        busy_seconds([table(("a", 5, 1)), table(("a", 4, 1))], granularity_s=0.1, rounded="instance")


def test_instances_without_a_name_cannot_be_told_apart():
    with pytest.raises(ValueError, match="1 of 2 requests do not say which instance"):
        busy_seconds([table(("a", 0, 1), ("", 0, 1))], granularity_s=0.1, rounded="instance")


def test_the_billing_window_ends_when_nodes_are_back():
    # 2 nodes, a third from 600 s; driven until 1800 s; the third is gone at 2888 s: 2288 s of it
    found = billing([-5_000_000, 600_000_000, 2_888_000_000], [2, 3, 2], drive_end_us=1_800_000_000)
    assert found is not None
    assert (found.end_us, found.is_back) == (2_888_000_000, True)
    assert found.node_seconds == pytest.approx(2 * 1800 + 2288)
    assert found.drive_node_seconds == pytest.approx(2 * 1800 + 1200)


def test_without_a_new_node_the_billing_window_is_the_drive_phase():
    found = billing([0, 1_900_000_000], [2, 2], drive_end_us=1_800_000_000)
    assert found is not None
    assert (found.end_us, found.node_seconds, found.is_back) == (1_800_000_000, 3600.0, True)


def test_nodes_that_stay_are_said_to_stay():
    found = billing([0, 600_000_000, 2_000_000_000], [2, 3, 3], drive_end_us=1_800_000_000)
    assert found is not None
    assert not found.is_back
    assert found.node_seconds == pytest.approx(2 * 1800 + 1400)


def test_a_count_holds_as_long_as_it_is_said_to():
    found = billing([0, 900], [2, 2], drive_end_us=1000, holds_us=150)
    assert found is not None
    assert (found.is_back, found.node_seconds) == (True, pytest.approx(0.002))


@pytest.mark.parametrize("counts", [([], []), ([5], [2]), ([0, 900], [2, 2])])
def test_nodes_that_were_not_counted_over_the_drive_phase_are_not_known(counts):
    assert billing(*counts, drive_end_us=1000) is None


def test_parity_is_a_total_and_what_is_more_than_was_driven():
    assert parity(36.0, 0.0001, 300_000) == (pytest.approx(360_000), pytest.approx(60_000))
    assert parity(36.0, 0.0, 300_000) is None


def test_currencies_are_converted_by_a_rate_that_is_written_down():
    rate = Conversion("USD", "EUR", 0.9, "2026-01-01")
    assert converted(10.0, "USD", "EUR", [rate]) == pytest.approx(9.0)
    assert converted(9.0, "EUR", "USD", [rate]) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="prices are in USD and the report is in BRL"):
        converted(10.0, "USD", "BRL", [rate])
