"""How much the instances of a run logged when: samples on the run clock, and bursts as events.

Logging costs CPU, disk and, in a cloud, money by the byte. So the bytes are counted whether they were kept or not.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from towtank.clock import RunClock
from towtank.store.log_lines import TimedLog
from towtank.store.run_record import LOGGED_IN_DRIVE, LOGGED_IN_WINDOW, Window
from towtank.telemetry.base import Event, Sample
from towtank.units import format_bytes, format_number

SOURCE = "logs"
METRIC = "logged_bytes_per_s"
BIN_US = 1_000_000
LEAST_BURST_BYTES = 64 * 1024
"""In a second; less is no load for anybody."""
BURST_TIMES = 10.0
"""A second with so many times the bytes of the median second is a burst."""
MOST_BURSTS = 20
"""Events of one instance; a program that logs in bursts all the time is known by then."""


def logged(logs: Sequence[TimedLog], clock: RunClock, end_us: int) -> tuple[list[Sample], list[Event]]:
    """Bytes logged in each second of the load by each instance, and its bursts.

    An instance that logged nothing then has no samples: thousands of silent pods would be most of a run's samples. How
    much each logged in all is among the facts of the run's logs.

    Parameters
    ----------
    logs : sequence of TimedLog
        The run's.
    clock : RunClock
    end_us : int
        End of the load, which begins at 0.
    """
    samples: list[Sample] = []
    events: list[Event] = []
    for log in logs:
        seconds = _per_second(log, clock, end_us)
        if any(count for _, count in seconds):
            samples += [
                Sample(end_us, SOURCE, log.instance, METRIC, float(count)) for end_us, count in seconds
            ]
        events += _bursts(log.instance, seconds)
    samples.sort(key=lambda sample: sample.t_us)
    return samples, events


def incomplete_logs(logs: Sequence[Mapping[str, Any]], end_us: int) -> list[Event]:
    """Logs of which more may have been written than was counted, as events at the end of the load."""
    advice = json.dumps(
        {
            "advice": "bytes logged are at least what was counted; log less, or follow fewer pods (docs/kubernetes.md)"
        }
    )
    return [
        Event(end_us, SOURCE, "log_incomplete", str(log["instance"]),
              f"the log of {log['instance']} is not known to be whole: {log['incomplete']}", advice)
        for log in logs
        if log.get("incomplete")
    ]  # fmt: skip


def with_window(
    facts: Sequence[Mapping[str, Any]], logs: Sequence[TimedLog], clock: RunClock, window: Window
) -> list[dict[str, Any]]:
    """Facts of logs, with the bytes written in the measured window, and with those since the load began.

    A log whose times are not known has neither.
    Instants of output are known to 50 ms, and to the uncertainty of the clock that they come from.
    """
    begin_ns, start_ns, end_ns = (clock.zero_ns + us * 1000 for us in (0, window.start_us, window.end_us))
    timed = {log.path.name: log for log in logs}
    found = []
    for one in facts:
        log = timed.get(str(one["file"]))
        more: dict[str, int] = {}
        if log is not None:
            by_end = log.bytes_at(end_ns)
            more[LOGGED_IN_WINDOW] = by_end - log.bytes_at(start_ns)
            more[LOGGED_IN_DRIVE] = by_end - log.bytes_at(begin_ns)
        found.append({**one, **more})
    return found


def _per_second(log: TimedLog, clock: RunClock, end_us: int) -> list[tuple[int, int]]:
    """End of each whole second of the load, µs, and the bytes that came in it."""
    edges_us = range(0, end_us + 1, BIN_US)
    counts = [log.bytes_at(clock.zero_ns + edge_us * 1000) for edge_us in edges_us]
    return [
        (edge_us, later - earlier)
        for edge_us, earlier, later in zip(edges_us[1:], counts, counts[1:], strict=False)
    ]


def _bursts(instance: str, seconds: Sequence[tuple[int, int]]) -> Iterator[Event]:
    if not seconds:
        return
    usual = statistics.median(count for _, count in seconds)
    bursts = [(t, n) for t, n in seconds if n >= LEAST_BURST_BYTES and n > BURST_TIMES * usual]
    for end_us, count in bursts[:MOST_BURSTS]:
        times = f", {format_number(count / usual)} times its median second" if usual else ", else nothing"
        second = end_us // BIN_US
        advice = (
            f"see what it wrote then (towtank logs RUN --from {second - 1}s --to {second}s); log less, or expect it "
            "in the latencies of that second"
        )
        detail = {"bytes": count, "usual_bytes": usual, "advice": advice}
        yield Event(
            end_us - BIN_US, SOURCE, "log_burst", instance,
            f"{instance} logged {format_bytes(count)} within a second{times}", json.dumps(detail),
        )  # fmt: skip
