"""Where time went: the latency of median and of slow requests as stacked bars, a part for each hop."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd

from towtank.analysis.hops import BEFORE, OTHER, OUTSIDE, SPAN
from towtank.analysis.model import ExperimentAnalysis
from towtank.report import hops as called
from towtank.report.figures import base, stacked
from towtank.report.hops import Bar, Part
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import HOPS_LIGHT, LIGHT
from towtank.report.text import clean, listed, shorten

MOST_ROWS = 24
"""Bars; treatments and steps beyond them are in the table."""
LONGEST_HOP = 38
LONGEST_ROW = 44
_OTHERS = (OTHER, called.WORDS[OTHER])


def hops(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure; nothing to show where no spans were kept."""
    found = called.parts(analysis, names)
    if not found:
        return None
    several = len({part.bar.step for part in found}) > 1
    bars = list(dict.fromkeys(part.bar for part in found))
    left, bars = max(0, len(bars) - MOST_ROWS), bars[:MOST_ROWS]
    label = {bar: _row(names, bar, several=several) for bar in bars}
    drawn = [part for part in found if part.bar in label]
    legend = _legend(drawn)
    colors = dict(zip(legend.values(), _colors(legend), strict=True))
    order = list(label.values())
    rows = [
        row
        for bar in bars
        for row in stacked.stack(_lengths([p for p in drawn if p.bar == bar], legend), label[bar], "hop")
    ]
    more = f" {left} further bars are in the table only." if left else ""
    return base.build(
        id="hops",
        title="Where time went, hop by hop",
        caption="Mean self time of each hop in median and in slow requests; below the table stands which these are and "
        f"what the parts mean.{more}",
        alt_text=f"Stacked bars of time by hop. Largest parts: {listed(stacked.largest(rows, order, 'hop'), most=8)}.",
        draw=lambda layout: stacked.draw(
            layout, order, colors, dataset="hops", part="hop", time="mean self time"
        ),
        datasets={"hops": pd.DataFrame(rows), "rows": pd.DataFrame({"bar": order})},
    )


def _row(names: Names, bar: Bar, *, several: bool) -> str:
    parts = [names[bar.treatment_id].short, *([clean(bar.step)] if several else [])]
    return f"{shorten(' · '.join(parts), LONGEST_ROW)}: {bar.group}"


def _legend(drawn: list[Part]) -> dict[tuple[str, str], str]:
    """Kind and hop → what the legend calls it; hops for which there is no colour are left out."""
    weight: dict[tuple[str, str], float] = defaultdict(float)
    for part in drawn:
        weight[part.key] += part.self_s / max(part.latency_s, 1e-9)
    spans = {key for key in weight if key[0] == SPAN}
    shown = set(sorted(spans, key=lambda key: -weight[key])[: len(HOPS_LIGHT)])
    known = list(dict.fromkeys(part.key for part in drawn))
    before, outside = ([key for key in known if key[0] == kind] for kind in (BEFORE, OUTSIDE))
    others = [_OTHERS] if spans - shown or _OTHERS in weight else []
    ordered = [*before, *(key for key in known if key in shown), *others, *outside]
    labels = [shorten(hop, LONGEST_HOP) for _, hop in ordered]
    return {
        key: label if labels.count(label) == 1 else f"{label} ({number})"
        for number, (key, label) in enumerate(zip(ordered, labels, strict=True), 1)
    }


def _colors(legend: dict[tuple[str, str], str]) -> list[str]:
    special = {BEFORE: LIGHT["before"], OTHER: LIGHT["rest"], OUTSIDE: LIGHT["outside"]}
    looks = iter(HOPS_LIGHT)
    return [special[kind] if kind in special else next(looks) for kind, _ in legend]


def _lengths(parts: list[Part], legend: dict[tuple[str, str], str]) -> dict[str, float]:
    """How long each part of one bar is, in the order of the legend."""
    lengths = dict.fromkeys(legend.values(), 0.0)
    for part in parts:
        lengths[legend.get(part.key) or legend[_OTHERS]] += part.self_s
    return lengths
