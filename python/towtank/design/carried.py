"""`capacity` of a cost: what one instance carries, from a search made before, for each combination of its levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from towtank.cost.spec import Carried, CostSpec, PricedDeployment
from towtank.design.capacity_file import Capacity
from towtank.design.demand_section import REPLICAS
from towtank.design.include import Library
from towtank.design.known_capacity import NAME, read_named
from towtank.design.plan import Treatment
from towtank.design.problems import Place, Problems, listing

_ONE = "search a deployment that has one instance, or with a factor `replicas` that has 1 among its levels"

_SAME = "search with the same factors and objectives, or write `carries`"


@dataclass(frozen=True)
class Named:
    """Where a cost names what a search found.

    Parameters
    ----------
    file : str
    deployment : str
        That was searched.
    place, path
        Of the key.
    """

    file: str
    deployment: str
    place: Place
    path: str


def read_carried(named: Named, library: Library, problems: Problems) -> tuple[Carried, ...] | None:
    """Read what one instance of a deployment carries; None when it is not known, which is said."""
    found = read_named(named.file, named.place, named.path, library, problems)
    if found is None:
        return None
    mine = [one for one in found if one.deployment == named.deployment]
    single = [one for one in mine if one.levels.get(REPLICAS, 1) == 1]
    wrong = _nothing_of_one(found, mine, single, named.deployment) or next(
        filter(None, map(_unfit, single)), ""
    )
    if wrong:
        problems.add(named.place, named.path, wrong, _ONE if mine and not single else "or write `carries`")
        return None
    return tuple(_carried(one) for one in single)


def _nothing_of_one(
    found: Iterable[Capacity], mine: Sequence[Capacity], single: Sequence[Capacity], deployment: str
) -> str:
    """Why there is no capacity of one instance; empty when there is."""
    if not mine:
        known = listing(dict.fromkeys(one.deployment for one in found))
        return f"the search has no deployment {deployment!r}; it has {known or 'none'}: name one as `capacity_of`"
    return (
        "" if single else f"no capacity of {deployment!r} is of one instance: none has 1 as its `{REPLICAS}`"
    )


def _unfit(one: Capacity) -> str:
    """Why a capacity does not say how many requests per second one instance carries; empty when it does."""
    if one.model != "open":
        return f"{one.label} was searched in users; break-even needs requests per second: search an open load"
    if one.holds is None:
        return f"the search confirmed no load of {one.label}: it has no capacity"
    if one.requests is None:
        return (
            f"the search of {one.label} does not say how many requests an arrival makes (an older Towtank wrote it): "
            "search again"
        )
    return ""


def _carried(one: Capacity) -> Carried:
    holds, each = one.holds or 0.0, one.requests or 0.0
    levels = {name: level for name, level in one.levels.items() if name not in ("deployment", REPLICAS)}
    return Carried(
        label=one.label, levels=levels, holds=holds * each, fails=None if one.fails is None else one.fails * each,
        slo=one.slo,
    )  # fmt: skip


def check_carried(cost: CostSpec, treatments: Iterable[Treatment], place: Place, problems: Problems) -> None:
    """Every treatment whose deployment has its capacity from a search must find one, for its levels and objectives."""
    for treatment in treatments:
        one = cost.deployments.get(treatment.spec.deployment_name)
        if one is None or not one.carried:
            continue
        wrong = _wrong(one, treatment)
        if wrong:
            problems.add(
                place,
                f"cost.{NAME}",
                wrong,
                "search with the same factors and objectives, or write `carries`",
            )


def _wrong(one: PricedDeployment, treatment: Treatment) -> str:
    fitting = one.carried_at(treatment.levels)
    if len(fitting) != 1:
        found = f"{len(fitting)} capacities fit" if fitting else "no capacity fits"
        return (
            f"{found} {treatment.label}; known are those of {listing(known.label for known in one.carried)}"
        )
    slo = treatment.spec.slo
    if slo and slo != fitting[0].slo:
        return f"{fitting[0].label} was searched for the objectives {fitting[0].slo}, {treatment.label} has {slo}"
    return ""
