"""Draw every figure that the results have something to show for."""

from __future__ import annotations

from collections.abc import Sequence

from altair.utils.schemapi import debug_mode

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.break_even import break_even
from towtank.report.figures.cold_starts import cold_starts
from towtank.report.figures.counts import instances, outcomes
from towtank.report.figures.each import each
from towtank.report.figures.ecdf import ecdf, request_phases
from towtank.report.figures.forest import forest
from towtank.report.figures.heat import heat
from towtank.report.figures.hops import hops
from towtank.report.figures.interaction import interactions
from towtank.report.figures.intervals import intervals
from towtank.report.figures.load_line import load_line
from towtank.report.figures.observed import observed
from towtank.report.figures.pareto import paretos
from towtank.report.figures.percentiles import percentiles
from towtank.report.figures.pod_starts import pod_starts
from towtank.report.figures.predicted_scaling import predicted_scaling
from towtank.report.figures.supply import supply
from towtank.report.figures.timeseries import timeseries
from towtank.report.figures.violins import violins
from towtank.report.model import Figures
from towtank.report.naming import Names


def collect(
    analysis: ExperimentAnalysis,
    names: Names,
    *,
    primary: tuple[str, ...],
    matters: float | None,
    timeout_s: float | None,
    wide_px: int | None = None,
    pareto: Sequence[tuple[str, str]] = (),
) -> Figures:
    """Build the figures of an experiment.

    Altair checks every object against its schema while it is built. That is right for its users; here the tests render
    every figure, and the checks would take three quarters of the time.
    """
    with debug_mode(arg=False), base.wide(wide_px or base.WIDE_PX):
        return Figures(
            forest=forest(analysis.comparisons, names, matters, confirmatory=True),
            exploratory=forest(analysis.comparisons, names, matters, confirmatory=False),
            intervals=intervals(analysis, names, primary),
            percentiles=percentiles(analysis, names, timeout_s),
            ecdf=ecdf(analysis, names),
            request_phases=tuple(request_phases(analysis, names)),
            timeseries=tuple(timeseries(analysis, names)),
            observed=tuple(observed(analysis, names)),
            each=tuple(each(analysis, names)),
            outcomes=outcomes(analysis, names),
            instances=instances(analysis, names),
            pod_starts=pod_starts(analysis, names),
            supply=supply(analysis, names),
            cold_starts=cold_starts(analysis, names),
            predicted_scaling=predicted_scaling(analysis, names),
            load_line=load_line(analysis, names),
            hops=hops(analysis, names),
            violins=violins(analysis, names),
            heat=tuple(heat(analysis, names)),
            interactions=interactions(analysis, names, primary),
            paretos=tuple(paretos(analysis, names, pareto)),
            break_even=break_even(analysis, names),
        )
