"""How well supply followed demand: elasticity of each treatment over its runs, or why there is no number."""

from __future__ import annotations

import math

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing
from towtank.report.text import clean
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
    "scale_up_s": ("Up within", "median time from a rise of demand until supply had followed"),
    "scale_down_s": ("Down within", "median time from a fall of demand until supply had followed"),
}
_RATIOS = frozenset({
    "accuracy_under_ratio", "accuracy_over_ratio", "timeshare_under", "timeshare_over", "instability",
})  # fmt: skip


def elasticity(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row for each treatment whose instances were counted; nothing where none were."""
    found = analysis.elasticity
    if found.empty:
        return None
    order = list(dict.fromkeys(found["treatment_id"]))
    if found["value"].isna().all():
        reasons = tuple(
            (_head(names, one), Cell(clean(_reason(found[found["treatment_id"] == one])))) for one in order
        )
        titles = (Column("Treatment"), Column("Why there is no number"))
        return Table("elasticity", "Supply against demand", titles, reasons)
    rows = tuple(
        (_head(names, one), *(_cell(found[found["treatment_id"] == one], metric) for metric in _SHOWN))
        for one in order
    )
    columns = (
        Column("Treatment"),
        *(Column(title, numeric=True, explanation=words) for title, words in _SHOWN.values()),
    )
    remark = (
        "Mean over runs; below it the smallest and largest run, and in brackets the mean at the smallest and largest "
        "demand that the calibration allows. Demand is the fewest fixed replicas that held the objectives at the "
        "intended load."
    )
    return Table("elasticity", "Supply against demand", columns, rows, remark)


def _cell(mine: pd.DataFrame, metric: str) -> Cell:
    rows = mine[mine["metric"] == metric]
    values = rows["value"].dropna().astype(float)
    if values.empty:
        return nothing(_reason(rows))
    parts = [f"{_show(metric, values.min())} to {_show(metric, values.max())}"] if len(values) > 1 else []
    low, high = (rows[bound].astype(float) for bound in ("low", "high"))
    if not low.isna().any() and not high.isna().any() and low.mean() < high.mean():
        parts.append(f"[{_show(metric, low.mean())} to {_show(metric, high.mean())}]")
    note = f"{len(values)} of {len(rows)} runs; {_reason(rows)}" if len(values) < len(rows) else ""
    mean = float(values.mean())
    return Cell(_show(metric, mean), note=clean(note), detail=" ".join(parts), sort=mean)


def _show(metric: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    if metric in _RATIOS:
        return format_ratio(value)
    return format_duration(value) if metric.endswith("_s") else format_number(value)


def _reason(rows: pd.DataFrame) -> str:
    """First reason that any of the rows gives."""
    return next((str(text) for text in rows["reason"] if text), "")


def _head(names: Names, treatment_id: str) -> Cell:
    named = names[treatment_id]
    return Cell(named.label, style=named.style)
