"""How often each treatment really was deployed, from the records of its runs: a plan says only what was meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from towtank.analysis.contrasts import Contrast
from towtank.design.model import TreatmentSpec
from towtank.store.run_record import RunRecord


def was_there_already(spec: TreatmentSpec) -> bool:
    """Whether Towtank deployed nothing: on the platform `external` every run meets what stood there before."""
    return getattr(spec.deployment, "platform", None) == "external"


def is_local(spec: TreatmentSpec) -> bool:
    """Whether processes of this machine are the deployment."""
    return getattr(spec.deployment, "platform", None) == "local"


def emulations(spec: TreatmentSpec) -> tuple[str, ...]:
    """Which platforms a local deployment stands for by its autoscalers, each once; none where nothing decides."""
    if not is_local(spec):
        return ()
    components = spec.deployment.resolved().values()
    scaled = [component.scaling for component in components if component.scaling is not None]
    return tuple(dict.fromkeys(scaling.emulated for scaling in scaled if scaling.emulated))


def deployments_of(records: Iterable[RunRecord]) -> dict[str, int]:
    """Count the deployments behind the runs of each treatment.

    A deployment is known by the first run on it: that run has an empty `runs_before`, and every later one begins its
    list with it. After an interruption or a crash the list starts anew.

    Parameters
    ----------
    records : iterable of RunRecord
        Of the runs that are reckoned with.

    Returns
    -------
    dict of str to int
        Treatment id → number of deployments; without treatments none of whose runs says on what it ran.
    """
    first: dict[str, set[str]] = defaultdict(set)
    for record in records:
        before = record.deployment.get("runs_before")
        if isinstance(before, list | tuple):
            first[record.treatment_id].add(str(before[0]) if before else record.run_id)
    return {treatment: len(runs) for treatment, runs in first.items()}


def told(contrast: Contrast, deployments: Mapping[str, int]) -> str:
    """How often both sides were deployed, in words: ``each was deployed once``.

    Parameters
    ----------
    contrast : Contrast
    deployments : mapping of str to int
        From `deployments_of`; for a treatment that is not in it, the plan's word is taken and called so.
    """
    sides = (contrast.treatment, contrast.baseline)
    first, second = (_times(deployments.get(side.id)) for side in sides)
    if first == second:
        return f"each was deployed {first}"
    return f"{sides[0].label} was deployed {first}, {sides[1].label} {second}"


def _times(number: int | None) -> str:
    if number is None:
        return "once by plan"
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
