"""Statistics over stored results: summaries, intervals, comparisons, findings (see docs/statistics.md).

Pure functions: `analyse` reads a result folder and returns plain frozen data; nothing is measured, nothing written.
The kernels (`Distribution`, `mean_interval`, `median_interval`, `final_blocks` …) work on plain arrays and can be used
alone in a notebook.
"""

from __future__ import annotations

from towtank.analysis.analyse import analyse
from towtank.analysis.contrasts import Contrast, contrasts
from towtank.analysis.distribution import Distribution, merge
from towtank.analysis.intervals import (
    Interval,
    bootstrap_interval,
    mean_interval,
    median_interval,
    median_ranks,
)
from towtank.analysis.model import (
    Comparison,
    Estimate,
    ExperimentAnalysis,
    Finding,
    Quantity,
    RunSummary,
    TreatmentSummary,
)
from towtank.analysis.stein import final_blocks

__all__ = [
    "Comparison",
    "Contrast",
    "Distribution",
    "Estimate",
    "ExperimentAnalysis",
    "Finding",
    "Interval",
    "Quantity",
    "RunSummary",
    "TreatmentSummary",
    "analyse",
    "bootstrap_interval",
    "contrasts",
    "final_blocks",
    "mean_interval",
    "median_interval",
    "median_ranks",
    "merge",
]
