"""Where the time of cold requests went: stacked bars, a part for each phase of the start of an instance."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.cold_starts import FIRST_BYTE, SENT, STEPS
from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base, stacked
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import HOPS_LIGHT, LIGHT
from towtank.report.tables.cold_starts import phase
from towtank.report.text import listed, shorten

MOST_BARS = 24
"""Bars; treatments beyond them are in the table."""
LONGEST_ROW = 44
_ORDER = (SENT, *STEPS, FIRST_BYTE)


def cold_starts(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure; None where no cold request could be joined to its instance."""
    found = analysis.cold_phases
    if found.empty:
        return None
    kinds = found["kind"].nunique()
    legend = sorted(
        {(str(begin), str(end)) for begin, end in zip(found["begin"], found["end"], strict=True)},
        key=lambda ends: (_ORDER.index(ends[0]), _ORDER.index(ends[1])),
    )
    colors = {phase(*ends): _color(number) for number, ends in enumerate(legend)}
    bars = list(names.in_order(found).groupby(["treatment_id", "kind"], sort=False))
    left, bars = max(0, len(bars) - MOST_BARS), bars[:MOST_BARS]
    order, rows = [], []
    for (treatment, kind), mine in bars:
        short = shorten(names[str(treatment)].short, LONGEST_ROW)
        order.append(f"{short} · {kind}" if kinds > 1 else short)
        lengths = dict.fromkeys(colors, 0.0) | {
            phase(str(row["begin"]), str(row["end"])): float(row["mean_s"])
            for row in mine.to_dict(orient="records")
        }
        rows += stacked.stack(lengths, order[-1], "phase")
    more = f" {left} further bars are in the table only." if left else ""
    return base.build(
        id="cold-starts-figure",
        title="Where the time of cold starts went",
        caption="Mean time to first byte of cold requests, by what their instance was doing meanwhile; phases that are "
        f"shorter than they are known are merged.{more}",
        alt_text=f"Stacked bars of time by phase. Largest parts: "
        f"{listed(stacked.largest(rows, order, 'phase'), most=8)}.",
        draw=lambda layout: stacked.draw(
            layout, order, colors, dataset="phases", part="phase", time="mean time"
        ),
        datasets={"phases": pd.DataFrame(rows), "rows": pd.DataFrame({"bar": order})},
    )


def _color(number: int) -> str:
    """There are at most 21 pairs of steps, and seldom more than six of them in one figure."""
    return HOPS_LIGHT[number] if number < len(HOPS_LIGHT) else LIGHT["rest"]
