"""Two-stage repetitions: after the pilot, the final number of blocks is fixed, once (DESIGN §8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from towtank import design, store
from towtank.analysis import contrasts
from towtank.analysis import final_blocks as stein_blocks
from towtank.analysis.model import Quantity
from towtank.analysis.run_cost import cost_values
from towtank.analysis.run_values import run_values
from towtank.analysis.steady_state import steady_folders
from towtank.campaign.resume import usable
from towtank.design.model import Adaptive
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.variables import Variable


@dataclass(frozen=True)
class Decision:
    """What the pilot says.

    Parameters
    ----------
    blocks : int
        Final number of blocks, pilot included.
    plan : Plan, optional
        The extended plan, already stored; None when the pilot is enough.
    sentence : str
        For the user.
    """

    blocks: int
    plan: Plan | None
    sentence: str


def final_blocks(results: Results, plan: Plan) -> Decision:
    """Decide the final number of blocks from the pilot, and store the extended plan.

    Every contrast on every variable of `until` says how many blocks it needs; the largest wins. A contrast whose pilot
    cannot be reckoned with (censored values, fewer than two complete blocks) asks for `at_most`.
    """
    rule = plan.experiment.repetitions
    if not isinstance(rule, Adaptive):
        raise TypeError(f"repetitions are {rule!r}: there is no pilot")
    values = _pilot_values(results, plan, rule)
    needed, reason = rule.at_least, "the pilot is precise enough"
    for name, half_width in rule.until.items():
        for contrast in contrasts(plan):
            described = plan.experiment.variable(name)
            differences = _differences(described, values, contrast.treatment.id, contrast.baseline.id)
            label = f"{name} of {contrast.treatment.label} against {contrast.baseline.label}"
            if differences is None:
                asked, why = rule.at_most, f"{label} cannot be reckoned with in the pilot"
            else:
                relative = described.scale == "log"
                asked = stein_blocks(
                    differences, half_width, _confidence(plan), rule.at_least, rule.at_most, relative=relative
                )
                why = f"{label} varies most"
            if asked > needed:
                needed, reason = asked, why
    sentence = f"after the pilot of {rule.at_least} blocks: {needed} blocks in all ({reason})"
    if needed <= rule.at_least:
        return Decision(rule.at_least, None, sentence)
    extended = design.extend(plan, needed - rule.at_least)
    store.write_plan(results.path, extended)
    return Decision(needed, extended, sentence)


def _confidence(plan: Plan) -> float:
    """Level of one interval, so that all claims together keep the level asked for (Bonferroni)."""
    answer = plan.experiment.answer
    if answer is None:
        return 0.95
    claims = max(1, len(answer.primary) * len(contrasts(plan)))
    return 1 - (1 - answer.confidence) / claims


def _pilot_values(results: Results, plan: Plan, rule: Adaptive) -> dict[tuple[str, str], dict[int, Quantity]]:
    """(variable, treatment) → block → value, of runs that the instrument did not spoil."""
    found: dict[tuple[str, str], dict[int, Quantity]] = {}
    folders = steady_folders(results, plan)
    costs = cost_values(folders, plan)
    for run in folders:
        if run.record.block > rule.at_least or not usable(run):
            continue
        summary = run_values(results, run, plan, costs, wanted=tuple(rule.until))
        for name in rule.until:
            if name in summary.values:
                found.setdefault((name, run.record.treatment_id), {})[run.record.block] = summary.values[name]
    return found


def _differences(
    described: Variable, values: dict[tuple[str, str], dict[int, Quantity]], treatment: str, baseline: str
) -> list[float] | None:
    """Differences within complete blocks on the variable's scale; None when they cannot be reckoned with."""
    ours, theirs = values.get((described.name, treatment), {}), values.get((described.name, baseline), {})
    found: list[float] = []
    for block in sorted(ours.keys() & theirs.keys()):
        a, b = ours[block], theirs[block]
        if a.value is None or b.value is None or a.above or b.above:
            return None
        if described.scale == "difference":
            found.append(a.value - b.value)
        elif a.value > 0 and b.value > 0:
            found.append(math.log(a.value / b.value))
        else:
            return None
    return found if len(found) >= 2 else None
