"""Clocks of two machines: bounds that always hold the truth, and searches that end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.clock_relation import EDGE_ENOUGH_NS, NS_PER_S, ClockRelation, OffsetBounds, Ticking, search_edge


@dataclass
class TwoClocks:
    """Our clock, another one with an offset and a drift, and a network in between."""

    offset_ns: int
    rng: random.Random
    drift_ppm: float = 0.0
    slowest_ns: int = 2_000_000
    now_ns: int = 5_000_000_000
    questions: int = 0
    begun_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun_ns = self.now_ns

    def there_ns(self) -> int:
        drift = (self.now_ns - self.begun_ns) * self.drift_ppm / 1e6
        return self.now_ns + self.offset_ns + round(drift)

    def ask_date(self) -> OffsetBounds:
        self.questions += 1
        sent = self.now_ns
        self.now_ns += self.rng.randrange(50_000, self.slowest_ns)
        date_ns = self.there_ns() // NS_PER_S * NS_PER_S
        self.now_ns += self.rng.randrange(50_000, self.slowest_ns)
        return OffsetBounds.of_exchange(sent, date_ns, date_ns, self.now_ns, resolution_ns=NS_PER_S)

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S) + self.rng.randrange(0, 300_000)

    def search(self, known: OffsetBounds | None = None) -> OffsetBounds:
        return search_edge(self.ask_date, known=known, clock=Ticking(lambda: self.now_ns, self.sleep))


def test_four_timestamps_bound_the_offset_by_the_round_trip() -> None:
    """Sent at 100, there from 1150 to 1160, back at 130: 15 there, 10 of work, 5 back, if the clock is 1035 ahead."""
    bounds = OffsetBounds.of_exchange(100, 1150, 1160, 130)
    assert (bounds.low_ns, bounds.high_ns) == (1030, 1050)
    assert bounds.middle_ns == 1040
    assert bounds.uncertainty_ns == 10
    assert bounds.low_ns <= 1035 <= bounds.high_ns


@given(
    st.integers(-(10**18), 10**18), st.integers(0, 2**32), st.sampled_from([200_000, 2_000_000, 80_000_000])
)
def test_an_edge_search_holds_the_truth_and_ends(offset_ns: int, seed: int, slowest_ns: int) -> None:
    clocks = TwoClocks(offset_ns, random.Random(seed), slowest_ns=slowest_ns)
    bounds = clocks.search()
    assert bounds.low_ns <= offset_ns <= bounds.high_ns
    assert clocks.now_ns - clocks.begun_ns < 12 * NS_PER_S
    assert clocks.questions <= 60
    assert bounds.high_ns - bounds.low_ns <= max(EDGE_ENOUGH_NS, 4 * slowest_ns)


def test_a_second_search_is_short() -> None:
    clocks = TwoClocks(-7_123_456_789, random.Random(1), drift_ppm=100)
    first = clocks.search()
    clocks.now_ns += 30 * NS_PER_S
    begun_ns, asked = clocks.now_ns, clocks.questions
    second = clocks.search(known=first)
    true_ns = clocks.there_ns() - clocks.now_ns
    assert second.low_ns <= true_ns <= second.high_ns
    assert clocks.now_ns - begun_ns < 3 * NS_PER_S
    assert clocks.questions - asked < 20


@given(
    st.integers(0, 2**32), st.sampled_from([200_000, 2_000_000, 80_000_000]), st.integers(-(10**10), 10**10)
)
def test_a_second_search_finds_every_step_of_the_clock(seed: int, slowest_ns: int, step_ns: int) -> None:
    clocks = TwoClocks(7_000_234_567_890, random.Random(seed), slowest_ns=slowest_ns)
    relation = ClockRelation("test")
    relation.add(clocks.search())
    clocks.offset_ns += step_ns
    clocks.now_ns += 30 * NS_PER_S
    relation.add(clocks.search(known=relation.last))
    last = relation.last
    assert last is not None
    assert last.low_ns <= clocks.offset_ns <= last.high_ns
    assert last.high_ns - last.low_ns <= max(EDGE_ENOUGH_NS, 4 * slowest_ns)
    if abs(step_ns) > 15_000_000 + 16 * max(EDGE_ENOUGH_NS, slowest_ns):
        assert relation.step_ns > 0


@pytest.mark.parametrize("step_s", [-0.8, -0.3, 0.05, 0.3, 0.8])
def test_steps_of_less_than_a_second_are_told(step_s: float) -> None:
    """One answer with a whole second contradicts none of them."""
    clocks = TwoClocks(7_000_234_567_890, random.Random(1), slowest_ns=200_000)
    relation = ClockRelation("test")
    relation.add(clocks.search())
    clocks.offset_ns += round(step_s * NS_PER_S)
    clocks.now_ns += 30 * NS_PER_S
    relation.add(clocks.search(known=relation.last))
    assert abs(relation.offset_ns(clocks.now_ns) - clocks.offset_ns) < EDGE_ENOUGH_NS
    assert abs(relation.step_ns / NS_PER_S - abs(step_s)) < 0.03


def test_a_clock_that_was_set_in_between_is_believed_anew() -> None:
    old = OffsetBounds(0, 0, 10)
    assert old.narrowed(OffsetBounds(5, 100, 120)) == OffsetBounds(5, 100, 120)
    assert old.narrowed(OffsetBounds(5, 5, 120)) == OffsetBounds(5, 5, 10)


def test_known_bounds_grow_with_time() -> None:
    assert OffsetBounds(0, 0, 10).aged(NS_PER_S) == OffsetBounds(NS_PER_S, -500_000, 500_010)


def test_a_drifting_clock_is_followed_on_a_straight_line() -> None:
    relation = ClockRelation("test")
    relation.add(OffsetBounds(0, 990, 1010))
    relation.add(OffsetBounds(1_000_000_000, 50_990, 51_010))
    assert relation.offset_ns(-5) == 1000
    assert relation.offset_ns(500_000_000) == 26_000
    assert relation.offset_ns(2_000_000_000) == 51_000
    assert relation.uncertainty_ns == 10
    assert relation.step_ns == 0
    assert relation.facts()["drift_ppm"] == 50.0


@given(st.integers(-(10**9), 10**11), st.integers(-(10**18), 10**18), st.integers(-400_000, 400_000))
def test_there_and_back_is_where_it_was(at_ns: int, offset_ns: int, drift_ns: int) -> None:
    relation = ClockRelation("test")
    relation.add(OffsetBounds(0, offset_ns, offset_ns))
    relation.add(OffsetBounds(NS_PER_S, offset_ns + drift_ns, offset_ns + drift_ns))
    assert abs(relation.here_ns(relation.there_ns(at_ns)) - at_ns) <= 2


def test_a_step_is_told_and_makes_times_uncertain() -> None:
    relation = ClockRelation("test")
    relation.add(OffsetBounds(0, -1000, 1000))
    relation.add(OffsetBounds(NS_PER_S, 2 * NS_PER_S - 1000, 2 * NS_PER_S + 1000))
    assert relation.step_ns == 2 * NS_PER_S - 2000 - 500_000
    assert relation.uncertainty_ns == 1000 + 2 * NS_PER_S
    assert relation.facts()["drift_ppm"] is None, "a step is no drift"


@pytest.mark.parametrize("stepped_at_s", [0.01, 0.5, 0.99])
def test_times_about_a_step_are_as_uncertain_as_is_told(stepped_at_s: float) -> None:
    relation = ClockRelation("test")
    relation.add(OffsetBounds(0, -1000, 1000))
    relation.add(OffsetBounds(NS_PER_S, 300_000_000 - 1000, 300_000_000 + 1000))
    for at_s in (stepped_at_s - 0.001, stepped_at_s + 0.001):
        true_ns = 300_000_000 if at_s > stepped_at_s else 0
        assert abs(relation.offset_ns(round(at_s * NS_PER_S)) - true_ns) <= relation.uncertainty_ns


def test_nothing_is_converted_before_anything_is_known() -> None:
    relation = ClockRelation("test")
    assert relation.facts() == {"method": "test", "readings": 0}
    with pytest.raises(ValueError, match="nothing is known of the other clock"):
        relation.there_ns(0)
