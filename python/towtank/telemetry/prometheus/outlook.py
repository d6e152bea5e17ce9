"""What can be known before the first run: does Prometheus answer, is each query one, does it give anything now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from towtank.errors import TelemetryError
from towtank.telemetry.base import Outlook
from towtank.telemetry.http.client import told
from towtank.telemetry.prometheus.answers import Result, differing_labels, instance_name
from towtank.telemetry.prometheus.api import Prometheus, QueryRefused
from towtank.telemetry.prometheus.options import PrometheusOptions, Query
from towtank.units import format_duration

NEEDED = {"vector", "scalar"}


def look_ahead(options: PrometheusOptions, root: Path, interval_s: float) -> Outlook:
    """Ask everything once."""
    problems: list[str] = []
    remarks: list[str] = []
    try:
        api = Prometheus(options, root)
    except TelemetryError as error:
        return Outlook((told(error),))
    try:
        api.clock()
        for name, query in options.queries.items():
            try:
                result = api.now(query.query)
            except QueryRefused as error:
                problems.append(f"{name}: {error.message}")
                continue
            problems += [f"{name}: {one}" for one in _wrong(result, query, options.most_series)]
            if result.kind in NEEDED and not result.series:
                remarks.append(
                    f"{name} gives no value now; right if what it asks for is only deployed by a run: {query.query!r}"
                )
        remarks += _coarse(api.scrape_intervals(), interval_s)
    except TelemetryError as error:  # the server itself: the other queries would say the same
        problems.append(told(error))
    finally:
        api.close()
    return Outlook(tuple(problems), tuple(remarks))


def _wrong(result: Result, query: Query, most_series: int) -> Iterator[str]:
    """What cannot become samples."""
    if result.kind not in NEEDED:
        what = "a range of values for each series" if result.kind == "matrix" else f"a {result.kind}"
        yield f"{query.query!r} gives {what}; needed is one value a series, such as rate(…) or avg_over_time(…)"
        return
    if len(result.series) > most_series:
        yield (
            f"{query.query!r} gives {len(result.series)} series; allowed are {most_series}: aggregate with sum by (…), "
            "or raise `most_series`"
        )
        return
    named: dict[str, int] = {}
    for one in result.series:
        name = instance_name(one.labels, query.instance)
        named[name] = named.get(name, 0) + 1
    alike = sum(number for number in named.values() if number > 1)
    if alike:
        by = ", ".join(query.instance) or "nothing"
        others = [label for label in differing_labels(result.series) if label not in query.instance]
        yield (
            f"{alike} series of {query.query!r} cannot be told apart by {by}; they differ in "
            f"{', '.join(others[:6]) or 'nothing else'}: name labels in `instance`, or aggregate"
        )


def _coarse(intervals: dict[str, float], interval_s: float) -> Iterator[str]:
    """Say where values are repeated because they are asked for more often than they are taken."""
    slow = {job: every_s for job, every_s in intervals.items() if every_s > interval_s}
    if slow:
        jobs = ", ".join(
            f"{job} every {format_duration(every_s)}" for job, every_s in sorted(slow.items())[:6]
        )
        yield (
            f"values are asked for every {format_duration(interval_s)}, but scraped more rarely ({jobs}): "
            "in between, the last one is repeated"
        )
