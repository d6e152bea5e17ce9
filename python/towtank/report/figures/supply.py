"""Supply against demand over time: ready instances, how many were needed, and how sure that is."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base, steps
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.text import clean

LINES = ("supply", "demand")
_BAND = ("demand_low", "demand_high")


def supply(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure: a plot for each treatment with a calibration, of its first run; None without any."""
    frame = _shown(analysis.scaling, names)
    if frame.empty:
        return None
    panels, more = base.of_treatments(frame.treatment)
    frame = frame[frame.treatment.isin(panels)]
    lines, bounds = frame[frame.metric.isin(LINES)], _bounds(frame)
    return base.build(
        id="supply-figure",
        title="Supply against demand",
        caption="Ready instances, and the fewest fixed replicas that held the objectives at the intended load, in the "
        "first run of each treatment. The shade is between replicas of which fewer are sure to fail and those that "
        f"are sure to hold.{more}",
        alt_text=f"Ready and needed instances over time for {', '.join(panels)}.",
        draw=lambda layout: steps.draw(
            layout,
            panels,
            lines,
            dataset="supply",
            metrics=LINES,
            titled=len(names.by_id) > 1,
            band=("demand_bounds", *_BAND),
        ),
        datasets={
            "supply": lines[["treatment", "metric", "t_s", "value"]],
            "demand_bounds": bounds,
        },
    )


def _shown(series: pd.DataFrame, names: Names) -> pd.DataFrame:
    """First run of each treatment that has a demand."""
    parts = []
    for treatment_id in names.by_id if not series.empty else ():
        mine = series[(series.treatment_id == treatment_id) & series.value.notna()]
        with_demand = mine[mine.metric == "demand"]
        if not with_demand.empty:
            first = mine[mine.run_id == with_demand.run_id.iloc[0]]
            ends = float(with_demand.t_s.min()), float(with_demand.t_s.max())
            parts.append(_within(first, ends).assign(treatment=clean(names[treatment_id].short)))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["treatment", "metric", "t_s", "value"])


def _within(series: pd.DataFrame, ends: tuple[float, float]) -> pd.DataFrame:
    """Steps between two instants; what held at the first begins there, and what was known last holds to the second."""
    begin_s, end_s = ends
    parts = []
    for _, one in series[series.t_s <= end_s].sort_values("t_s", kind="stable").groupby("metric", sort=False):
        inside = one.assign(t_s=one.t_s.clip(lower=begin_s)).drop_duplicates("t_s", keep="last")
        parts += [inside, inside.tail(1).assign(t_s=end_s)]
    return pd.concat(parts, ignore_index=True).drop_duplicates(["metric", "t_s"], keep="last")


def _bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """Both bounds at every instant at which one of them changes."""
    parts = []
    for treatment, mine in frame[frame.metric.isin(_BAND)].groupby("treatment", sort=False):
        wide = (
            mine.pivot_table(index="t_s", columns="metric", values="value", aggfunc="last").ffill().dropna()
        )
        if set(_BAND) <= set(wide.columns):
            parts.append(wide.reset_index().assign(treatment=treatment))
    columns = ["treatment", "t_s", *_BAND]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
