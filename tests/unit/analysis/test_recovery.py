"""What faults did to a run, from planted counts whose answers are known by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from towtank.analysis import recovery
from towtank.store.count_tables import FAULT_BIN_US
from towtank.store.run_record import FaultWindow, Window
from towtank.store.schemas import COUNTS, dictionary_encoded
from towtank.variables import FAULT_VARIABLES

SECOND_US = 1_000_000
PER_CELL = 10
"""100 requests a second."""


class Counts:
    """A run folder that has counts and nothing else."""

    def __init__(self, rows):
        self.rows = rows

    def fault_counts(self):
        columns = list(zip(*self.rows, strict=True)) or [[] for _ in COUNTS.names]
        return pa.table(dict(zip(COUNTS.names, columns, strict=True)), schema=COUNTS).cast(
            dictionary_encoded(COUNTS)
        )


def counts(
    *, seconds=20, failing=(), slow=(), usual_us=5000, slow_us=50_000, per_cell=PER_CELL, failing_share=1.0
):
    """A row for each cell; `failing` and `slow` are stretches of seconds."""
    rows = []
    for cell in range(round(seconds * SECOND_US / FAULT_BIN_US)):
        t_s = cell * FAULT_BIN_US / SECOND_US
        inside = [share for (a, b), share in ((one, failing_share) for one in failing) if a <= t_s < b]
        bad = round(per_cell * inside[0]) if inside else 0
        value = slow_us if any(a <= t_s < b for a, b in slow) else usual_us
        if bad:
            rows.append(("w", "s", "error", True, cell, "latency", 1000, bad))
        if per_cell - bad:
            rows.append(("w", "s", "ok", True, cell, "latency", value, per_cell - bad))
    return Counts(rows)


def values(folder, *begins_s, seconds=20, start_s=0, kind="kill", users_wait=False):
    faults = tuple(
        FaultWindow(kind=kind, planned_us=round(b * SECOND_US), began_us=round(b * SECOND_US))
        for b in begins_s
    )
    window = Window(start_us=start_s * SECOND_US, end_us=seconds * SECOND_US, drained_us=seconds * SECOND_US)
    return recovery.fault_values(faults, window, folder, users_wait=users_wait)


def test_an_outage_of_two_seconds():
    found = values(counts(failing=[(8, 10)]), 8)
    assert found["availability"].value == pytest.approx(1 - 200 / 1200)
    assert found["fault_failures"].value == pytest.approx(200)
    assert found["time_to_recover"].value == pytest.approx(2.0)


def test_slowness_counts_as_much_as_failure():
    found = values(counts(slow=[(8, 11.5)]), 8)
    assert found["availability"].value == 1.0
    assert found["fault_failures"].value == 0.0
    assert found["time_to_recover"].value == pytest.approx(3.5)


@pytest.mark.parametrize(("slow_us", "expected"), [(6100, 0.0), (6300, 3.5)])
def test_the_band_of_latency_is_a_quarter_above_the_99th_percentile(slow_us, expected):
    """p99 before is 5 ms, so that the band ends at 6.25 ms."""
    found = values(counts(slow=[(8, 11.5)], slow_us=slow_us), 8)
    assert found["time_to_recover"].value == pytest.approx(expected)


def test_below_a_millisecond_noise_is_no_slowness():
    found = values(counts(slow=[(8, 11.5)], usual_us=200, slow_us=1100), 8)
    assert found["time_to_recover"].value == 0.0


def test_a_short_calm_is_no_recovery():
    """Well from 9 to 11 only: three seconds must be held."""
    found = values(counts(failing=[(8, 9), (11, 12)]), 8)
    assert found["time_to_recover"].value == pytest.approx(4.0)
    calm = values(counts(failing=[(8, 9), (12.5, 13)]), 8)
    assert calm["time_to_recover"].value == pytest.approx(1.0)


def test_one_that_does_not_recover_is_more_than_what_was_left():
    found = values(counts(failing=[(8, 18)]), 8)
    assert found["time_to_recover"].above
    assert found["time_to_recover"].value == pytest.approx(12.0)
    assert "not recovered" in found["time_to_recover"].reason


def test_nothing_happens_where_there_is_no_fault():
    found = values(counts(), 8, kind="none")
    assert [found[name].value for name in FAULT_VARIABLES] == [1.0, 0.0, 0.0]


def test_failures_from_before_are_not_the_faults_doing():
    """A tenth fails all the time: that is the service, and it is its band."""
    found = values(counts(failing=[(0, 20)], failing_share=0.1), 8)
    assert found["availability"].value == pytest.approx(0.9)
    assert found["fault_failures"].value == pytest.approx(0.0)
    assert found["time_to_recover"].value is None
    assert "among failures" in found["time_to_recover"].reason


@pytest.mark.parametrize("blocked_in", [79, 80])
def test_users_who_wait_are_no_recovery(blocked_in):
    """Twenty users, 400 requests in 100 ms; while the service stands still from 8 to 13 s, nobody asks for anything."""
    rows = [("w", "s", "ok", True, cell, "latency", 5000, 400) for cell in range(300) if not 80 <= cell < 130]
    rows.append(("w", "s", "ok", True, blocked_in, "latency", 5_000_000, 20))
    found = values(Counts(rows), 8, seconds=30, users_wait=True)
    assert found["time_to_recover"].value == pytest.approx(5.0)


def test_a_pause_of_the_schedule_is_no_outage():
    """Open load that makes a pause from 12 to 16 s asks for nothing then."""
    pausing = [row for row in counts().rows if not 120 <= row[4] < 160]
    assert values(Counts(pausing), 8)["time_to_recover"].value == 0.0


def test_the_longest_of_several_faults_counts():
    found = values(counts(failing=[(5, 6), (10, 12)]), 5, 10)
    assert found["time_to_recover"].value == pytest.approx(2.0)
    assert found["fault_failures"].value == pytest.approx(300)


def test_faults_that_follow_closely_do_not_hold_up_each_other():
    """Outages of a second every three: none is well for three seconds before the next, and each is over after one."""
    found = values(counts(failing=[(5, 6), (8, 9), (11, 12)]), 5, 8, 11)
    assert found["time_to_recover"].value == pytest.approx(1.0)
    still = values(counts(failing=[(5, 6), (8, 9), (10.5, 12)]), 5, 8, 11)
    assert still["time_to_recover"].value == pytest.approx(4.0)


def test_without_a_time_before_there_is_no_band():
    early = values(counts(failing=[(0.5, 2)]), 0.5)
    assert early["time_to_recover"].value is None
    assert "before the fault" in early["time_to_recover"].reason
    rare = values(counts(per_cell=0), 8)
    assert rare["time_to_recover"].value is None
    assert all(quantity.reason for quantity in rare.values())


def test_rare_requests_are_looked_at_for_longer():
    """Ten a second: a look takes four seconds, and one slow request in forty is nothing."""
    folder = counts(seconds=60, per_cell=1)
    folder.rows[250] = (*folder.rows[250][:6], 90_000, 1)
    assert values(folder, 20, seconds=60)["time_to_recover"].value == 0.0
    outage = counts(seconds=60, per_cell=1, failing=[(20, 25)])
    assert values(outage, 20, seconds=60)["time_to_recover"].value == pytest.approx(5.0)


def test_a_run_without_faults_says_so():
    found = values(counts())
    assert {quantity.reason for quantity in found.values()} == {"no fault was planned in this run"}
