"""`answer.steady_state`: what MSER-5 finds unsteady behind the warm-up is left out, the same length of every run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from towtank.analysis import sentences
from towtank.analysis.logs import VARIABLES as OF_LOGS
from towtank.analysis.model import Finding
from towtank.analysis.selection import counting_attempts
from towtank.analysis.shifts import Late, Steadiness, advised_warmup_s
from towtank.analysis.tables import LatencyCounts
from towtank.analysis.timeseries import latency_series
from towtank.design.constant_load import constant_stretches
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.store.run_folder import RunFolder
from towtank.store.run_record import RunRecord

MOST_LEFT_OUT = 0.5
"""Of a measured window; where more would have to go, its runs are too short to have a steady state."""
FAILED_MORE = 0.01
"""Share of failures in what is left out, beyond that of the rest, from which on it must be told."""
LOGS_UNKNOWN = "logged bytes were counted from the declared warm-up on, and `steady_state` begins later"


@dataclass(frozen=True)
class SteadyState:
    """From when on runs count.

    Parameters
    ----------
    start_us : int or None
        Where every measured window begins at the earliest, µs of the run clock; None where nothing is left out.
    late : Late or None
        Treatments that are steady later than declared.
    judged, runs : int
        Runs that count, and how many of them MSER-5 could judge.
    refused : str
        Why nothing is left out although there are late treatments.
    """

    start_us: int | None
    late: Late | None
    judged: int
    runs: int
    refused: str = ""

    def applied(self, folders: Sequence[RunFolder]) -> list[RunFolder]:
        """The same attempts, with windows that begin as late."""
        return beginning_at(folders, self.start_us)


def latest_start_us(results: Sequence[Results]) -> int | None:
    """Where windows of several results of one design begin to be alike: the latest of theirs; None where none moves."""
    found = [steady_state(one, one.plan) for one in results]
    return max((one.start_us for one in found if one is not None and one.start_us), default=None)


def beginning_at(folders: Sequence[RunFolder], start_us: int | None) -> list[RunFolder]:
    """The same attempts with measured windows that begin at an instant, or later; None changes nothing."""
    return [folder if start_us is None else _later(folder, start_us) for folder in folders]


def steady_state(results: Results, plan: Plan) -> SteadyState | None:
    """Find where the measured windows of all runs begin; None where the experiment does not ask for it.

    Parameters
    ----------
    results : Results
    plan : Plan

    Notes
    -----
    MSER-5 says of each run that counts how much to leave out (`shifts.advised_warmup_s`). Where most runs of a
    treatment are late, the longest of these lengths is taken, for all treatments alike: what is left out must not
    depend on the treatment. It is rounded up to whole seconds and time bins, which count tables know exactly.
    """
    answer = plan.experiment.answer
    if answer is None or not answer.steady_state:
        return None
    folders = results.runs("all")
    chosen = counting_attempts([folder.record for folder in folders])
    counted = [folder for folder in folders if folder.run_id in chosen]
    stretches = {t.id: constant_stretches(t.spec) for t in plan.treatments}
    runs = [_judged(folder, stretches.get(folder.record.treatment_id, ())) for folder in counted]
    judged = sum(run.advised_s is not None for run in runs)
    late = Late.of(runs)
    if late is None:
        return SteadyState(None, None, judged, len(runs))
    start_us = _rounded_up(late.longest_s, [folder.record for folder in counted])
    short = [folder.run_id for folder in counted if _leaves_too_little(folder.record, start_us)]
    if short:
        refused = f"a start at {start_us / 1e6:g} s would leave less than half of {short[0]}"
        return SteadyState(None, late, judged, len(runs), refused)
    return SteadyState(start_us, late, judged, len(runs))


def steady_folders(results: Results, plan: Plan) -> list[RunFolder]:
    """All attempts, in order; where the experiment asks for it with windows that begin in the steady state."""
    folders, steady = results.runs("all"), steady_state(results, plan)
    return folders if steady is None else steady.applied(folders)


def steady_findings(
    found: SteadyState | None, before: Sequence[RunFolder], labels: dict[str, str]
) -> Iterator[Finding]:
    """Tell what was left out, or why nothing was.

    Parameters
    ----------
    found : SteadyState or None
    before : sequence of RunFolder
        Runs that count, as they were measured.
    labels : dict of str to str
        Treatment id → how it is called.
    """
    if found is None:
        return
    ids = tuple(folder.run_id for folder in before)
    if found.late is None or found.start_us is None:
        yield _nothing(found, ids)
        return
    told = found.late.told(labels)
    outside, inside = _counted(before, found.start_us)
    share = outside[0] / max(outside[0] + inside[0], 1)
    failed = outside[1] / max(outside[0], 1) - inside[1] / max(inside[0], 1)
    yield Finding(
        "steady_state",
        "warning" if failed > FAILED_MORE else "info",
        f"Measured windows begin at {found.start_us / 1e6:g} s, because p95 is steady only then by MSER-5 ({told}): "
        f"{outside[0]:,} requests, {sentences.percent(share)} of those due in the declared windows, are in no number. "
        f"{_failures(outside)} of them failed, against {_failures(inside)} of the rest.",
        "What fails while a system starts is not in the numbers; leave `steady_state` out if that is the question. "
        f"Declare `warmup: {found.start_us / 1e6:g}s` to have it without looking at the data.",
        ids,
    )


def _nothing(found: SteadyState, ids: tuple[str, ...]) -> Finding:
    if found.refused:
        why = (
            f"{found.refused}: the runs are too short to have a steady state that could be told from the rest"
        )
        return Finding(
            "steady_state_not_reached", "serious", f"`steady_state` left nothing out: {why}.",
            "Let the load last longer; the numbers hold the unsteady beginning.", ids,
        )  # fmt: skip
    if not found.judged:
        return Finding(
            "steady_state_unknown", "warning",
            f"`steady_state` left nothing out: MSER-5 could judge none of {found.runs} runs. It needs 50 time bins of "
            "constant load around the end of the warm-up, none of them with a p95 among failures, and a p95 that "
            "becomes steady in the first half of it.",
            "Let the load last longer, or declare a warm-up and leave `steady_state` out.", ids,
        )  # fmt: skip
    return Finding(
        "steady_state", "info",
        f"`steady_state` left nothing out: in most runs of every treatment p95 is steady from the warm-up's end on, "
        f"by MSER-5 ({found.judged} of {found.runs} runs could be judged).",
        "Nothing to do.", ids,
    )  # fmt: skip


def _judged(folder: RunFolder, stretches: Sequence[tuple[float, float]]) -> Steadiness:
    record, advised, warmup_s = folder.record, None, 0.0
    counts = folder.counts(["latency"])
    if record.window is not None and counts.num_rows:
        warmup_s = record.window.start_us / 1e6
        advised = advised_warmup_s(latency_series(LatencyCounts.read(counts), record), warmup_s, stretches)
    return Steadiness(record.run_id, record.treatment_id, warmup_s, advised, ())


def _rounded_up(start_s: float, records: Sequence[RunRecord]) -> int:
    unit_us = math.lcm(1_000_000, *(record.bin_us for record in records))
    return math.ceil(round(start_s * 1e6) / unit_us) * unit_us


def _leaves_too_little(record: RunRecord, start_us: int) -> bool:
    window = record.window
    if window is None:
        return False
    return window.end_us - start_us < (1 - MOST_LEFT_OUT) * (window.end_us - window.start_us)


def _later(folder: RunFolder, start_us: int) -> RunFolder:
    record = folder.record
    window = record.window
    if window is None or not window.start_us < start_us <= window.end_us:
        return folder
    later = record.model_copy(
        update={
            "window": window.model_copy(update={"start_us": start_us}),
            "unknown": {**record.unknown, **dict.fromkeys(OF_LOGS, LOGS_UNKNOWN)},
        }
    )
    return folder.later(later, start_us)


def _counted(folders: Sequence[RunFolder], start_us: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Requests of the declared windows, and how many of them failed: before the new start, and behind it."""
    early_due = early_failed = due = failed = 0
    for folder in folders:
        table = folder.counts(["latency"])
        if not table.num_rows:
            continue
        counts = LatencyCounts.read(table)
        early = counts.in_window & (counts.bin.astype("int64") * folder.record.bin_us < start_us)
        early_due += int(counts.count[early].sum())
        early_failed += int(counts.count[early & ~counts.ok].sum())
        behind = counts.in_window & ~early
        due += int(counts.count[behind].sum())
        failed += int(counts.count[behind & ~counts.ok].sum())
    return (early_due, early_failed), (due, failed)


def _failures(counted: tuple[int, int]) -> str:
    return sentences.percent(counted[1] / max(counted[0], 1))
