"""What is measured of another tool at work: its CPU, and how the clocks relate."""

import os
import subprocess
import sys
import time

import pytest

from support.plans import make_plan
from towtank.campaign.cpu_meter import CpuMeter
from towtank.campaign.environment import tool_versions
from towtank.campaign.importing import events_of, spoiling
from towtank.campaign.validity import Observation, judge
from towtank.campaign.wall_clock import WallClock
from towtank.load.importers import Note


def test_clocks_drift_apart_and_the_uncertainty_says_so():
    early, late = WallClock(1_000_000, 500), WallClock(1_004_000, 900)
    whole = early.with_later(late)
    assert whole.offset_ns == 1_002_000
    assert whole.uncertainty_ns == 900 + 2_000


def test_the_offset_maps_the_time_of_day_to_monotonic_time():
    clock = WallClock.read()
    before = time.monotonic_ns()
    mapped = time.time_ns() - clock.offset_ns
    after = time.monotonic_ns()
    slack_ns = clock.uncertainty_ns + 1_000_000  # the time of day may be slewed meanwhile
    assert before - slack_ns <= mapped <= after + slack_ns
    assert clock.uncertainty_ns > 0


def test_cpu_of_children_counts():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**8))'])"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        with CpuMeter(process.pid) as meter:
            process.wait(60)
        before = meter.total_s
    assert before > 0.2
    assert meter.busiest_cores <= (os.cpu_count() or 1) + 0.2


def test_a_process_that_is_gone_has_used_nothing():
    with CpuMeter(2**22 + 1) as meter:
        pass
    assert (meter.total_s, meter.busiest_cores) == (0.0, 0.0)


@pytest.mark.parametrize(("share", "word"), [(0.5, "valid"), (0.85, "suspect"), (0.97, "invalid")])
def test_a_tool_at_the_end_of_its_cores_spoils_the_run(share, word):
    assert judge([Observation("driver_cpu_bound", share)]).instrument == word


def test_what_spoils_is_a_reason_and_the_rest_an_event():
    notes = [Note("a", "less precise", "do this"), Note("b", "wrong", spoils=True)]
    assert [event.kind for event in events_of(notes, "driver")] == ["a"]
    assert judge(spoiling(notes)).instrument == "suspect"


def test_only_workloads_of_other_tools_have_a_tool():
    assert tool_versions(make_plan()) == {}
