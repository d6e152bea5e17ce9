"""Faults as a reader should know of them: which were made, and after which nothing was well again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from towtank.analysis.engine_findings import runs_in_words
from towtank.analysis.model import Finding, RunSummary
from towtank.store.run_record import FaultWindow, RunRecord


def faults_made(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """When faults were on, of the first of each treatment's runs: ``ExperimentAnalysis.faults``."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        made = [one for one in record.faults if one.began_us is not None]
        if made and record.treatment_id not in found:
            found[record.treatment_id] = [_drawn(record.treatment_id, one) for one in made]
    return [one for faults in found.values() for one in faults]


def _drawn(treatment_id: str, fault: FaultWindow) -> dict[str, Any]:
    return {
        "treatment_id": treatment_id,
        "kind": fault.kind,
        "target": fault.target,
        "instances": fault.instances,
        "start_s": (fault.began_us or 0) / 1e6,
        "end_s": None if fault.undone_us is None else fault.undone_us / 1e6,
    }


def of_faults(records: Sequence[RunRecord], runs: Sequence[RunSummary]) -> Iterator[Finding]:
    """Which faults were made in how many runs, and which runs had not recovered when their load was over."""
    made: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in records:
        for kind in dict.fromkeys(one.kind for one in record.faults if one.began_us is not None):
            made[kind, record.treatment_label].append(record)
    for (kind, label), of_kind in made.items():
        strokes = [
            one
            for record in of_kind
            for one in record.faults
            if one.kind == kind and one.began_us is not None
        ]
        hit = sorted({name for one in strokes for name in one.instances} or {one.target for one in strokes})
        undone = sum(one.undone_us is not None for one in strokes)
        yield Finding(
            "fault_made",
            "info",
            f"{label}: the fault {kind} was made {len(strokes)} time(s) in {runs_in_words(len(of_kind))}, "
            f"on {', '.join(hit[:5])}; it was undone during the load {undone} time(s).",
            "It is part of the treatment; its instants are among the events of each run.",
            tuple(record.run_id for record in of_kind),
        )
    unrecovered = [
        run
        for run in runs
        if run.instrument in ("valid", "suspect")
        and (found := run.values.get("time_to_recover")) is not None
        and found.above
    ]
    if unrecovered:
        yield Finding(
            "not_recovered",
            "warning",
            f"{runs_in_words(len(unrecovered))} had not recovered from a fault when the load was over; the mean time "
            "to recover is then a lower bound.",
            "Let the load last longer after the fault, if it should recover at all.",
            tuple(run.run_id for run in unrecovered),
        )
