"""The table of reasons: thresholds, axes, and that judging never mixes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.campaign import REASONS, Observation, judge
from towtank.campaign.reasons import EVENT_KINDS, show_value


def test_nothing_observed_is_valid_and_intact():
    verdicts = judge([])
    assert (verdicts.instrument, verdicts.system) == ("valid", "intact")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("engine_late", 9.9, "valid"), ("engine_late", 10.0, "suspect"), ("engine_late", 50.0, "invalid"),
        ("engine_short_of_cpu", 0.06, "suspect"), ("engine_cpu_bound", 0.96, "invalid"),
        ("records_lost", 0, "valid"), ("records_lost", 1, "invalid"), ("debug_build", 1, "invalid"),
        ("telemetry_failed", 1, "suspect"), ("cpu_stolen", 0.05, "suspect"), ("wrong_data_state", 1, "invalid"),
    ],
)  # fmt: skip
def test_instrument_thresholds(name, value, word):
    verdicts = judge([Observation(name, value)])
    assert (verdicts.instrument, verdicts.system) == (word, "intact")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("goodput_low", 1.0, "intact"), ("goodput_low", 0.949, "degraded"), ("goodput_low", 0.49, "collapsed"),
        ("crashed", 0.5, "degraded"), ("crashed", 1.0, "collapsed"), ("server_errors", 0.01, "degraded"),
        ("never_answered", 1, "collapsed"), ("restarted", 3, "degraded"),
    ],
)  # fmt: skip
def test_system_thresholds(name, value, word):
    verdicts = judge([Observation(name, value)])
    assert (verdicts.instrument, verdicts.system) == ("valid", word)


def test_an_axis_is_as_bad_as_its_worst_reason_which_comes_first():
    verdicts = judge([Observation("cpu_stolen", 0.03), Observation("engine_late", 99.0, "in thread 0")])
    assert verdicts.instrument == "invalid"
    assert [reason.name for reason in verdicts.instrument_reasons] == ["engine_late", "cpu_stolen"]
    worst = verdicts.instrument_reasons[0]
    assert worst.message == "the engine picked requests up late: lag p99 99 ms (limit 50 ms): in thread 0"
    assert worst.threshold == 50.0
    assert worst.advice


def test_every_reason_has_words_and_a_threshold():
    for name, kind in REASONS.items():
        assert name == kind.name
        assert kind.mild is not None or kind.severe is not None
        assert kind.message
        assert kind.measures
        assert kind.advice
        assert set(EVENT_KINDS) <= set(REASONS)


@pytest.mark.parametrize("name", ["template_failed", "engine_out_of_resources"])
def test_requests_that_the_instrument_did_not_send_are_not_the_systems_failure(name):
    verdicts = judge([Observation("goodput_low", 0.1), Observation(name, 1), Observation("crashed", 1.0)])
    assert verdicts.instrument == "invalid"
    assert [reason.name for reason in verdicts.system_reasons] == ["crashed"]


def test_without_its_platform_nothing_is_said_of_the_system():
    system = [
        Observation(k.name, 0.0 if k.low_is_bad else 1.0) for k in REASONS.values() if k.axis == "system"
    ]
    assert judge(system).system == "collapsed"
    lost = judge([*system, Observation("platform_lost")])
    assert (lost.instrument, lost.system, lost.system_reasons) == ("invalid", "intact", ())


def test_only_system_reasons_are_hidden():
    for kind in REASONS.values():
        assert all(REASONS[name].axis == "system" for name in kind.hides)


def test_an_unknown_name_is_a_fault_of_the_program():
    with pytest.raises(KeyError):
        judge([Observation("engine_tired")])


@given(st.sampled_from(sorted(REASONS)), st.floats(0, 1e6), st.floats(0, 1e6))
def test_worse_values_are_never_judged_milder(name, one, other):
    kind = REASONS[name]
    low, high = sorted((one, other), reverse=kind.low_is_bad)
    assert kind.judge(low)[0] <= kind.judge(high)[0]


@given(st.floats(0, 1))
def test_shares_are_shown_as_percentages(value):
    assert show_value(REASONS["goodput_low"], value).endswith(" %")
