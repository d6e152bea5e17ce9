"""`demand`: a calibration from a search for capacities, read into the treatments whose elasticity it judges."""

from __future__ import annotations

from collections.abc import Sequence

from towtank.design.capacity_file import Capacity, Demand, DemandLevel
from towtank.design.context import FileContext
from towtank.design.experiment_file import DemandFile
from towtank.design.include import Library
from towtank.design.known_capacity import read_named
from towtank.design.problems import Problems
from towtank.design.slo import asked_variables, bounds_in_words
from towtank.design.tree import Mapping, Node
from towtank.design.validation import Path, joined, validated
from towtank.variables import DEMAND_VARIABLES

REPLICAS = "replicas"
"""Factor whose levels make a calibration."""
MOST_REPLICAS = 100_000
"""Demand is worked out for every number up to the most that were measured."""


def read_demand(
    node: Node, path: Path, context: FileContext, library: Library, driven: tuple[str, str]
) -> Demand | None:
    """Read the section for one deployment; None when there are problems, which are then said.

    Parameters
    ----------
    node, path, context
        The section.
    library : Library
        Finds the file and keeps it.
    driven : (str, str)
        Name of the treatment's deployment, and model of its load.
    """
    place = context.holder(path)
    section = validated(DemandFile, node, path, place, context.problems)
    if section is None:
        return None
    here = joined((*path, "calibration"))
    capacities = read_named(section.calibration, place, here, library, context.problems)
    if capacities is None:
        return None
    deployment, load_model = section.deployment or driven[0], driven[1]
    try:
        levels = calibration(capacities, deployment)
    except ValueError as error:
        context.problems.add(place, here, str(error))
        return None
    measured = next(one for one in capacities if one.deployment == deployment and REPLICAS in one.levels)
    if measured.model != load_model:
        context.problems.add(
            place, here,
            f"{deployment!r} was calibrated with a load that is {measured.model}; this one is {load_model}, and counts "
            "something else",
        )  # fmt: skip
        return None
    return Demand(
        calibration=section.calibration, deployment=deployment, model=measured.model, least=section.least,
        scaled=section.scaled, slo=measured.slo, levels=levels,
    )  # fmt: skip


def check_demand_variables(root: Mapping, problems: Problems) -> None:
    """Response variables of supply against demand are known only where demand is."""
    if root.get("demand") is not None:
        return
    for name, place, where in asked_variables(root):
        if name in DEMAND_VARIABLES:
            problems.add(
                place, where, f"{name!r} is known only of an experiment with `demand`, and there is none",
                "calibrate it with `towtank capacity` over a factor `replicas` (docs/elasticity.md)",
            )  # fmt: skip


def calibration(capacities: Sequence[Capacity], deployment: str) -> tuple[DemandLevel, ...]:
    """Take a calibration out of what a search with the factor `replicas` found.

    Raises
    ------
    ValueError
        There is none of this deployment, or a number of replicas has no capacity or two of them, or 1 is missing.
    """
    mine = [one for one in capacities if one.deployment == deployment and REPLICAS in one.levels]
    if not mine:
        raise ValueError(
            f"there is no calibration of {deployment!r}: no capacity of it has a level of {REPLICAS!r}; search with "
            "a factor `replicas: [1, 2, 4, 8]` that sets how many there are, without an autoscaler"
        )
    levels: dict[int, DemandLevel] = {}
    for one in mine:
        replicas = one.levels[REPLICAS]
        if not isinstance(replicas, int) or isinstance(replicas, bool) or not 1 <= replicas <= MOST_REPLICAS:
            raise ValueError(
                f"{one.label}: {replicas!r} is no number of replicas; allowed is from 1 to {MOST_REPLICAS:,}"
            )
        if one.holds is None:
            raise ValueError(f"{one.label} has no capacity, so it calibrates nothing")
        if replicas in levels:
            raise ValueError(f"{deployment!r} has two capacities with {replicas} replicas; one is needed")
        if one.slo != mine[0].slo:
            raise ValueError(
                f"{one.label} was searched for the objectives {bounds_in_words(one.slo)}, {mine[0].label} for "
                f"{bounds_in_words(mine[0].slo)}"
            )
        levels[replicas] = DemandLevel(replicas=replicas, holds=one.holds, fails=one.fails)
    if 1 not in levels:
        raise ValueError(
            f"{deployment!r} was calibrated with {sorted(levels)} replicas; 1 must be among them"
        )
    return tuple(levels[number] for number in sorted(levels))
