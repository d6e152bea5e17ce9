"""Which treatments are compared with which, as the experiment file declares it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from towtank.design.plan import Plan, Treatment

FEWEST_BLOCKS = 2


@dataclass(frozen=True)
class Contrast:
    """A treatment against its baseline."""

    treatment: Treatment
    baseline: Treatment

    @property
    def key(self) -> tuple[str, str]:
        """Ids of treatment and baseline."""
        return self.treatment.id, self.baseline.id


def contrasts(plan: Plan) -> tuple[Contrast, ...]:
    """Declared contrasts, in the order of the file.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    tuple of Contrast
        `all-pairs`: every pair, the earlier treatment of the file being the baseline. Else against the baseline:
        a treatment id (or label) is the baseline of all others; a level is the baseline of the treatments that
        differ from it in that factor only. Without a baseline the first treatment of the file is it.
    """
    answer = plan.experiment.answer
    treatments = plan.treatments
    if answer is not None and answer.contrasts == "all-pairs":
        return tuple(Contrast(later, earlier) for earlier, later in combinations(treatments, 2))
    if answer is None or answer.baseline is None:
        return tuple(Contrast(other, treatments[0]) for other in treatments[1:])
    named = [t for t in treatments if answer.baseline in (t.id, t.label)]
    if named:
        return tuple(Contrast(other, named[0]) for other in treatments if other.id != named[0].id)
    return _against_level(treatments, answer.baseline)


def _against_level(treatments: tuple[Treatment, ...], level: str) -> tuple[Contrast, ...]:
    """Pairs that differ in one factor only, whose baseline has `level` there."""
    factors = treatments[0].levels if treatments else {}
    factor = next((f for f in factors if any(str(t.levels.get(f)) == level for t in treatments)), None)
    if factor is None:
        return ()
    found = []
    for treatment in treatments:
        if str(treatment.levels.get(factor)) == level:
            continue
        rest = {f: v for f, v in treatment.levels.items() if f != factor}
        for baseline in treatments:
            others = {f: v for f, v in baseline.levels.items() if f != factor}
            if str(baseline.levels.get(factor)) == level and others == rest:
                found.append(Contrast(treatment, baseline))
    return tuple(found)


def is_blocked(plan: Plan) -> bool:
    """Whether the order of the design has blocks that differences can be taken in."""
    return plan.experiment.order != "listed"


def shares_one_deployment_each(contrast: Contrast) -> bool:
    """Whether both sides were deployed only once, so that nothing is known of another deployment of them.

    Two treatments that differ in something else than a deployment that lives as long as the experiment are run on
    the same deployment: their contrast has no deployment in it.
    """
    first, second = contrast.treatment.spec, contrast.baseline.spec
    outlives = "once" in (first.deploy, second.deploy)
    same = first.deployment_name == second.deployment_name and first.deployment == second.deployment
    return outlives and not same
