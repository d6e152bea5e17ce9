import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.analysis.model import Comparison, Estimate, Quantity
from towtank.report import values
from towtank.variables import variable

P95, GOODPUT, MEMORY = variable("p95"), variable("goodput"), variable("memory_bytes")
RATIO = Comparison(
    "p95", "b", "a", True, "log", 8, 0.62, 0.55, 0.7, 0.95, 0.001, 0.004, None, "better", "", "t"
)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("p95", 0.01234, "12.3 ms"),
        ("p95", 4.0, "4 s"),
        ("goodput", 0.9991, "99.91 %"),
        ("goodput", 1.0, "100 %"),
        ("goodput", 0.999999, "> 99.99 %"),
        ("error_ratio", 0.00001, "< 0.01 %"),
        ("cpu_cores", 0.4321, "0.432 cores"),
        ("memory_bytes", 64 * 2**20, "64 MiB"),
        ("throughput", 71.43, "71.4 /s"),
        ("bytes_in_per_s", 2048.0, "2 KiB/s"),
    ],
)
def test_values_carry_units_and_sensible_digits(name, value, shown):
    assert values.show(variable(name), value) == shown


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_to_certainty(ratio):
    text = values.share(ratio)
    assert (text == "100 %") == (ratio == 1.0 or ratio * 100 == 100.0)
    assert (text == "0 %") == (ratio * 100 == 0)


def test_censored_and_unknown_values_say_so():
    assert values.quantity(P95, Quantity(5.0, above=True)).text == "> 5 s"
    assert values.quantity(P95, Quantity(5.0, above=True)).sort == math.inf
    unknown = values.quantity(P95, Quantity(None, reason="no request was due"))
    assert (unknown.text, unknown.note) == ("–", "no request was due")
    assert values.quantity(P95, None).note == "not measured"


def test_an_estimate_never_stands_without_its_spread_or_a_reason():
    whole = Estimate("p95", 0.0126, 0.0121, 0.0134, 8, 0.95, "t")
    assert values.estimate(whole).detail == "12.1–13.4 ms"
    one = values.estimate(
        replace(whole, low=None, high=None, n=1, reason="one run: its variation is unknown")
    )
    assert (one.detail, one.note) == ("", "one run: its variation is unknown")
    same = values.estimate(
        replace(whole, low=None, high=None, method="constant", reason="the same in all 8 runs")
    )
    assert same.detail == "in every run"
    bound = values.estimate(replace(whole, low=None, high=None, above=True, reason="2 of 8 runs lie above"))
    assert (bound.text, bound.note) == ("> 12.6 ms", "2 of 8 runs lie above")


@pytest.mark.parametrize(
    ("var", "low", "high", "shown"),
    [
        (P95, 0.9, 1.2, "900 ms – 1.2 s"),
        (GOODPUT, 0.93, 1.004, "93–100 %"),
        (P95, -0.001, 0.003, "0 s – 3 ms"),
        (MEMORY, 61 * 2**20, 61 * 2**20 + 10, "± 5 B"),
    ],
)
def test_intervals(var, low, high, shown):
    assert values.interval(var, low, high) == shown


def test_effects_read_alike_at_both_ends():
    assert values.effect(RATIO, 0.62) == "−38.0 %"
    assert values.effect_interval(RATIO) == "−45.0 … −30.0 %"
    slower = replace(RATIO, estimate=6.94, low=1.5, high=9.0)
    assert values.effect_interval(slower) == "× 1.5 … × 9"
    share = replace(RATIO, scale="difference", estimate=-0.033, low=-0.08, high=0.021)
    assert values.effect_interval(share) == "−8.0 … +2.1 points"


def test_open_ends_are_said_in_words():
    assert values.effect_interval(replace(RATIO, low=None)) == "below −30.0 %"
    assert values.effect_interval(replace(RATIO, high=None)) == "above −45.0 %"
    assert values.effect_interval(replace(RATIO, low=None, high=None)) == ""


@pytest.mark.parametrize(("p", "shown"), [(None, "–"), (0.0004, "< 0.001"), (0.0123, "0.012"), (1.0, "1")])
def test_p_values(p, shown):
    assert values.p_value(p) == shown


def test_an_unknown_variable_of_a_later_version_is_shown_plainly():
    assert values.known("jitter").title == "jitter"
    assert values.show(values.known("jitter"), 3.0) == "3"
