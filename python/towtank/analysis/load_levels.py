"""Treatments that differ in nothing but how much load there is: each such family is one curve over its loads."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Literal

from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import pauses_s
from towtank.design.laddered import LOAD, declared_load
from towtank.design.model import ClosedLoad, TreatmentSpec
from towtank.design.plan import Plan, Treatment

FEWEST_LOADS = 3
"""Two loads are a comparison, and no curve."""


@dataclass(frozen=True)
class LoadFamily:
    """Treatments of one deployment and workload at several loads.

    Parameters
    ----------
    label : str
        What they have in common, in the words of the experiment file.
    deployment : str
    model : {"open", "closed"}
        What the loads count: arrivals per second, or users.
    loads : dict
        Treatment id → load, ascending.
    pauses : bool
        Users wait between requests, so there are more of them than requests under way.
    slo : dict
        Objectives, bounds in base units.
    """

    label: str
    deployment: str
    model: Literal["open", "closed"]
    loads: dict[str, float]
    pauses: bool
    slo: dict[str, float]


def load_families(plan: Plan) -> tuple[LoadFamily, ...]:
    """Find the families of a plan that have at least `FEWEST_LOADS` different loads, in the order of the file.

    Treatments belong together when nothing but the constant load of their only workload differs; users may come as
    much faster as there are more of them.
    """
    found: dict[str, list[Treatment]] = defaultdict(list)
    for treatment in plan.treatments:
        key = _without_load(treatment.spec)
        if key is not None:
            found[key].append(treatment)
    families = []
    for members in found.values():
        loads = {one.id: declared_load(one.spec) for one in members}
        if len(set(loads.values())) >= FEWEST_LOADS:
            families.append(_family(members, loads))
    seen = Counter(one.label for one in families)
    return tuple(
        replace(one, label=f"{one.label} ({number})") if seen[one.label] > 1 else one
        for number, one in enumerate(families, 1)
    )


def _without_load(spec: TreatmentSpec) -> str | None:
    """All of a specification but how much load there is; None when its load is no constant one."""
    if spec.beside or isinstance(spec.workload, ForeignWorkload) or declared_load(spec) <= 0:
        return None
    load = spec.workload.load
    changes: dict[str, float | None] = {"rate": 1.0}
    if isinstance(load, ClosedLoad):
        changes = {"users": 1, "spawn_per_s": load.spawn_per_s and 1.0}
    workload = spec.workload.model_copy(update={"load": load.model_copy(update=changes)})
    return spec.model_copy(update={"workload": workload}).model_dump_json()


def _family(members: list[Treatment], loads: dict[str, float]) -> LoadFamily:
    first = members[0]
    spec = first.spec
    common = {
        factor: level
        for factor, level in first.levels.items()
        if factor != LOAD and all(one.levels.get(factor) == level for one in members)
    }
    name = Treatment(spec.deployment_name, 0, common, spec).label
    return LoadFamily(
        label=name,
        deployment=spec.deployment_name,
        model="closed" if isinstance(spec.workload.load, ClosedLoad) else "open",
        loads=dict(sorted(loads.items(), key=lambda item: item[1])),
        pauses=not isinstance(spec.workload, ForeignWorkload) and pauses_s(spec.workload.journey)[1] > 0,
        slo=dict(spec.slo),
    )
