"""What the experiment file names itself to be observed, over time: a row a metric, a column a treatment."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.observed import is_averaged, unit_of
from towtank.report import series
from towtank.report.figures import base, timeseries
from towtank.report.figures.backdrop import Backdrop
from towtank.report.figures.timeplot import TimePlot
from towtank.report.model import Figure
from towtank.report.naming import Named, Names
from towtank.report.text import clean, listed, shorten
from towtank.report.values import between, known, show
from towtank.variables import Variable

MAX_ROWS = 6
"""Metrics of one figure."""
MAX_FIGURES = 6
LONGEST_TITLE = 22
"""Characters of a metric beside its plot, which is 96 px high."""


def observed(analysis: ExperimentAnalysis, names: Names) -> list[Figure]:
    """Build the figures: for each source, six metrics and four treatments at a time."""
    frame = series.observed_bands(analysis)
    if frame.empty:
        return []
    frame = frame[frame.treatment_id.isin(list(names.by_id))]
    wanted = [
        (i, source, tuple(metrics[i : i + MAX_ROWS]), panel, group)
        for source in sorted(set(frame.source))
        for metrics in [sorted(set(frame[frame.source == source].variable))]
        for i in range(0, len(metrics), MAX_ROWS)
        for panel, group in timeseries.groups_of(names)
    ]
    drawn: list[Figure] = []
    left_out: list[str] = []
    # The first metrics of every source go before the next of any.
    for _, source, metrics, panel, group in sorted(wanted, key=lambda one: one[0]):
        ids = [named.id for named in group]
        mine = frame[(frame.source == source) & frame.variable.isin(metrics) & frame.treatment_id.isin(ids)]
        title = f"{source}: {panel}" if len(names.panels) > 1 else source
        if mine.empty:
            continue
        if len(drawn) < MAX_FIGURES:
            drawn.append(_grid(analysis, names, mine, title=title, group=group, number=len(drawn) + 1))
        else:
            left_out += [f"{clean(metric)} ({clean(title)})" for metric in sorted(set(mine.variable))]
    if left_out:
        told = f" Not drawn for want of room: {listed(left_out, most=9)}; `towtank sql` has them all."
        drawn[-1] = replace(drawn[-1], caption=drawn[-1].caption + told)
    return drawn


def _grid(
    analysis: ExperimentAnalysis,
    names: Names,
    mine: pd.DataFrame,
    *,
    title: str,
    group: tuple[Named, ...],
    number: int,
) -> Figure:
    metrics = sorted(set(mine.variable))
    rows = {metric: f"metric-{number}" for number, metric in enumerate(metrics)}
    metric_of = {row: metric for metric, row in rows.items()}
    behind = Backdrop.of(analysis, group, values_end_s=float(mine.end_s.max()))
    spans = {rows[metric]: _span(mine[mine.variable == metric]) for metric in metrics}
    plots = [
        TimePlot(
            row, spans[row], behind, first=metric == metrics[0], last=metric == metrics[-1],
            title=shorten(clean(_words(metric)), LONGEST_TITLE), unit=unit_of(metric),
        )
        for metric, row in rows.items()
    ]  # fmt: skip
    # Filters are expressions: they compare numbers of rows, never names from outside.
    numbered = mine.assign(variable=mine.variable.map(rows))
    shown = [clean(metric) for metric in metrics]
    return base.build(
        id=f"observed-{number}",
        title=f"What was observed over time: {clean(title)}",
        caption=_caption(mine, metrics) + behind.faults_told(),
        alt_text=f"Grid of time series for {listed([n.label for n in group])}: {listed(shown, most=9)}.",
        draw=lambda layout: timeseries.draw(layout, names, group, plots),
        datasets={
            "bands": timeseries.drawable(
                numbered, names, lambda row: spans[row][1], lambda row, value: _say(metric_of[row], value)
            ),
            **behind.datasets(),
        },
    )


def _span(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of an axis that all columns share; 0 is always on it."""
    values = [
        float(v) for v in frame[["mid", "low", "high"]].to_numpy(dtype=float).ravel() if math.isfinite(v)
    ]
    return min([*values, 0.0]) * 1.12, max([*values, 1e-9]) * 1.12


def _words(metric: str) -> str:
    """A metric as the axis calls it: its unit is at the ticks, where there is one to be shown there."""
    unit = unit_of(metric)
    bare = metric.removesuffix(f"_{unit}") if unit in ("s", "ratio", "bytes") else metric
    return bare.replace("_", " ")


def _say(metric: str, value: float) -> str:
    return show(Variable(metric, unit_of(metric), "lower", metric, ""), value)


def _caption(mine: pd.DataFrame, metrics: list[str]) -> str:
    bins = between(known("bin_s"), (mine.end_s - mine.t_s).groupby(mine.treatment_id).first())
    averaged = [metric for metric in metrics if is_averaged(metric)]
    how = "instances are added up"
    if averaged:
        how = (
            "the mean of its instances"
            if len(averaged) == len(metrics)
            else f"{how} ({listed(averaged)}: averaged)"
        )
    return (
        f"Line: the middle run in each {bins} bin; band: lowest to highest run. "
        f"Of each metric {how}. Times are on the run's clock, as exactly as run.json says (telemetry.sources)."
    )
