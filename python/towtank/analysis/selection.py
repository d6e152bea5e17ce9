"""Which attempts and which response variables enter numbers."""

from __future__ import annotations

from collections.abc import Sequence

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


def wanted_variables(plan: Plan) -> tuple[str, ...]:
    """Response variables that the file asks for: primaries, objectives, widths of adaptive repetitions."""
    experiment = plan.experiment
    asked: list[str] = list(experiment.answer.primary) if experiment.answer else []
    if isinstance(experiment.repetitions, Adaptive):
        asked += experiment.repetitions.until
    for treatment in plan.treatments:
        asked += treatment.spec.slo
    return tuple(dict.fromkeys(asked))
