"""All response variables of one run, for those who need a number of it and no figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.own_values import own_values
from towtank.analysis.scaling import demanded, of_run, with_demand
from towtank.analysis.summaries import summarise_run
from towtank.design import load_shape
from towtank.design.plan import Plan, Treatment
from towtank.store import Results
from towtank.store.run_folder import RunFolder
from towtank.variables import DEMAND_VARIABLES


def run_values(
    results: Results,
    folder: RunFolder,
    plan: Plan,
    costs: Mapping[str, Mapping[str, Quantity]],
    *,
    wanted: Iterable[str],
) -> RunSummary:
    """Summarise one run as the report does: with its cost, its demand, what the experiment declares, and its load.

    Parameters
    ----------
    results : Results
    folder : RunFolder
    plan : Plan
    costs : mapping
        Run → what it costs (`run_cost.cost_values`), because a bill is shared out over all runs.
    wanted : iterable of str
        Response variables beyond the standard ones.
    """
    treatment = next((one for one in plan.treatments if one.id == folder.record.treatment_id), None)
    asked = None if treatment is None else demanded(treatment.spec)
    own = {**own_values(results, folder, plan), **costs.get(folder.record.run_id, {})}
    rises = () if treatment is None else rises_s(treatment)
    others = [name for name in wanted if name not in DEMAND_VARIABLES]
    run = summarise_run(folder, wanted=others, rises_s=rises, own=own)
    return with_demand(run.summary, of_run(run, asked), asked)


def rises_s(treatment: Treatment) -> tuple[float, ...]:
    """When the load of any workload rises."""
    workloads = treatment.spec.workloads.values()
    return tuple(sorted({rise_s for workload in workloads for rise_s in load_shape.rises_s(workload.load)}))
