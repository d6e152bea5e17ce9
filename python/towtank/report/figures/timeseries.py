"""What happened over time, on one clock: load, latency, goodput, CPU and memory, a column per treatment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report import series
from towtank.report.figures import base
from towtank.report.figures.backdrop import Backdrop
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.timeplot import LATENCIES, TITLES, TimePlot
from towtank.report.model import Figure
from towtank.report.naming import Named, Names
from towtank.report.text import clean, listed
from towtank.report.values import between, known, show

MAX_COLUMNS = 4
MAX_GRIDS = 6


def timeseries(analysis: ExperimentAnalysis, names: Names) -> list[Figure]:
    """Build one grid per panel and at most four treatments."""
    frame = series.bands(analysis)
    if frame.empty:
        return []
    frame = frame[frame.treatment_id.isin(list(names.by_id))]
    groups = groups_of(names)
    titled = [(panel if len(names.panels) > 1 else "", group) for panel, group in groups]
    figures = [
        _grid(analysis, names, frame, title=title, group=group, number=number if len(titled) > 1 else 0)
        for number, (title, group) in enumerate(titled[:MAX_GRIDS], start=1)
    ]
    drawn = [f for f in figures if f is not None]
    if drawn and len(titled) > MAX_GRIDS:
        left_out = [named.label for _, group in titled[MAX_GRIDS:] for named in group]
        note = f" Not drawn, to keep the page readable: {listed(left_out)}; `towtank sql` has their numbers."
        drawn[-1] = replace(drawn[-1], caption=drawn[-1].caption + note)
    return drawn


def groups_of(names: Names) -> list[tuple[str, tuple[Named, ...]]]:
    """Panels with the treatments that one grid can show side by side."""
    return [
        (panel, tuple(n for n in names.all if n.panel == panel)[i : i + MAX_COLUMNS])
        for panel in names.panels
        for i in range(0, sum(n.panel == panel for n in names.all), MAX_COLUMNS)
    ]


def _grid(
    analysis: ExperimentAnalysis,
    names: Names,
    frame: pd.DataFrame,
    *,
    title: str,
    group: tuple[Named, ...],
    number: int,
) -> Figure | None:
    mine = frame[frame.treatment_id.isin([n.id for n in group])]
    rows = [r for r in series.ROWS if not _of_row(mine, r).empty]
    if not rows:
        return None
    domains = {r: _domain(mine, r) for r in rows}
    behind = Backdrop.of(analysis, group, values_end_s=float(mine.end_s.max()))
    bursts = bursts_of(analysis, names, group, behind.end_s)
    plots = [
        TimePlot(r, domains[r], behind, first=i == 0, last=i == len(rows) - 1, bursts=bool(bursts))
        for i, r in enumerate(rows)
    ]

    rows_drawn = drawable(mine, names, lambda v: domains[series.row_of(v)][1], _say)
    words = [n.label for n in group]
    return base.build(
        id=f"timeseries-{number}" if number else "timeseries",
        title="What happened over time" + (f": {title}" if title else f" ({number})" if number else ""),
        caption=_caption(analysis, mine, group, behind) + behind.faults_told() + bursts_told(bursts),
        alt_text=f"Grid of time series for {listed(words)}: {listed([TITLES[r] for r in rows], most=9)}. "
        + _peaks(mine, names, group),
        draw=lambda layout: draw(layout, names, group, plots),
        datasets={
            "bands": rows_drawn,
            **behind.datasets(),
            "bursts": pd.DataFrame(bursts, columns=BURST_COLUMNS),
        },
    )


def draw(layout: Layout, names: Names, group: tuple[Named, ...], plots: list[TimePlot]) -> Chart:
    """Arrange plots: a row each, a column for each treatment; on a phone all treatments in one."""
    if layout.narrow:
        return alt.vconcat(*[plot.overlay(names, layout) for plot in plots], spacing=10)
    width = layout.plot(left=80, columns=len(group), gap=14)
    lines = [
        alt.hconcat(
            *[plot.column(names, named, width, leftmost=j == 0) for j, named in enumerate(group)],
            spacing=14,
            bounds="flush",
        )
        for plot in plots
    ]
    return alt.vconcat(*lines, spacing=10)


BURST_COLUMNS = ["treatment", "t", "what"]


def _caption(
    analysis: ExperimentAnalysis, mine: pd.DataFrame, group: tuple[Named, ...], behind: Backdrop
) -> str:
    wanted = {n.id for n in group}
    runs = sorted({t.n_valid for t in analysis.treatments if t.treatment_id in wanted})
    many = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    single = runs == [1]
    bins = between(known("p95"), (mine.end_s - mine.t_s).groupby(mine.treatment_id).first())
    text = (
        f"Line: {'the only run' if single else f'the middle of {many} runs'} in each {bins} bin"
        f"{'.' if single else '; band: lowest to highest run.'} "
        "Time runs from the start of the load, on the same clock for requests and resources. "
        "In the first row, the grey line is requests due, the coloured one requests done, both over whole seconds."
    )
    if (mine.variable == "pods_desired").any():
        text += " In the row of pods, the grey line is the number that was wanted."
    if (mine.variable == "nodes").any():
        text += " In the row of nodes, the grey line is all that are there, Ready or not."
    text += behind.stages_told()
    if (mine[mine.variable.isin(LATENCIES)]["failing"] > 0).any():
        text += " A triangle at the top edge: in some runs this percentile lies among failed requests, beyond any axis."
    return text


def _of_row(frame: pd.DataFrame, row: str) -> pd.DataFrame:
    return frame[frame.variable.map(series.row_of) == row]


def _domain(frame: pd.DataFrame, row: str) -> tuple[float, float]:
    """Return a domain that all columns share: rows compare across treatments at a glance."""
    mine = _of_row(frame, row)
    values = [
        float(v) for v in mine[["mid", "low", "high"]].to_numpy(dtype=float).ravel() if math.isfinite(v)
    ]
    if row in LATENCIES:
        return base.nice_log(values, pad=1.3)
    if row == "goodput":
        least = min(values, default=0.0)
        return next(floor for floor in (0.9, 0.5, 0.0) if least >= floor), 1.0
    return 0.0, max([*values, 1e-9]) * 1.12


def drawable(
    frame: pd.DataFrame,
    names: Names,
    tops: Callable[[str], float],
    say: Callable[[str, float], str],
) -> pd.DataFrame:
    """Values to draw: what lies among the failures reaches to the top edge of its plot."""
    rows: list[dict[str, Any]] = []
    for r in frame.to_dict(orient="records"):
        variable, start, end = str(r["variable"]), float(r["t_s"]), float(r["end_s"])
        mid, low, high = (float(r[k]) for k in ("mid", "low", "high"))
        top = tops(variable)
        named = names[str(r["treatment_id"])]
        rows.append(
            {
                "treatment": named.short,
                "series": named.series,
                "variable": variable,
                "t": start,
                "end": end,
                "at": (start + end) / 2,
                "mid": mid if math.isfinite(mid) else None,
                "low": min(low, top),
                "high": min(high, top),
                "failing": float(r["failing"]),
                "shown": say(variable, mid),
                "range": f"{say(variable, low)} … {say(variable, high)}",
            }
        )
    return alone(pd.DataFrame(rows))


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """With a column `alone`: a value without a neighbour in its series, of which a line shows nothing."""
    if frame.empty:
        return frame
    drawn = frame.mid.notna()
    series_of = [frame[key] for key in ("treatment", "variable")]
    before, after = (
        drawn.groupby(series_of, sort=False).shift(by, fill_value=False).astype(bool) for by in (1, -1)
    )
    return frame.assign(alone=drawn & ~before & ~after)


_MEANS = {
    "requests_per_s": "throughput", "done_per_s": "throughput", "p50_s": "median", "p95_s": "p95",
    "pods_desired": "pods_ready", "nodes": "nodes_ready",
}  # fmt: skip


def _say(variable: str, value: float) -> str:
    if math.isinf(value):
        return "failed"
    return show(known(_MEANS.get(variable, variable)), value)


def bursts_of(
    analysis: ExperimentAnalysis, names: Names, group: tuple[Named, ...], end_s: float
) -> list[dict[str, Any]]:
    """When instances logged far more than usual, in all runs of each treatment."""
    shorts = {named.id: names[named.id].short for named in group}
    bytes_of = known("bytes_logged")
    return [
        {
            "treatment": shorts[one["treatment_id"]],
            "t": one["t_s"],
            "what": clean(f"{show(bytes_of, float(one['bytes']))} by {one['instance']} in {one['run_id']}"),
        }
        for one in analysis.bursts
        if one["treatment_id"] in shorts and 0 <= one["t_s"] <= end_s
    ]


def bursts_told(bursts: list[dict[str, Any]]) -> str:
    """Sentence of a caption; empty without bursts."""
    if not bursts:
        return ""
    return " A triangle at the foot of the first row: a second in which an instance logged over ten times its usual."


def _peaks(frame: pd.DataFrame, names: Names, group: tuple[Named, ...]) -> str:
    words = []
    for named in group:
        p95 = frame[(frame.treatment_id == named.id) & (frame.variable == "p95_s")].reset_index(drop=True)
        if p95.empty:
            continue
        worst = p95.iloc[int(p95["mid"].to_numpy(dtype=float).argmax())]
        words.append(
            f"{names.label(named.id)}: p95 latency of the middle run peaks at "
            f"{_say('p95_s', float(worst['mid']))}, {float(worst['t_s']):g} s after the start"
        )
    return "; ".join(words) + "." if words else ""
