"""How hops are called in the table and the figure, and which parts belong together."""

from __future__ import annotations

from typing import NamedTuple

from towtank.analysis.hops import BEFORE, MEDIAN, OTHER, OUTSIDE, SPAN
from towtank.analysis.model import ExperimentAnalysis
from towtank.report.naming import Names
from towtank.report.text import clean

WORDS = {BEFORE: "before it was sent", OUTSIDE: "outside all spans", OTHER: "other spans"}
"""Parts that are no hop → what they are called."""
EXPLAINED = (
    "Self time of a span is its duration without what its children cover. “Outside all spans” is what lies between "
    "sending a request and its answer and outside its outermost span: network, queues, the client; “before it was "
    "sent” is time in the load generator and waiting for a connection. Spans that run side by side count each, so that "
    "the sum may be more than the latency."
)


class Bar(NamedTuple):
    """The requests that are taken together."""

    treatment_id: str
    step: str
    group: str


class Part(NamedTuple):
    """One hop of these requests, or what lies before and outside."""

    bar: Bar
    kind: str
    hop: str
    """What it is called."""
    self_s: float
    spans: float
    requests: int
    latency_s: float
    percentile: int

    @property
    def key(self) -> tuple[str, str]:
        """Tells hops apart, and from what only is called so."""
        return self.kind, self.hop


def parts(analysis: ExperimentAnalysis, names: Names) -> list[Part]:
    """All parts: treatments in the order of the file, the median requests of a step before its slow ones."""
    if analysis.hops.empty:
        return []
    columns = ("treatment_id", "step", "group", "kind", "service", "name", "self_s", "spans", "requests",
               "latency_s", "percentile")  # fmt: skip
    found = [
        Part(
            Bar(str(treatment), str(step), str(group)), str(kind), _called(str(kind), str(service), str(name)),
            float(self_s), float(spans), int(requests), float(latency_s), int(percentile),
        )
        for treatment, step, group, kind, service, name, self_s, spans, requests, latency_s, percentile in zip(
            *(analysis.hops[column].tolist() for column in columns), strict=True
        )
        if treatment in names.by_id
    ]  # fmt: skip
    place = {treatment: number for number, treatment in enumerate(names.by_id)}
    steps = {step: number for number, step in enumerate(dict.fromkeys(part.bar.step for part in found))}
    return sorted(found, key=lambda p: (place[p.bar.treatment_id], steps[p.bar.step], p.bar.group != MEDIAN))


def _called(kind: str, service: str, name: str) -> str:
    return f"{clean(service)} · {clean(name)}" if kind == SPAN else WORDS[kind]


def remark(found: list[Part]) -> str:
    """Which requests are the median and the slow ones, and how many there are."""
    at = sorted({part.percentile for part in found if part.bar.group != MEDIAN}, reverse=True)
    slow = " or ".join(f"{p}th" for p in at)
    few = "" if at == [99] else " (fewer than 20 lie above the 99th)"
    few = " (the 95th where fewer than 20 lie above the 99th)" if len(at) > 1 else few
    return (
        "Median requests: latency between the 40th and the 60th percentile of the traced requests of their run; slow "
        f"ones: at or above the {slow} percentile{few}. Means over the requests of a group of all valid runs together, "
        f"{_numbers(found, median=True)} median and {_numbers(found, median=False)} slow ones: descriptive, no claim "
        "rests on them."
    )


def _numbers(found: list[Part], *, median: bool) -> str:
    numbers = {part.bar: part.requests for part in found if (part.bar.group == MEDIAN) is median}
    least, most = min(numbers.values(), default=0), max(numbers.values(), default=0)
    return str(least) if least == most else f"{least} to {most}"
