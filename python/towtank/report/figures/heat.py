"""Heat maps: latency over time, the stronger the more requests of that moment took so long."""

from __future__ import annotations

import math
from dataclasses import replace

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base, timeseries
from towtank.report.figures.backdrop import Backdrop
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.timeplot import time_axis
from towtank.report.model import Figure
from towtank.report.naming import Named, Names
from towtank.report.style import LIGHT
from towtank.report.text import listed
from towtank.report.values import between, known, share, show

MAX_FIGURES = 3
LEAST_SHARE = 0.001
"""Of the requests of a moment; what is rarer is not to be seen, and would fill the page with marks."""
FAILED_PX = 14
"""Height of the strip of failed requests above a map."""


def heat(analysis: ExperimentAnalysis, names: Names) -> list[Figure]:
    """Build maps side by side, for four treatments at a time."""
    frame = analysis.heat
    if frame.empty:
        return []
    drawn: list[Figure] = []
    left_out: list[str] = []
    groups = timeseries.groups_of(names)
    for panel, group in groups:
        mine = frame[frame.treatment_id.isin([named.id for named in group])]
        if mine.empty:
            continue
        if len(drawn) == MAX_FIGURES:
            left_out += [named.label for named in group]
            continue
        title = panel if len(names.panels) > 1 else ""
        number = len(drawn) + 1 if len(groups) > 1 else 0
        drawn.append(_maps(analysis, mine, group, title=title, number=number))
    if left_out:
        note = f" Not drawn, to keep the page readable: {listed(left_out)}."
        drawn[-1] = replace(drawn[-1], caption=drawn[-1].caption + note)
    return drawn


def _maps(
    analysis: ExperimentAnalysis, frame: pd.DataFrame, group: tuple[Named, ...], *, title: str, number: int
) -> Figure:
    shown = frame[(frame.share >= LEAST_SHARE) | frame.low_s.isna()]
    answered = shown[shown.low_s.notna() & shown.high_s.map(math.isfinite)]
    failed = shown[shown.low_s.isna()]
    behind = Backdrop.of(analysis, group, values_end_s=float((frame.t_s + frame.bin_s).max()))
    span = (float(answered.low_s.min()), float(answered.high_s.max())) if not answered.empty else (0.001, 1.0)
    there = [named for named in group if (frame.treatment_id == named.id).any()]

    def draw(layout: Layout) -> Chart:
        columns = 1 if layout.narrow else len(there)
        width = layout.plot(left=66, columns=columns, gap=14)
        maps = [
            _map(i, named, span, behind, width=width, left=layout.narrow or i == 0,
                 failing=not failed.empty)
            for i, named in enumerate(there)
        ]  # fmt: skip
        return alt.concat(*maps, columns=columns, spacing=14) if len(maps) > 1 else maps[0]

    bins = between(known("p95"), frame.groupby("treatment_id").bin_s.first())
    strip = " The strip above a map is the share of requests that failed." if not failed.empty else ""
    return base.build(
        id=f"heat-{number}" if number else "heat",
        title="Latency over time" + (f": {title}" if title else ""),
        caption=f"All requests of all valid runs, by when they were due ({bins} bins) and how "
        f"long they took. The stronger the colour, the larger their share of the requests due in that moment; "
        f"cells below {share(LEAST_SHARE)} are left out.{strip}{behind.stages_told()}{behind.faults_told()} "
        "Pooled, descriptive.",
        alt_text=f"Heat maps of latency over time for {listed([n.label for n in there])}. "
        + _words(frame, there),
        draw=draw,
        datasets={
            "heat": _records(answered, there),
            "failed": _records(failed, there),
            "labels": pd.DataFrame({"failed": ["failed"]}),
            **behind.datasets(),
        },
    )


def _map(
    number: int, named: Named, span: tuple[float, float], behind: Backdrop, *,
    width: int, left: bool, failing: bool,
) -> Chart:  # fmt: skip
    hue = LIGHT[f"s{named.style.color}"]
    x = alt.X("t:Q", scale=behind.time(), axis=time_axis(max(3, width // 90)))
    ticks = base.log_ticks(*span)
    axis = base.duration_axis(
        "latency" if left else None, values=ticks, labels=left, minExtent=54 if left else 0
    )
    y = alt.Y("low:Q", scale=alt.Scale(type="log", domain=list(span), nice=False), axis=axis)
    # Shares reach from thousandths to one: their roots are told apart better.
    shade = alt.Opacity("share:Q", scale=alt.Scale(type="sqrt", domain=[0, 1], range=[0.06, 1]), legend=None)
    tooltip = [
        alt.Tooltip("t:Q", title="from (s)", format=".3~r"),
        alt.Tooltip("low:Q", title="took at least (s)", format=".2~r"),
        alt.Tooltip("high:Q", title="and less than (s)", format=".2~r"),
        alt.Tooltip("share:Q", title="share of the moment", format=".2%"),
        alt.Tooltip("n:Q", title="requests", format=","),
    ]
    cells = alt.Chart(base.data("heat")).transform_filter(alt.datum.map == number)
    layers = [
        *behind.shading(width, named=not failing),
        *behind.disturbed(named),
        cells.mark_rect(color=hue).encode(x=x, x2="end:Q", y=y, y2="high:Q", opacity=shade, tooltip=tooltip),
    ]
    if failing:
        # Above the plot, where the axis of latency does not reach; the word is in every map, so that all are as high.
        word = alt.Chart(base.data("labels")).mark_text(
            align="right" if left else "left", color=LIGHT["fail"], fontSize=11.5, opacity=1 if left else 0
        )
        middle = alt.value(-FAILED_PX / 2 - 3)
        layers.append(word.encode(x=alt.value(-6 if left else 0), y=middle, text="failed:N"))
        strip = alt.Chart(base.data("failed")).transform_filter(alt.datum.map == number)
        layers.append(
            strip.mark_rect(color=LIGHT["fail"]).encode(
                x=x, x2="end:Q", y=alt.value(-FAILED_PX - 3), y2=alt.value(-3), opacity=shade, tooltip=tooltip
            )
        )
    head = named.series or named.short
    title = alt.Title(
        head,
        color=hue,
        fontSize=13,
        frame="group",
        offset=FAILED_PX + 12 if failing else 17 if behind.stages else 8,
    )
    return alt.layer(*layers, width=width, height=190, title=title)


def _records(frame: pd.DataFrame, there: list[Named]) -> pd.DataFrame:
    """Cells as numbers only: there are thousands."""
    column = {named.id: number for number, named in enumerate(there)}
    return pd.DataFrame(
        {
            "map": [column[str(t)] for t in frame.treatment_id],
            "t": frame.t_s,
            "end": frame.t_s + frame.bin_s,
            "low": frame.low_s,
            "high": frame.high_s,
            "share": frame.share,
            "n": frame.requests,
        }
    )


def _words(frame: pd.DataFrame, group: list[Named]) -> str:
    """Where most requests were, at first and when it was worst, in words."""
    told = []
    for named in group:
        mine = frame[(frame.treatment_id == named.id) & frame.low_s.notna()]
        if mine.empty:
            told.append(f"{named.label}: no request succeeded")
            continue
        slowest = mine.iloc[int(mine.high_s.to_numpy(dtype=float).argmax())]
        told.append(
            f"{named.label}: the slowest answers took {show(known('p95'), float(slowest.low_s), digits=2)} or more, "
            f"{float(slowest.t_s):g} s after the start"
        )
    return "; ".join(told) + "."
