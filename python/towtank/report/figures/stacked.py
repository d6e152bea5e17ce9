"""Times as stacked bars: a bar for each kind of request, a part for each thing that time went to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.style import LIGHT
from towtank.units import format_duration


def stack(lengths: Mapping[str, float], bar: str, part: str) -> list[dict[str, Any]]:
    """Put the parts of one bar end to end, in their order; those that took no time are left out.

    Parameters
    ----------
    lengths : mapping
        What the legend calls a part → its length, s.
    bar : str
        What the bar is called.
    part : str
        Field of the rows that names the part.
    """
    rows: list[dict[str, Any]] = []
    start = 0.0
    for name, length in lengths.items():
        if length > 0:
            shown = format_duration(length)
            rows.append({"bar": bar, part: name, "start": start, "end": start + length, "shown": shown})
            start += length
    return rows


def draw(
    layout: Layout, order: Sequence[str], colors: Mapping[str, str], *, dataset: str, part: str, time: str
) -> Chart:
    """Draw what `stack` made.

    Parameters
    ----------
    layout : Layout
    order : sequence of str
        Bars from top to bottom; the dataset ``rows`` has them in its field ``bar``.
    colors : mapping
        Part → its colour, in the order of the legend.
    dataset : str
        Rows of all bars.
    part : str
        As in `stack`.
    time : str
        What a length is, for the axis and for who points at a part.
    """
    y = alt.Y(
        "bar:N",
        sort=list(order),
        scale=alt.Scale(domain=list(order)),
        axis=None if layout.narrow else base.row_axis(limit=300),
    )
    key = alt.Legend(
        title=None,
        orient="top",
        symbolType="square",
        columns=1 if layout.narrow else 3,
        labelLimit=layout.width // (1 if layout.narrow else 3) - 50,
    )
    axis = base.duration_axis("mean time", tickCount=4 if layout.narrow else 7)
    marks = alt.Chart(base.data(dataset)).mark_bar(stroke=LIGHT["paper"], strokeWidth=1, height=20)
    parts = marks.encode(
        x=alt.X("start:Q", axis=axis, scale=alt.Scale(zero=True)),
        x2="end:Q",
        y=y,
        color=alt.Color(
            f"{part}:N", scale=alt.Scale(domain=list(colors), range=list(colors.values())), legend=key
        ),
        tooltip=[
            alt.Tooltip("bar:N", title="requests"),
            alt.Tooltip(f"{part}:N"),
            alt.Tooltip("shown:N", title=time),
        ],
    )
    left = 6 if layout.narrow else min(310, 24 + max(len(name) for name in order) * 7)
    width = layout.plot(left=left, right=20)
    if not layout.narrow:
        return alt.layer(parts, width=width, height=alt.Step(34))
    text = alt.Chart(base.data("rows")).mark_text(align="left", dy=-20, fontSize=12)
    return alt.layer(parts, text.encode(x=alt.value(0), y=y, text="bar:N"), width=width, height=alt.Step(52))


def largest(rows: Sequence[Mapping[str, Any]], order: Sequence[str], part: str) -> list[str]:
    """The longest part of each bar, in words."""
    words = []
    for bar in order:
        mine = [row for row in rows if row["bar"] == bar]
        if mine:
            first = max(mine, key=lambda row: float(row["end"] - row["start"]))
            words.append(f"{bar} {first[part]} {first['shown']}")
    return words
