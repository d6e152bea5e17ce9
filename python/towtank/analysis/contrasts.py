"""Which treatments are compared with which, as the experiment file declares it."""

from __future__ import annotations

from dataclasses import dataclass

from towtank.design.answer import contrasts as declared_contrasts
from towtank.design.methods import separately_deployed_once
from towtank.design.methods import within_blocks as paired
from towtank.design.plan import Plan, Treatment


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
    """Declared contrasts, in the order of the file, as `design.answer.contrasts` defines them.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    tuple of Contrast
        Without an `answer`, or without a baseline in it, every treatment against the first of the file. Empty when
        the baseline named leaves nothing to compare.
    """
    answer = plan.experiment.answer
    treatments = plan.treatments
    if answer is None or (answer.baseline is None and answer.contrasts == "baseline"):
        return tuple(Contrast(other, treatments[0]) for other in treatments[1:])
    try:
        declared = declared_contrasts(answer, treatments)
    except ValueError:  # refused when the plan was made; an old result folder may still say it
        return ()
    return tuple(Contrast(plan.treatment(first), plan.treatment(second)) for first, second in declared)


def is_blocked(plan: Plan) -> bool:
    """Whether the order of the design has blocks that differences can be taken in."""
    return plan.experiment.order != "listed"


def within_blocks(plan: Plan, contrast: Contrast) -> bool:
    """Whether a contrast is taken within blocks, as `design.methods` decides it for the plan as well."""
    return paired(plan.experiment, contrast.treatment.spec, contrast.baseline.spec)


def shares_one_deployment_each(contrast: Contrast) -> bool:
    """Whether a side was deployed only once, so that nothing is known of another deployment of it.

    Two treatments that differ in something else than a deployment that lives as long as the experiment are run on
    the same deployment: their contrast has no deployment in it.
    """
    return separately_deployed_once(contrast.treatment.spec, contrast.baseline.spec)
