"""Cost of a month against load: steps, free tiers, idle time, and where two deployments change places."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from towtank.cost.break_even import (
    Always,
    Crossing,
    Line,
    Measured,
    always,
    always_in_words,
    crossings,
    pay_per_use,
    sentence,
    staircase,
    while_there,
)
from towtank.cost.money import DAY_S, MONTH_S
from towtank.cost.price_list import FreePerMonth

NODES = staircase(
    "nodes", node_per_s=1 / MONTH_S, fee_per_s=2 / MONTH_S, capacity=Measured(100.0, 80.0, 125.0), least_nodes=1,
    most_per_s=1000,
)  # fmt: skip
"""1 a node and month, 2 a month for the cluster."""


@pytest.mark.parametrize(("per_s", "cost"), [(0, 3), (100, 3), (100.001, 4), (200, 4), (950, 12)])
def test_nodes_are_a_staircase(per_s, cost):
    assert NODES.cost(per_s) == pytest.approx(cost)


def test_a_credit_pays_no_more_than_there_is():
    line = staircase(
        "n",
        node_per_s=1 / MONTH_S,
        fee_per_s=0,
        capacity=Measured(10),
        least_nodes=0,
        most_per_s=10,
        credit=5,
    )
    assert line.cost(1) == 0.0


def per_use(request_price, free=0.0):
    return pay_per_use(
        "use", vcpu_price=0, gib_price=0, request_price=request_price, vcpu=1, gib=1, billed_s=Measured(0.1),
        free=FreePerMonth(requests=free),
    )  # fmt: skip


def test_what_is_free_each_month_is_not_paid():
    line = per_use(1e-6, free=MONTH_S)
    assert line.cost(1.0) == 0.0
    assert line.cost(3.0) == pytest.approx(2 * MONTH_S * 1e-6)


def test_what_is_kept_is_paid_until_work_takes_all_of_its_time():
    """One vCPU is kept, at 1 a month while it waits; work costs 4 a month, and a request takes 0.1 s."""
    line = pay_per_use(
        "kept", vcpu_price=4 / MONTH_S, gib_price=0, request_price=0, vcpu=1, gib=0, billed_s=Measured(0.1),
        free=FreePerMonth(), waiting=((1.0, 1 / MONTH_S), (0.0, 0.0)),
    )  # fmt: skip
    assert [line.cost(per_s) for per_s in (0, 5, 10, 20)] == pytest.approx([1.0, 2.5, 4.0, 8.0])
    assert 10 in [pytest.approx(step) for step in line.steps]


def test_where_a_line_meets_the_first_stair():
    # 3 a month for the nodes; a request costs 3 ÷ (50/s · month): they meet at 50/s
    found = crossings(per_use(3 / (50 * MONTH_S)), NODES, least_per_s=0.01, most_per_s=90)
    assert [(c.cheaper_below, c.cheaper_above) for c in found] == [("use", "nodes")]
    assert found[0].per_s == pytest.approx(50)


def test_a_staircase_is_crossed_as_often_as_it_is():
    # at 0.036/s·month: 3.24 < 3 … meets stair 1 (3) at 83.3, the jump to 4 at 100, stair 2 (4) at 111.1
    found = crossings(per_use(0.036 / MONTH_S), NODES, least_per_s=1, most_per_s=150)
    assert [c.cheaper_below for c in found] == ["use", "nodes", "use"]
    assert [c.per_s for c in found] == [pytest.approx(at, rel=1e-6) for at in (3 / 0.036, 100, 4 / 0.036)]


def crossed_by_flat(billed_s, *, most_per_s):
    """Where what is paid by use, of which only the billed time is measured, costs as much as 2 a month."""
    use = pay_per_use(
        "use", vcpu_price=1 / MONTH_S, gib_price=0, request_price=0, vcpu=1, gib=0, billed_s=billed_s,
        free=FreePerMonth(),
    )  # fmt: skip
    flat = Line("flat", lambda _: 2.0, lambda _: 2.0, lambda _: 2.0)
    return crossings(use, flat, least_per_s=0.1, most_per_s=most_per_s)


def test_an_interval_of_what_was_measured_is_one_of_the_crossing():
    (found,) = crossed_by_flat(Measured(0.1, 0.08, 0.125), most_per_s=1000)
    assert (found.per_s, found.low, found.high) == (
        pytest.approx(20), pytest.approx(16), pytest.approx(25),
    )  # fmt: skip


def test_an_end_at_which_lines_do_not_cross_leaves_no_interval():
    (found,) = crossed_by_flat(Measured(0.1, 0.001, 0.2), most_per_s=100)
    assert (found.low, found.high) == (None, None)


def test_lines_that_never_meet_have_no_crossing():
    dear = Line("dear", lambda _: 9.0, lambda _: 9.0, lambda _: 9.0)
    cheap = Line("cheap", lambda _: 2.0, lambda _: 2.0, lambda _: 2.0)
    assert crossings(dear, cheap, least_per_s=0.1, most_per_s=10) == []
    found = always(dear, cheap, least_per_s=1 / DAY_S, most_per_s=1e9 / DAY_S)
    assert found == Always("cheap", "dear", "always", 1 / DAY_S, 1e9 / DAY_S, is_sure=True)
    assert always_in_words(found) == "cheap is cheaper than dear at every load from 1 to 1 G requests a day"


def test_a_pair_without_a_crossing_is_only_as_sure_as_what_was_measured():
    dear = Line("dear", lambda _: 9.0, lambda _: 1.0, lambda _: 12.0)
    cheap = Line("cheap", lambda _: 2.0, lambda _: 2.0, lambda _: 2.0)
    said = always_in_words(always(cheap, dear, least_per_s=1, most_per_s=10))
    assert said.startswith("cheap is cheaper than dear at every load")
    assert said.endswith("; at the ends of what was measured they may change places")


def test_lines_that_are_level_somewhere_or_everywhere_are_not_said_to_differ():
    # the same nodes, but one carries 120 where the other carries 100: they differ between 100 and 120 alone
    better = replace(
        NODES, cost=lambda x: 3.0 if x <= 120 else 4.0, low=lambda x: 3.0, high=lambda x: 3.0, name="better"
    )
    ends = {"least_per_s": 1, "most_per_s": 200}
    assert "or costs the same" in always_in_words(always(NODES, better, **ends))
    assert always(NODES, better, **ends).cheaper == "better"
    same = always(NODES, replace(NODES, name="twin"), **ends)
    assert (same.cheaper, same.dearer, same.differs) == ("nodes", "twin", "never")
    assert "nodes and twin cost the same at every load" in always_in_words(same)


def test_a_pair_that_changes_places_has_no_cheaper_one():
    use = per_use(3 / (50 * MONTH_S))
    assert always(use, NODES, least_per_s=0.01, most_per_s=90) is None


def there(**changes):
    """Instances of 1 a month that carry 10/s."""
    some = {
        "vcpu_price": 1 / MONTH_S, "gib_price": 0.0, "vcpu": 1, "gib": 0, "capacity": Measured(10.0), "idle_s": 0,
        "least": 0, "most_per_s": 100, "free": FreePerMonth(),
    }  # fmt: skip
    return while_there("there", **some | changes)


def test_an_instance_that_scales_to_zero_is_paid_while_it_waits():
    line = there(idle_s=899.9)
    assert line.cost(0) == 0.0
    # a request in 900 s, and 900 s there after each: 1 − 1/e of the time
    assert line.cost(1 / 900) == pytest.approx(1 - 1 / math.e)
    assert line.cost(10) == pytest.approx(1.0)
    assert line.cost(25) == pytest.approx(3.0)


def test_an_instance_that_stays_is_always_paid():
    assert there(least=1).cost(0) == pytest.approx(1.0)


def test_free_memory_does_not_pay_for_vcpu():
    # one instance all the time: 1 for its vCPU, and a quarter of the free memory is used
    line = there(least=1, gib_price=1 / MONTH_S, gib=1, free=FreePerMonth(gib_seconds=4 * MONTH_S))
    assert line.cost(0) == pytest.approx(1.0)
    assert there(least=1, free=FreePerMonth(vcpu_seconds=0.25 * MONTH_S)).cost(0) == pytest.approx(0.75)


def test_a_crossing_is_said_by_the_day():
    at = 2.2e6 / DAY_S
    assert sentence(Crossing("run", "gke", at, None, None)) == (
        "run is cheaper than gke below 2.2 M requests a day"
    )
    assert sentence(Crossing("run", "gke", at, 0.9 * at, 1.2 * at)).endswith("a day (1.98 M to 2.64 M)")
