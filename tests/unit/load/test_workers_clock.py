"""Relating a worker's clock to ours: what four timestamps say, and how well."""

from __future__ import annotations

import pytest

from towtank.load.workers.clock import SPAN_NS, ClockRelation, Exchange


def exchange(sent_ns, *, offset_ns, there_ns, back_ns, thought_ns=0):
    """What an exchange looks like that took so long each way, with a clock that is so far ahead."""
    received = sent_ns + there_ns + offset_ns
    return Exchange(sent_ns, received, received + thought_ns, sent_ns + there_ns + thought_ns + back_ns)


def test_equal_ways_give_the_offset_and_time_at_the_worker_is_no_way():
    one = exchange(1_000, offset_ns=-7_000_000, there_ns=300, back_ns=300, thought_ns=5_000_000)
    assert (one.offset_ns, one.round_trip_ns) == (-7_000_000, 600)


@pytest.mark.parametrize(("there_ns", "back_ns"), [(0, 900), (900, 0), (100, 800)])
def test_whatever_the_ways_the_offset_is_within_half_of_both(there_ns, back_ns):
    one = exchange(5_000, offset_ns=1_000_000, there_ns=there_ns, back_ns=back_ns)
    assert abs(one.offset_ns - 1_000_000) <= one.round_trip_ns // 2 + 1


def test_the_shortest_way_counts():
    clock = ClockRelation()
    for way_ns in (9_000, 200, 40_000):
        clock.add(exchange(1_000, offset_ns=50, there_ns=way_ns, back_ns=0))
    assert (clock.uncertainty_ns(), len(clock.kept), clock.drift()) == (100, 1, None)
    assert abs(clock.offset_ns() - 50) <= 100


def test_drift_is_known_as_well_as_both_of_its_ends():
    clock = ClockRelation()
    spans = 10
    for span in range(spans + 1):  # 20 parts per million
        at_ns = span * SPAN_NS
        clock.add(exchange(at_ns, offset_ns=round(at_ns * 20e-6), there_ns=1_000_000, back_ns=1_000_000))
    drift = clock.drift()
    assert drift is not None
    assert drift.ppm == pytest.approx(20, abs=1e-3)
    assert drift.uncertainty_ppm == pytest.approx(2e6 / (spans * SPAN_NS) * 1e6)
    assert clock.record() == {
        "offset_us": (spans - (clock.offset_ns() < round(spans * SPAN_NS * 20e-6))) * SPAN_NS * 20e-6 / 1000,
        "uncertainty_us": 1000.0, "round_trip_us": 2000.0, "drift_ppm": 20.0,
        "drift_uncertainty_ppm": pytest.approx(6.667), "exchanges": spans + 1,
    }  # fmt: skip


def test_nothing_is_said_of_a_clock_that_nobody_asked():
    clock = ClockRelation()
    assert clock.record() == {}
    with pytest.raises(ValueError, match="no exchange"):
        clock.offset_ns()
