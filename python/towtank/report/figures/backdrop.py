"""What all plots of a grid over time share: stages and faults behind the lines, and where time ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.naming import Named
from towtank.report.style import LIGHT
from towtank.report.text import clean, listed, shorten

MAX_STAGES = 40
ROOM_FOR_NAME_PX = 34
"""Narrower stages stay without their name."""
_FAULT_COLUMNS = ["treatment", "start", "end", "what"]
_STAGE_COLUMNS = ["number", "name", "start", "end", "middle", "shade"]


@dataclass(frozen=True)
class Backdrop:
    """Of one group of treatments.

    Parameters
    ----------
    end_s : float
        Where the time axis ends: with the last value or the last stage.
    stages : list of dict
        number, name, start, end, middle, shade.
    faults : list of dict
        treatment, start, end, what.
    """

    end_s: float
    stages: list[dict[str, Any]]
    faults: list[dict[str, Any]]

    @classmethod
    def of(cls, analysis: ExperimentAnalysis, group: tuple[Named, ...], *, values_end_s: float) -> Backdrop:
        """Gather it for treatments whose values end there."""
        stages = _stages(analysis, group)
        end_s = max([values_end_s, *(stage["end"] for stage in stages)])
        return cls(end_s, stages, _faults(analysis, group, end_s))

    def datasets(self) -> dict[str, pd.DataFrame]:
        """Data sets that the plots refer to."""
        return {
            "stages": pd.DataFrame(self.stages, columns=_STAGE_COLUMNS),
            "faults": pd.DataFrame(self.faults, columns=_FAULT_COLUMNS),
        }

    def time(self) -> alt.Scale:
        """Scale of the time axis."""
        return alt.Scale(domain=[0, self.end_s], nice=False)

    def shading(self, width: int, *, named: bool) -> list[alt.Chart]:
        """Every other stage; with names, where a name has room."""
        if not self.stages:
            return []
        source = alt.Chart(base.data("stages"))
        shaded = source.transform_filter(alt.datum.shade == 1).mark_rect(color=LIGHT["shade"], opacity=1)
        layers = [shaded.encode(x=alt.X("start:Q", scale=self.time()), x2="end:Q")]
        for number, stage in enumerate(self.stages if named else ()):
            room = (stage["end"] - stage["start"]) / self.end_s * width
            if room < ROOM_FOR_NAME_PX:
                continue
            name = source.transform_filter(alt.datum.number == number).mark_text(
                baseline="bottom", fontSize=10.5, color=LIGHT["muted"], limit=room, dy=-3
            )
            layers.append(name.encode(x=alt.X("middle:Q", scale=self.time()), y=alt.value(0), text="name:N"))
        return layers

    def disturbed(self, named: Named | None) -> list[alt.Chart]:
        """When faults were on: of one treatment, or of all."""
        if not self.faults:
            return []
        source = rows_of("faults", named)
        tooltip = [
            alt.Tooltip("what:N", title="fault"),
            alt.Tooltip("start:Q", title="from (s)", format=".3~r"),
        ]
        area = source.mark_rect(color=LIGHT["fail"], opacity=0.16)
        edge = source.mark_rule(color=LIGHT["fail"], opacity=0.7, strokeWidth=1)
        x = alt.X("start:Q", scale=self.time())
        return [area.encode(x=x, x2="end:Q", tooltip=tooltip), edge.encode(x=x, tooltip=tooltip)]

    def stages_told(self) -> str:
        """Sentence of a caption; empty without stages."""
        shaded = [stage["name"] for stage in self.stages if stage["shade"]]
        return f" Shaded: {listed(shaded)}." if shaded else ""

    def faults_told(self) -> str:
        """Sentence of a caption; empty without faults."""
        if not self.faults:
            return ""
        what = list(dict.fromkeys(str(one["what"]) for one in self.faults))
        return f" Red: while a fault was on ({listed(what)})."


def rows_of(dataset: str, named: Named | None) -> alt.Chart:
    """Rows of a data set: of one treatment, or of all."""
    rows = alt.Chart(base.data(dataset))
    if named is None:
        return rows
    mine: alt.Chart = rows.transform_filter(alt.datum.treatment == named.short)
    return mine


def _stages(analysis: ExperimentAnalysis, group: tuple[Named, ...]) -> list[dict[str, Any]]:
    """Stages that all treatments of a group have; every other one is shaded. None where they differ."""
    kept = {
        tuple(
            (str(stage.get("name") or ""), float(stage["start_s"]), float(stage["end_s"]))
            for stage in analysis.stages
            if stage["treatment_id"] == named.id
        )
        for named in group
    }
    if len(kept) != 1:
        return []
    found = []
    for number, (name, start, end) in enumerate(kept.pop()[:MAX_STAGES]):
        shown = shorten(clean(name or f"stage {number + 1}"), 22)
        values = (number, shown, start, end, (start + end) / 2, number % 2)
        found.append(dict(zip(_STAGE_COLUMNS, values, strict=True)))
    return found


def _faults(analysis: ExperimentAnalysis, group: tuple[Named, ...], end_s: float) -> list[dict[str, Any]]:
    """When faults were on in each treatment; what was never undone is a line."""
    shorts = {named.id: named.short for named in group}
    return [
        {
            "treatment": shorts[one["treatment_id"]],
            "start": one["start_s"],
            "end": min(one["start_s"] if one["end_s"] is None else one["end_s"], end_s),
            "what": clean(f"{one['kind']} of {', '.join(one['instances']) or one['target']}"),
        }
        for one in analysis.faults
        if one["treatment_id"] in shorts
    ]
