"""How well supply followed demand: elasticity of each treatment over its runs, or why there is no number."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing, row_head
from towtank.report.text import clean
from towtank.report.values import MINUS
from towtank.units import format_duration, format_number, format_ratio

_SHOWN = {
    "accuracy_under": ("Missing", "mean number of ready instances that were missing"),
    "accuracy_over": ("Too many", "mean number of ready instances beyond what was needed"),
    "accuracy_under_ratio": ("Missing, share", "the same as a share of the demand of that moment"),
    "accuracy_over_ratio": ("Too many, share", "the same as a share of the demand of that moment"),
    "timeshare_under": ("Time short", "share of the measured window with too few instances"),
    "timeshare_over": ("Time beyond", "share of the measured window with too many instances"),
    "instability": ("Unsteady", "share of the seconds in which supply and demand did not move alike"),
    "jitter_per_min": ("Jitter", "how much more supply moved than demand, in instances each minute"),
    "follow_up": ("Up within", "median time from a rise of demand until supply had followed"),
    "follow_down": ("Down within", "median time from a fall of demand until supply had followed"),
}
_RATIOS = frozenset({
    "accuracy_under_ratio", "accuracy_over_ratio", "timeshare_under", "timeshare_over", "instability",
})  # fmt: skip


_OF_TIME = frozenset({"timeshare_under", "timeshare_over", "instability"})
_DURATIONS = frozenset({"follow_up", "follow_down"})
_OF_SPEEDUP = (
    "geometric mean of how many times less the shares missing and too many and the times short and beyond are than the "
    "baseline's; above 1 it follows demand better"
)


def elasticity(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row for each treatment whose instances were counted; nothing where none were."""
    found = analysis.elasticity_means
    if found.empty:
        return None
    order = list(dict.fromkeys(names.in_order(found)["treatment_id"]))
    if found["mean"].isna().all():
        reasons = tuple(
            (row_head(names, one), Cell(clean(_reason(found[found["treatment_id"] == one])))) for one in order
        )
        titles = (Column("Treatment"), Column("Why there is no number"))
        return Table("elasticity", "Supply against demand", titles, reasons)
    faster = {str(row["treatment_id"]): row for row in analysis.elastic_speedups.to_dict("records")}
    rows = tuple(
        (
            row_head(names, one),
            *(
                _cell(found[(found["treatment_id"] == one) & (found["metric"] == metric)], metric)
                for metric in _SHOWN
            ),
            *((_speedup(faster.get(one), names),) if faster else ()),
        )
        for one in order
    )
    columns = (
        Column("Treatment"),
        *(Column(title, numeric=True, explanation=words) for title, words in _SHOWN.values()),
        *((Column("Elastic speedup", numeric=True, explanation=_OF_SPEEDUP),) if faster else ()),
    )
    remark = (
        "Mean over runs with its interval below; in brackets the mean at the smallest and largest demand that the "
        "calibration allows. Demand is the fewest fixed replicas that held the objectives at the intended load."
    )
    return Table("elasticity", "Supply against demand", columns, rows, remark)


def _cell(rows: pd.DataFrame, metric: str) -> Cell:
    if rows.empty or pd.isna(rows["mean"].iloc[0]):
        return nothing(_reason(rows))
    (row,) = rows.to_dict("records")
    parts = [] if pd.isna(row["low"]) else [_between(metric, row["low"], row["high"])]
    if not pd.isna(row["at_least"]) and not pd.isna(row["at_most"]) and row["at_least"] < row["at_most"]:
        parts.append(f"[{_between(metric, row['at_least'], row['at_most'])}]")
    note = f"{row['n']} of {row['runs']} runs; {row['reason']}" if row["n"] < row["runs"] else ""
    return Cell(_show(metric, row["mean"]), note=clean(note), detail=" ".join(parts), sort=row["mean"])


def _between(metric: str, low: float, high: float) -> str:
    """Bounds of a metric, cut at the values that it can take: none but jitter is below 0, no share of time above 1."""
    least = low if metric == "jitter_per_min" else max(0.0, low)
    return f"{_show(metric, least)} to {_show(metric, min(high, 1.0) if metric in _OF_TIME else high)}"


def _speedup(row: dict[Hashable, Any] | None, names: Names) -> Cell:
    if row is None:
        return nothing("the baseline, or compared with none")
    if pd.isna(row["value"]):
        return nothing(str(row["reason"]))
    against = f"against {clean(names.label(str(row['baseline_id'])))}"
    return Cell(format_number(float(row["value"])), note=clean(str(row["reason"])), detail=against)


def _show(metric: str, value: float) -> str:
    if metric in _RATIOS:
        return format_ratio(value)
    return format_duration(value) if metric in _DURATIONS else format_number(value).replace("-", MINUS)


def _reason(rows: pd.DataFrame) -> str:
    """First reason that any of the rows gives."""
    return next((str(text) for text in rows["reason"] if text), "")
