"""What autoscalers should have done: instances wanted by the algorithm, wanted in fact, and ready, over time."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.scaling_agreement import DESIRED, PREDICTED, READY
from towtank.report.figures import base, steps
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.tables.predicted_scaling import agreement
from towtank.report.text import clean
from towtank.report.values import share

LINES = {PREDICTED: "should have been wanted", DESIRED: "wanted", READY: "ready"}


def predicted_scaling(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure: a plot for each autoscaler of the first run of each treatment; None where there is none."""
    frame = _shown(analysis, names)
    if frame.empty:
        return None
    panels, more = base.of_treatments(frame.treatment)
    frame = frame[frame.treatment.isin(panels)]
    return base.build(
        id="predicted-scaling-figure",
        title="What autoscalers should have done",
        caption="Instances that the published algorithm wants for what was observed, those that the autoscaler wanted, "
        "and those that were ready, in the first run of each treatment. What KPA wants is bounded by `min_scale` and "
        f"`max_scale` only afterwards. How often both agree is in the table.{more}",
        alt_text=f"Instances over time, predicted, wanted and ready. Equal decisions: {_agreements(analysis, names)}.",
        draw=lambda layout: steps.draw(
            layout,
            panels,
            frame,
            dataset="predicted_scaling",
            metrics=list(LINES.values()),
            titled=len(names.by_id) > 1,
        ),
        datasets={"predicted_scaling": frame[["treatment", "metric", "t_s", "value"]]},
    )


def _shown(analysis: ExperimentAnalysis, names: Names) -> pd.DataFrame:
    """First run of each treatment that has a prediction, by autoscaler."""
    parts = []
    found = analysis.predicted_scaling
    for treatment_id in names.by_id if not found.empty else ():
        mine = found[found.treatment_id == treatment_id]
        first = mine[mine.run_id == mine.run_id.iloc[0]] if not mine.empty else mine
        several = first.autoscaler.nunique() > 1
        for autoscaler, one in first.groupby("autoscaler", sort=False):
            short = clean(names[treatment_id].short)
            parts.append(one.assign(treatment=f"{short} · {clean(autoscaler)}" if several else short))
    if not parts:
        return pd.DataFrame(columns=["treatment", "metric", "t_s", "value"])
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True)
    frame["metric"] = frame["metric"].map(LINES)
    return frame


def _agreements(analysis: ExperimentAnalysis, names: Names) -> str:
    """How often both came to the same number, for each treatment."""
    known = analysis.predictions[analysis.predictions["equal"].notna()]
    by_treatment = known.groupby("treatment_id", sort=False)
    return ", ".join(f"{names.label(str(one))} {share(agreement(mine))}" for one, mine in by_treatment)
