"""`answer.steady_state`: what MSER-5 finds unsteady behind the warm-up is left out, the same length of every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from towtank.analysis import sentences
from towtank.analysis.beginnings import Beginning, beginning_of
from towtank.analysis.logs import VARIABLES as OF_LOGS
from towtank.analysis.model import Finding
from towtank.analysis.selection import counting_attempts
from towtank.analysis.shifts import Late, Steadiness, unjudged_told
from towtank.design.constant_load import constant_stretches
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.store.derived import DerivedRuns
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
    beginnings : tuple of Beginning
        Of the runs that count.
    refused : str
        Why nothing is left out although there are late treatments.
    """

    start_us: int | None
    late: Late | None
    beginnings: tuple[Beginning, ...]
    refused: str = ""

    @property
    def runs(self) -> tuple[Steadiness, ...]:
        """What is known of each run that counts."""
        return tuple(one.steadiness for one in self.beginnings)

    @property
    def judged(self) -> int:
        """How many of them MSER-5 could judge."""
        return sum(run.advised_s is not None for run in self.runs)

    def applied(self, folders: Sequence[RunFolder]) -> list[RunFolder]:
        """The same attempts, with windows that begin as late."""
        return beginning_at(folders, self.start_us)


@dataclass(frozen=True)
class CommonStart:
    """Where windows of several results of one design begin to be alike.

    Parameters
    ----------
    start_us : int or None
        The latest of theirs; None where none moves, or where they cannot begin alike.
    refused : str
        Why they begin as they were declared, although some would begin later.
    """

    start_us: int | None = None
    refused: str = ""


def common_start(results: Sequence[Results]) -> CommonStart:
    """Find where the windows of several results of one design begin, by the rule that holds within one.

    Where that would leave less than half of the window of any run that counts, all begin as declared: some runs with
    and some without their beginning would differ in nothing but that.
    """
    found = [steady_state(one, one.plan) for one in results]
    short = next((one.refused for one in found if one is not None and one.refused), "")
    start_us = max((one.start_us for one in found if one is not None and one.start_us), default=None)
    if start_us is None or short:
        return CommonStart(refused=short)
    records = [folder.record for one in results for folder in _counted(one)]
    start_us = _rounded_up(start_us, records)
    short = _too_short(records, start_us)
    return CommonStart(refused=short) if short else CommonStart(start_us)


def beginning_at(folders: Sequence[RunFolder], start_us: int | None) -> list[RunFolder]:
    """The same attempts with measured windows that begin at an instant, or later; None changes nothing.

    Of an attempt that was over by then the window is empty, and it has no values: those of another window than the
    others' would be no comparison. Only attempts that do not count can be that short (`steady_state`).
    """
    return [folder if start_us is None else _later(folder, start_us) for folder in folders]


def steady_state(results: Results, plan: Plan, derived: DerivedRuns | None = None) -> SteadyState | None:
    """Find where the measured windows of all runs begin; None where the experiment does not ask for it.

    Parameters
    ----------
    results : Results
    plan : Plan
    derived : DerivedRuns, optional
        What an earlier analysis kept of how runs begin: their tables are not read again.

    Notes
    -----
    MSER-5 says of each run that counts how much to leave out (`shifts.advised_warmup`). Where most runs of a
    treatment are late, the longest of these lengths is taken, for all treatments alike: what is left out must not
    depend on the treatment. It is rounded up to whole seconds and time bins, which count tables know exactly.
    """
    answer = plan.experiment.answer
    if answer is None or not answer.steady_state:
        return None
    counted = _counted(results)
    stretches = {t.id: constant_stretches(t.spec) for t in plan.treatments}
    beginnings = tuple(
        beginning_of(folder, stretches.get(folder.record.treatment_id, ()), derived) for folder in counted
    )
    late = Late.of([one.steadiness for one in beginnings])
    if late is None:
        return SteadyState(None, None, beginnings)
    records = [folder.record for folder in counted]
    start_us = _rounded_up(round(late.longest_s * 1e6), records)
    short = _too_short(records, start_us)
    return SteadyState(None if short else start_us, late, beginnings, short)


def steady_folders(results: Results, plan: Plan) -> list[RunFolder]:
    """All attempts, in order; where the experiment asks for it with windows that begin in the steady state."""
    folders, steady = results.runs("all"), steady_state(results, plan)
    return folders if steady is None else steady.applied(folders)


def steady_findings(found: SteadyState | None, labels: dict[str, str]) -> Iterator[Finding]:
    """Tell what was left out, or why nothing was.

    Parameters
    ----------
    found : SteadyState or None
    labels : dict of str to str
        Treatment id → how it is called.
    """
    if found is None:
        return
    ids = tuple(run.run_id for run in found.runs)
    if found.late is None or found.start_us is None:
        yield _nothing(found, ids)
        return
    told = found.late.told(labels)
    split = [one.split_at(found.start_us) for one in found.beginnings]
    outside, inside = _added(one for one, _ in split), _added(one for _, one in split)
    share = outside[0] / max(outside[0] + inside[0], 1)
    failed = outside[1] / max(outside[0], 1) - inside[1] / max(inside[0], 1)
    yield Finding(
        "steady_state",
        "warning" if failed > FAILED_MORE else "info",
        f"Measured windows begin at {found.start_us / 1e6:g} s, because p95 is steady only then by MSER-5 ({told}): "
        f"{outside[0]:,} requests, {sentences.percent(share)} of those due in the declared windows, are in no number. "
        f"{_failures(outside)} of them failed, against {_failures(inside)} of the rest.{_unjudged(found)}",
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
            f"`steady_state` left nothing out: MSER-5 could judge none of {len(found.runs)} runs.{_unjudged(found)}",
            "Let the load last longer, or declare a warm-up and leave `steady_state` out.", ids,
        )  # fmt: skip
    return Finding(
        "steady_state", "info",
        "`steady_state` left nothing out: in most runs of every treatment that could be judged p95 is steady from the "
        f"warm-up's end on, by MSER-5.{_unjudged(found)}",
        "Nothing to do.", ids,
    )  # fmt: skip


def _unjudged(found: SteadyState) -> str:
    told = unjudged_told(found.runs)
    return f" Not judged: {told}." if told else ""


def _rounded_up(start_us: int, records: Sequence[RunRecord]) -> int:
    unit_us = math.lcm(1_000_000, *(record.bin_us for record in records))
    return math.ceil(start_us / unit_us) * unit_us


def _too_short(records: Sequence[RunRecord], start_us: int) -> str:
    """Why windows cannot begin at an instant; empty where they can."""
    short = next((record.run_id for record in records if _leaves_too_little(record, start_us)), None)
    return f"a start at {start_us / 1e6:g} s would leave less than half of {short}" if short else ""


def _leaves_too_little(record: RunRecord, start_us: int) -> bool:
    window = record.window
    if window is None:
        return False
    return window.end_us - start_us < (1 - MOST_LEFT_OUT) * (window.end_us - window.start_us)


def _later(folder: RunFolder, start_us: int) -> RunFolder:
    record = folder.record
    window = record.window
    if window is None or start_us <= window.start_us:
        return folder
    # Bins of an attempt that ended early, and so does not count, may be of another width.
    start_us = _rounded_up(start_us, [record])
    later = record.model_copy(
        update={
            "window": window.model_copy(update={"start_us": min(start_us, window.end_us)}),
            "unknown": {**record.unknown, **dict.fromkeys(OF_LOGS, LOGS_UNKNOWN)},
        }
    )
    return folder.later(later, start_us)


def _counted(results: Results) -> list[RunFolder]:
    """Attempts that enter numbers, in order."""
    folders = results.runs("all")
    chosen = counting_attempts([folder.record for folder in folders])
    return [folder for folder in folders if folder.run_id in chosen]


def _added(counted: Iterable[tuple[int, int]]) -> tuple[int, int]:
    pairs = list(counted)
    return sum(due for due, _ in pairs), sum(failed for _, failed in pairs)


def _failures(counted: tuple[int, int]) -> str:
    return sentences.percent(counted[1] / max(counted[0], 1))
