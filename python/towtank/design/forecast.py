"""What a plan will take: requests and time, before anything is touched.

Load is known exactly. Deploying, becoming ready and settling are not: they are estimated with the constants below, and
said to be estimates. A note of the campaign's own is better as soon as there is one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import longest_timeout_s
from towtank.design.load_shape import Expected, duration_s, expected_requests
from towtank.design.model import ClosedLoad, Workload
from towtank.design.order import plot_key
from towtank.design.plan import Plan, Treatment

DEPLOY_ESTIMATE_S = 1.5
"""From a command to an instance that answers, and its end: a small service on one machine."""
SETTLE_ESTIMATE_S = 1.0
"""Until a fresh machine is calm, before `settle.hold` begins."""
STORE_ESTIMATE_S = 1.0
"""Draining, compacting the records and writing the run folder."""


@dataclass(frozen=True)
class TreatmentForecast:
    """One run of one treatment.

    Parameters
    ----------
    treatment_id : str
    requests : Expected
    load_s : float
        Length of the schedule, warm-up included.
    drain_most_s : float
        Longest time that requests under way get after it.
    settle_least_s, settle_most_s : float
    """

    treatment_id: str
    requests: Expected
    load_s: float
    drain_most_s: float
    settle_least_s: float
    settle_most_s: float


@dataclass(frozen=True)
class Forecast:
    """All planned runs together.

    Parameters
    ----------
    runs, deployments : int
        How many runs there are, and how often something is deployed for them.
    requests : Expected
    load_s : float
        Sum of all schedules.
    estimate_s : float
        Load, plus the estimates of this module.
    most_s : float
        When every run drains and settles as long as it may; deployments are still estimated.
    """

    runs: int
    deployments: int
    requests: Expected
    load_s: float
    estimate_s: float
    most_s: float
    treatments: tuple[TreatmentForecast, ...]


def forecast(plan: Plan) -> Forecast:
    """Work out what the planned runs will take; with adaptive repetitions, those of the pilot."""
    each = {t.id: _treatment(t) for t in plan.treatments}
    runs = [each[run.treatment_id] for run in plan.runs]
    deployments = _deployments(plan)
    requests = together(run.requests for run in runs)
    load_s = math.fsum(run.load_s for run in runs)
    around = deployments * DEPLOY_ESTIMATE_S + len(runs) * STORE_ESTIMATE_S
    settle = math.fsum(run.settle_least_s + SETTLE_ESTIMATE_S for run in runs)
    longest = math.fsum(run.settle_most_s + run.drain_most_s for run in runs)
    return Forecast(
        runs=len(runs),
        deployments=deployments,
        requests=requests,
        load_s=load_s,
        estimate_s=load_s + around + settle,
        most_s=load_s + around + max(longest, settle),
        treatments=tuple(each.values()),
    )


def _treatment(treatment: Treatment) -> TreatmentForecast:
    spec = treatment.spec
    workloads = spec.workloads.values()
    return TreatmentForecast(
        treatment_id=treatment.id,
        requests=together(expected_requests(workload) for workload in workloads),
        load_s=max(duration_s(workload.load) for workload in workloads),
        drain_most_s=max(map(_drain_s, workloads)),
        settle_least_s=spec.settle.hold,
        settle_most_s=spec.settle.timeout,
    )


def together(parts: Iterable[Expected]) -> Expected:
    """Requests of several workloads or runs."""
    listed = list(parts)
    known = [part.high for part in listed if part.high is not None]
    return Expected(
        low=math.fsum(part.low for part in listed),
        high=math.fsum(known) if len(known) == len(listed) else None,
        exact=all(part.exact for part in listed),
    )


def _drain_s(workload: Workload | ForeignWorkload) -> float:
    load = workload.load
    return load.graceful if isinstance(load, ClosedLoad) else longest_timeout_s(workload)


def _deployments(plan: Plan) -> int:
    """How often something is deployed: runs in a row share what outlives them."""
    count = 0
    before: tuple[str, int] | None = None
    keys = {t.id: plot_key(t) for t in plan.treatments}
    lifetimes = {t.id: t.spec.deploy for t in plan.treatments}
    for run in plan.runs:
        deploy = lifetimes[run.treatment_id]
        here = (keys[run.treatment_id], run.block if deploy == "per-block" else 0)
        if deploy == "per-run" or here != before:
            count += 1
        before = None if deploy == "per-run" else here
    return count
