"""Which attempts and which response variables enter numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from towtank.analysis.pods import COUNTING
from towtank.analysis.pods import VARIABLES as OF_PODS
from towtank.design.model import Adaptive
from towtank.design.plan import Plan
from towtank.store.run_record import RunRecord


def counting_attempts(records: Sequence[RunRecord]) -> set[str]:
    """Ids of the attempts that enter numbers: of each planned run the first that the instrument did not spoil.

    The first, and not the best: which attempt counts must not depend on what it found.
    """
    chosen: dict[str, RunRecord] = {}
    for record in sorted(records, key=lambda r: r.attempt):
        if record.state != "complete" or record.verdicts is None or record.verdicts.instrument == "invalid":
            continue
        chosen.setdefault(record.planned_id, record)
    return {record.run_id for record in chosen.values()}


@dataclass(frozen=True)
class LeftOut:
    """An attempt that enters no numbers.

    Parameters
    ----------
    run_id : str
    why : str
    complete : bool
        It came to its end, so that there are numbers which could be looked at.
    """

    run_id: str
    why: str
    complete: bool


def left_out(records: Sequence[RunRecord]) -> tuple[LeftOut, ...]:
    """Attempts that `counting_attempts` leaves out, in the order of `records`, each with the reason."""
    chosen = counting_attempts(records)
    return tuple(
        LeftOut(record.run_id, _why(record), record.state == "complete")
        for record in records
        if record.run_id not in chosen
    )


def _why(record: RunRecord) -> str:
    if record.state != "complete":
        return "not complete: under way, or killed"
    if record.verdicts is None:
        return "without a verdict"
    if record.verdicts.instrument != "invalid":
        return "an attempt before it counts"
    reasons = "; ".join(reason.message for reason in record.verdicts.instrument_reasons)
    return f"invalid: {reasons or record.failure or 'no reason is kept'}"


def wanted_variables(plan: Plan) -> tuple[str, ...]:
    """Response variables that the file asks for: primaries, its own, objectives, adaptive widths; of pods, all.

    Those of pods belong to every run where pods are observed.
    """
    experiment = plan.experiment
    asked = [*experiment.answer.primary, *experiment.answer.variables] if experiment.answer else []
    if isinstance(experiment.repetitions, Adaptive):
        asked += experiment.repetitions.until
    for treatment in plan.treatments:
        asked += treatment.spec.slo
        if any(item.source in COUNTING for item in treatment.spec.observe):
            asked += OF_PODS
    return tuple(dict.fromkeys(asked))
