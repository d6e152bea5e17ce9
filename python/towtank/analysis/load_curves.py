"""Response against load over the runs of an experiment: what to draw, where it turns, how throughput scales.

Exploratory throughout: nothing of it was declared before the runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from towtank.analysis.load_levels import LoadFamily
from towtank.analysis.model import RunSummary
from towtank.analysis.scalability import FEWEST_LEVELS, CannotFitError, ScalabilityLaw, fit_scalability
from towtank.analysis.slo import holds
from towtank.analysis.turning_point import TurningPoint, turning_point
from towtank.design.capacity_file import UNITS, Capacity
from towtank.design.demand_section import REPLICAS
from towtank.variables import variable

COLUMNS = ("family", "treatment_id", "run_id", "load", "variable", "value", "above", "kept")
THROUGHPUT = "throughput"
LATENCY = "p95"
"""Looked at where no objective is about latency."""


@dataclass(frozen=True)
class LoadCurve:
    """One response over the loads of a family.

    Parameters
    ----------
    family : LoadFamily
    variable : str
    turning : TurningPoint
        Where it turns, or why no place can be named.
    left_out : int
        Runs (`unit`) without a value, or with one that lies above what can be measured: the fit is of the others.
    unit : {"runs", "bins"}
        What was fitted: values of runs, or of stretches of time within them.
    """

    family: LoadFamily
    variable: str
    turning: TurningPoint
    left_out: int
    unit: Literal["runs", "bins"] = "runs"


@dataclass(frozen=True)
class Scales:
    """How much more is done with more of something.

    Parameters
    ----------
    label : str
        Of the deployment.
    of : str
        What is done more of: ``throughput``, ``capacity``.
    by : str
        What there is more of: ``users``, ``replicas``.
    law : ScalabilityLaw or None
    reason : str
        Why there is no law.
    cautions : tuple of str
        For what it must not be trusted, besides what the law says itself.
    """

    label: str
    of: str
    by: str
    law: ScalabilityLaw | None
    reason: str = ""
    cautions: tuple[str, ...] = ()


def load_points(families: Sequence[LoadFamily], counting: Mapping[str, Sequence[RunSummary]]) -> pd.DataFrame:
    """Value of each run at its load, with whether it kept its objective.

    Parameters
    ----------
    families : sequence of LoadFamily
        From `load_families`.
    counting : mapping
        Treatment id → its runs that count.

    Returns
    -------
    DataFrame
        `COLUMNS`: one row for each run and variable of a family; kept is None where there is no bound.
    """
    rows = []
    for family in families:
        for name in variables_of(family):
            for treatment_id, load in family.loads.items():
                for run in counting.get(treatment_id, ()):
                    quantity = run.values.get(name)
                    if quantity is None or quantity.value is None:
                        continue
                    kept = holds(variable(name), quantity, family.slo[name]) if name in family.slo else None
                    rows.append(
                        (
                            family.label, treatment_id, run.run_id, load, name, quantity.value, quantity.above, kept,
                        )
                    )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def variables_of(family: LoadFamily) -> tuple[str, ...]:
    """Responses that are looked at: the objectives, a latency, throughput."""
    latency = () if any(variable(name).percentile is not None for name in family.slo) else (LATENCY,)
    return tuple(dict.fromkeys((*family.slo, *latency, THROUGHPUT)))


def load_curves(families: Sequence[LoadFamily], points: pd.DataFrame, *, seed: int) -> tuple[LoadCurve, ...]:
    """Look for the load at which each latency, and throughput, turns.

    Parameters
    ----------
    families : sequence of LoadFamily
    points : DataFrame
        From `load_points`.
    seed : int
        Of the experiment, for the bootstrap.
    """
    found = []
    for number, family in enumerate(families):
        mine = points[points["family"] == family.label]
        for name in variables_of(family):
            if name != THROUGHPUT and variable(name).percentile is None:
                continue
            every = mine[mine["variable"] == name]
            usable = every[~every["above"].astype(bool) & (every["value"] > 0)]
            turning = turning_point(
                usable["load"].to_numpy(float), usable["value"].to_numpy(float),
                rng=np.random.default_rng([seed, number]),
                log=name != THROUGHPUT,  # throughput follows the load along a line until it does not
            )  # fmt: skip
            found.append(LoadCurve(family, name, turning, len(every) - len(usable)))
    return tuple(found)


def scaling_laws(
    families: Sequence[LoadFamily], points: pd.DataFrame, searched: Sequence[Capacity]
) -> tuple[Scales, ...]:
    """Fit the Universal Scalability Law: throughput over users, and capacity over replicas."""
    found = []
    for family in families:
        if family.model != "closed" or len(set(family.loads.values())) < FEWEST_LEVELS:
            continue  # with arrivals per second, throughput is what was asked for
        mine = points[(points["family"] == family.label) & (points["variable"] == THROUGHPUT)]
        thinking = (
            ("users wait between requests, so the coefficients are of users and not of requests under way",)
            if family.pauses
            else ()
        )
        users, done = mine["load"].tolist(), mine["value"].tolist()
        found.append(_scales(family.label, THROUGHPUT, UNITS["closed"], (users, done), thinking))
    return (*found, *_over_replicas(searched))


def _over_replicas(searched: Sequence[Capacity]) -> list[Scales]:
    groups: dict[tuple[str, str, str], list[Capacity]] = defaultdict(list)
    for one in searched:
        if isinstance(one.levels.get(REPLICAS), int) and one.holds is not None:
            rest = sorted((name, str(level)) for name, level in one.levels.items() if name != REPLICAS)
            groups[one.deployment, one.model, str(rest)].append(one)
    found = []
    for mine in groups.values():
        replicas = [float(one.levels[REPLICAS]) for one in mine]
        held = [float(one.holds or 0.0) for one in mine]
        if len(set(replicas)) >= FEWEST_LEVELS:
            rungs = f"capacities are rungs of a ladder {100 * mine[0].step:g} % apart, and not measured finer"
            found.append(_scales(mine[0].deployment, "capacity", REPLICAS, (replicas, held), (rungs,)))
    return found


def _scales(
    label: str, of: str, by: str, data: tuple[list[float], list[float]], cautions: tuple[str, ...]
) -> Scales:
    levels, values = data
    some = [(n, x) for n, x in zip(levels, values, strict=True) if x > 0]
    try:
        law = fit_scalability([n for n, _ in some], [x for _, x in some])
    except CannotFitError as error:
        return Scales(label, of, by, None, str(error))
    return Scales(label, of, by, law, cautions=(*law.cautions, *cautions))
