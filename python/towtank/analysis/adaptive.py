"""How many blocks a two-stage experiment needs, decided once from its stored pilot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from towtank.analysis.comparison import Rules
from towtank.analysis.contrasts import Contrast, contrasts
from towtank.analysis.differences import block_differences
from towtank.analysis.model import Quantity
from towtank.analysis.selection import counting_attempts, wanted_variables
from towtank.analysis.stein import final_blocks
from towtank.analysis.summaries import summarise_run
from towtank.design.model import Adaptive
from towtank.design.plan import Plan
from towtank.errors import ResultsError
from towtank.store import Results
from towtank.variables import variable


@dataclass(frozen=True)
class BlocksNeeded:
    """The final number of blocks, and what set it.

    Parameters
    ----------
    blocks : int
        Pilot included; the same for all treatments.
    reason : str
        The variable and contrast that needs most, in plain words.
    """

    blocks: int
    reason: str


def blocks_needed(results: Results) -> BlocksNeeded:
    """Fix the final number of blocks from the pilot (Stein).

    Parameters
    ----------
    results : Results
        With at least `at_least` complete blocks; later blocks are not looked at, so asking again gives the same.

    Returns
    -------
    BlocksNeeded
        The largest number over all variables of `until` and all contrasts, within `at_least` and `at_most`. A variable
        whose pilot values cannot be reckoned with (failures, zeros) asks for `at_most`.

    Raises
    ------
    ResultsError
        The experiment is not adaptive, or its pilot is not complete.

    Notes
    -----
    Taking the largest keeps the level of each interval: for normal differences the number depends on pilot variances
    only, which are independent of the means.
    """
    plan = results.plan
    adaptive = plan.experiment.repetitions
    if not isinstance(adaptive, Adaptive):
        raise ResultsError(
            f"{results.path}: repetitions are fixed at {adaptive}, there is no pilot to decide from"
        )
    values = _pilot_values(results, plan)
    declared = contrasts(plan)
    if not declared:
        return BlocksNeeded(adaptive.at_least, "there is nothing to compare")
    found = [
        _needed(plan, values[name], name, contrast, adaptive=adaptive)
        for name in adaptive.until
        for contrast in declared
    ]
    return max(found, key=lambda needed: needed.blocks)


def _pilot_values(results: Results, plan: Plan) -> dict[str, dict[str, dict[int, Quantity]]]:
    folders = results.runs("complete")
    chosen = counting_attempts([folder.record for folder in folders])
    values: dict[str, dict[str, dict[int, Quantity]]] = defaultdict(lambda: defaultdict(dict))
    wanted = wanted_variables(plan)
    for folder in folders:
        if folder.record.run_id not in chosen:
            continue
        summary = summarise_run(folder, wanted=wanted).summary
        for name in wanted:
            values[name][summary.treatment_id][summary.block] = summary.values[name]
    return values


def _needed(
    plan: Plan, values: dict[str, dict[int, Quantity]], name: str, contrast: Contrast, *, adaptive: Adaptive
) -> BlocksNeeded:
    described = variable(name)
    low, high, _ = block_differences(described, values[contrast.treatment.id], values[contrast.baseline.id])
    pair = f"{name} of {contrast.treatment.label} against {contrast.baseline.label}"
    if low.size < adaptive.at_least:
        raise ResultsError(
            f"the pilot is not complete: {pair} has {low.size} of {adaptive.at_least} blocks",
            hint="run the experiment again; it resumes",
        )
    pilot = low[: adaptive.at_least]
    if not bool(np.all(np.isfinite(pilot) & (pilot == high[: adaptive.at_least]))):
        return BlocksNeeded(
            adaptive.at_most, f"{pair} falls among failures in the pilot, so its variance is unknown"
        )
    blocks = final_blocks(
        pilot, adaptive.until[name], Rules.of(plan).level_of(name, plan), adaptive.at_least, adaptive.at_most,
        relative=described.scale == "log",
    )  # fmt: skip
    return BlocksNeeded(blocks, f"{pair} needs most")
