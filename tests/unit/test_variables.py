"""Response variables: one table that design, campaign, analysis and report agree on."""

from __future__ import annotations

import pytest

from towtank.variables import known_names, own_variable, variable


def test_every_known_name_resolves_to_itself():
    assert all(variable(name).name == name for name in known_names())


def test_percentiles_are_open_ended():
    assert variable("p99.9").percentile == 99.9
    assert variable("p95_ok").successes_only
    assert variable("p95").lower_is_better


@pytest.mark.parametrize("name", ["p", "p100", "p-5", "P95", "latency", "p95_bad", ""])
def test_others_are_unknown(name):
    with pytest.raises(KeyError):
        variable(name)


def test_shares_are_compared_by_difference_and_the_rest_by_ratio():
    for name in known_names():
        assert (variable(name).scale == "difference") == (variable(name).unit == "ratio")


def test_what_follows_from_requests_can_be_asked_of_one_workload():
    found = variable("throughput[shop]")
    assert (found.base, found.workload, found.unit, found.better) == ("throughput", "shop", "per_s", "higher")
    assert variable("bytes_in_per_s[shop]").title == "received (shop)"
    for name in ("cpu_cores[shop]", "memory_bytes[shop]", "collapsed[shop]"):
        with pytest.raises(KeyError):
            variable(name)


def test_percentiles_may_have_decimals():
    assert variable("p99.99").percentile == 99.99
    assert variable("p99.9_ok[shop]").title == "p99.9 latency (successes) (shop)"


@pytest.mark.parametrize(
    ("name", "unit", "title"),
    [
        ("slow_ratio", "ratio", "slow"), ("queue_wait_s", "s", "queue wait"), ("retries", "count", "retries"),
        ("retries_per_s", "per_s", "retries per s"), ("heap_bytes", "bytes", "heap"),
        ("read_bytes_per_s", "bytes_per_s", "read bytes per s"), ("busy_cores", "cores", "busy"),
    ],
)  # fmt: skip
def test_an_own_variable_has_the_unit_that_its_name_ends_in(name, unit, title):
    found = own_variable(name, "higher")
    assert (found.unit, found.title, found.better) == (unit, title, "higher")
    assert variable(name, {name: found}) is found
    with pytest.raises(KeyError):
        variable(name)
