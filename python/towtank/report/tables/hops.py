"""Where time went: a row a hop, median requests beside slow ones."""

from __future__ import annotations

from towtank.analysis.hops import MEDIAN, SLOW, SPAN
from towtank.analysis.model import ExperimentAnalysis
from towtank.report import hops as called
from towtank.report.hops import Bar, Part
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import row_head
from towtank.report.text import clean
from towtank.report.values import NOTHING, count, share
from towtank.units import format_duration, format_number

_SHARE = "mean self time in them; below it, its share of their latency"
COLUMNS = (
    Column("Hop"),
    Column("Treatment"),
    Column("Step"),
    Column("Median requests", numeric=True, explanation=_SHARE),
    Column("Slow requests", numeric=True, explanation=_SHARE),
    Column(
        "Spans", numeric=True, explanation="spans of this hop in a slow request, on average", optional=True
    ),
)


def hops(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Mean self time of each hop, for median and for slow requests of every treatment and step."""
    found = called.parts(analysis, names)
    if not found:
        return None
    rows: list[tuple[Cell, ...]] = []
    for treatment, step in dict.fromkeys((part.bar.treatment_id, part.bar.step) for part in found):
        head = row_head(names, treatment), Cell(clean(step))
        median, slow = (
            {part.key: part for part in found if part.bar == Bar(treatment, step, group)}
            for group in (MEDIAN, SLOW)
        )
        rows.append((Cell("latency"), *head, _latency(median), _latency(slow), Cell(NOTHING, tone="muted")))
        rows += [
            (Cell(key[1]), *head, _self(median.get(key)), _self(slow.get(key)), _spans(slow.get(key)))
            for key in _merged(median, slow)
        ]
    remark = f"{called.remark(found)} {called.EXPLAINED}"
    return Table("hops-table", "Where time went, hop by hop", COLUMNS, tuple(rows), remark)


def _merged(median: dict[tuple[str, str], Part], slow: dict[tuple[str, str], Part]) -> list[tuple[str, str]]:
    """Hops of both, in the order of the slow requests; what only median ones have comes just before what is outside."""
    keys = list(slow)
    return [*keys[:-1], *(key for key in median if key not in slow), *keys[-1:]]


def _latency(group: dict[tuple[str, str], Part]) -> Cell:
    part = next(iter(group.values()))
    detail = f"{count(part.requests)} {'request' if part.requests == 1 else 'requests'}"
    return Cell(format_duration(part.latency_s), detail=detail, sort=part.latency_s)


def _self(part: Part | None) -> Cell:
    if part is None:
        return Cell(NOTHING, note="no such span in these requests", tone="muted")
    detail = share(part.self_s / part.latency_s) if part.latency_s > 0 else ""
    return Cell(format_duration(part.self_s) if part.self_s > 0 else "0", detail=detail, sort=part.self_s)


def _spans(part: Part | None) -> Cell:
    if part is None or part.kind != SPAN:
        return Cell(NOTHING, tone="muted")
    return Cell(format_number(part.spans), sort=part.spans)
