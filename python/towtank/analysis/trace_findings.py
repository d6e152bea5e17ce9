"""What has to be known of spans before their times are believed: traces that are not whole, spans of nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from towtank.analysis.engine_findings import runs_in_words
from towtank.analysis.hops import RunHops
from towtank.analysis.model import Finding


def trace_findings(runs: Sequence[RunHops]) -> Iterator[Finding]:
    """Findings over all counting runs that have spans."""
    traced = sum(run.traced for run in runs)
    incomplete = [run for run in runs if run.incomplete]
    if incomplete:
        number = sum(run.incomplete for run in incomplete)
        yield Finding(
            "traces_incomplete",
            "warning",
            f"Of {traced} traced requests in {runs_in_words(len(runs))}, {number} have spans whose parent is missing, "
            "or no outermost span; they are left out of the time by hop",
            "Give exporters time (`linger`), let every service on the way pass `traceparent` on and keep what its "
            "parent keeps (a parent-based sampler), and see whether spans were refused.",
            tuple(run.run_id for run in incomplete),
        )
    without = [run for run in runs if run.without_spans]
    if without:
        number = sum(run.without_spans for run in without)
        yield Finding(
            "requests_without_spans",
            "warning",
            f"Of {traced} traced requests in {runs_in_words(len(runs))}, {number} have no span at all: the time by hop "
            "may not stand for them",
            "See whether every instance exports its spans, whether its sampler honours `traceparent`, and whether "
            "spans were refused.",
            tuple(run.run_id for run in without),
        )
    foreign = [run for run in runs if run.foreign_spans]
    if foreign:
        number = sum(run.foreign_spans for run in foreign)
        yield Finding(
            "spans_of_no_request",
            "info",
            f"{number} spans in {runs_in_words(len(foreign))} belong to no traced request: requests without "
            "`traceparent`, probes, work of the application's own, or an earlier run",
            "OTEL_TRACES_SAMPLER=parentbased_always_off keeps an application from tracing what nobody asked for.",
            tuple(run.run_id for run in foreign),
        )
