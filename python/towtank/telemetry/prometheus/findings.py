"""What has to be known about the answers of a run before they are believed, each kind once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from towtank.clock_relation import ClockRelation
from towtank.telemetry.http.clock import step_told
from towtank.telemetry.prometheus.answers import Tally
from towtank.units import format_duration


@dataclass(frozen=True)
class Said:
    """Something to be known about some queries."""

    kind: str
    message: str
    advice: str
    queries: tuple[str, ...] = ()


def findings(
    tallies: Mapping[str, Tally], relation: ClockRelation, step_s: float, end_s: float
) -> Iterator[Said]:
    """What is wrong, or only seems to be right.

    Parameters
    ----------
    tallies : mapping of str to Tally
    relation : ClockRelation
    step_s : float
        Time between two values.
    end_s : float
        When the run ended, by the server's clock.
    """
    yield from _grouped(
        tallies, "query_failed", lambda t: t.failed, "not answered",
        "try the query in Prometheus's own page; a query over many series may need a longer `timeout`",
    )  # fmt: skip
    yield from _grouped(
        tallies, "no_data", lambda t: "" if t.values or t.failed or t.not_numbers else "no value", "gave no value",
        "is the target scraped, and are labels spelt as in Prometheus? rate() needs two scrapes in its range",
    )  # fmt: skip
    yield from _grouped(
        tallies, "stale_data", lambda t: _holes(t, step_s, end_s), "had no value for a while after they had one",
        "its target was gone, or not scraped, at those times: see `up` of it in Prometheus",
    )  # fmt: skip
    yield from _grouped(
        tallies, "not_a_number", lambda t: f"{t.not_numbers} values" if t.not_numbers else "",
        "gave NaN or infinite values, which are left out", "a division by 0 gives these: filter with `and x > 0`",
    )  # fmt: skip
    yield from _grouped(
        tallies, "too_many_series", lambda t: f"{t.too_many} more" if t.too_many else "",
        "gave more series than `most_series`; the others are left out",
        "aggregate (sum by (…)), select fewer, or raise `most_series`",
    )  # fmt: skip
    yield from _grouped(
        tallies, "series_alike", lambda t: f"{t.alike} left out" if t.alike else "",
        "gave several series of the same instance, of which the first is kept",
        "name the labels that tell them apart in `instance`, or aggregate",
    )  # fmt: skip
    yield from _grouped(
        tallies, "server_warned", lambda t: "; ".join(t.warnings), "came with a warning",
        "a store that Prometheus reads from may be missing: values may be too low",
    )  # fmt: skip
    if relation.step_ns:
        yield Said(
            "clock_stepped",
            step_told("Prometheus", relation),
            "let the server's clock settle before measuring",
        )


def _grouped(
    tallies: Mapping[str, Tally], kind: str, what: Callable[[Tally], str], words: str, advice: str
) -> Iterator[Said]:
    cases = {name: found for name, tally in tallies.items() if (found := what(tally))}
    if cases:
        told = "; ".join(f"{name} ({found})" for name, found in cases.items())
        yield Said(kind, f"queries of Prometheus {words}: {told}", advice, tuple(cases))


def _holes(tally: Tally, step_s: float, end_s: float) -> str:
    """How long a query had no value at all after it had one; a single step may be lost to rounding."""
    times = [*sorted(tally.times_s), *([end_s] if tally.times_s else ())]
    holes = [(a, b - a) for a, b in itertools.pairwise(times) if b - a > 2.5 * step_s]
    if not holes:
        return ""
    return f"{format_duration(sum(length for _, length in holes))} in {len(holes)} stretch(es)"
