"""What changed within a run while its load did not: shifts of p95, what else happened then, and too short a warm-up."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from towtank.analysis import sentences
from towtank.analysis.model import Finding
from towtank.analysis.steadiness import FEWEST, level_changes, mser5
from towtank.design.constant_load import stretch_at
from towtank.design.plan import Plan
from towtank.store.run_record import RunRecord
from towtank.units import format_duration, format_number

FACTOR = 1.5
"""Smallest ratio of two levels that is worth a word."""
BEFORE_S, AFTER_S = 10.0, 2.0
"""An event under load this long before a shift, or this soon after its bin, is named beside it."""
WORTH = 0.05
"""Relative difference from the rest of the run below which a longer warm-up changes nothing that matters."""
MOST_TOLD = 5
"""Shifts that are told one by one."""
SHORT, FAILING, UNSTEADY = UNJUDGED = ("short", "failing", "unsteady")
"""Too few time bins; a p95 among failures; not seen to become steady in the first half."""
_OF_THE_INSTRUMENT = frozenset({
    "not_observable", "not_read", "damaged_lines", "source_failed", "source_recovered",
})  # fmt: skip
"""Events of telemetry itself: no cause of anything in the system."""


@dataclass(frozen=True)
class Shift:
    """A lasting change of p95 within a run at a constant load.

    Parameters
    ----------
    run_id, treatment_id : str
    t_s : float
        On the run clock, as exactly as the bins are wide.
    ratio : float
        Level after ÷ level before.
    beside : str
        What happened then, with its distance in time; empty when nothing is known.
    """

    run_id: str
    treatment_id: str
    t_s: float
    ratio: float
    beside: str = ""


@dataclass(frozen=True)
class Steadiness:
    """What is kept of one run.

    Parameters
    ----------
    run_id, treatment_id : str
    warmup_s : float
        As it was declared.
    advised_s : float or None
        By MSER-5; None where the load is not constant, the run too short, or not seen to become steady.
    shifts : tuple of Shift
    unjudged : str
        Which of `UNJUDGED` keeps MSER-5 from an advice; empty where there is one, or no constant load to judge.
    bins : int
        Time bins of the constant load that it looked at.
    """

    run_id: str
    treatment_id: str
    warmup_s: float
    advised_s: float | None
    shifts: tuple[Shift, ...]
    unjudged: str = ""
    bins: int = 0


def of_run(
    record: RunRecord, series: pd.DataFrame, events: pa.Table, stretches: Sequence[tuple[float, float]]
) -> Steadiness | None:
    """Look at the p95 of one run, bin by bin; None where it has no window or no series.

    A stretch with a bin whose percentile falls among failures is left out: it has no level.
    """
    if record.window is None or series.empty:
        return None
    warmup_s = record.window.start_us / 1e6
    ordered = series.sort_values("t_s")
    times = ordered["t_s"].to_numpy(dtype=float)
    values = ordered["p95_s"].to_numpy(dtype=float)
    bin_s = float(ordered["bin_s"].iloc[0])
    shifts: list[Shift] = []
    for start, end in stretches:
        inside = (times >= max(start, warmup_s)) & (times + bin_s <= end + 1e-9)
        level = values[inside]
        if level.size and np.all(np.isfinite(level)) and np.all(level > 0):
            shifts += _shifts(record, times[inside], np.log(level), bin_s, events)
    advice = advised_warmup(ordered, warmup_s, stretches)
    return Steadiness(
        record.run_id, record.treatment_id, warmup_s, advice.from_s, tuple(shifts), unjudged=advice.unjudged,
        bins=advice.bins,
    )  # fmt: skip


@dataclass(frozen=True)
class Advice:
    """How long a warm-up should be.

    Parameters
    ----------
    from_s : float or None
        Seconds of the run clock, rarely more than the warm-up where it is long enough.
    unjudged : str
        Which of `UNJUDGED` keeps MSER-5 from it; empty where no load is constant at the end of the warm-up.
    bins : int
        Time bins that it looked at.
    """

    from_s: float | None
    unjudged: str = ""
    bins: int = 0


def advised_warmup(series: pd.DataFrame, warmup_s: float, stretches: Sequence[tuple[float, float]]) -> Advice:
    """Where p95 is steady from, by MSER-5 over the constant load in which the measured window begins.

    Parameters
    ----------
    series : DataFrame
        t_s, bin_s and p95_s of each bin of one run, ascending.
    warmup_s : float
        As it was declared.
    stretches : sequence of (float, float)
        As `constant_load.constant_stretches` has them.

    Returns
    -------
    Advice
        None of it where the load changes at the end of the warm-up, there are too few bins, a percentile falls among
        failures, or `mser5` has none.
    """
    stretch = stretch_at(stretches, warmup_s)
    if stretch is None or series.empty:
        return Advice(None)
    times, values = series["t_s"].to_numpy(dtype=float), series["p95_s"].to_numpy(dtype=float)
    bin_s = float(series["bin_s"].iloc[0])
    inside = (times >= stretch[0]) & (times + bin_s <= stretch[1] + 1e-9)
    bins = int(inside.sum())
    if bins < FEWEST:
        return Advice(None, SHORT, bins)
    if not np.all(np.isfinite(values[inside])):
        return Advice(None, FAILING, bins)
    left_out = mser5(values[inside])
    if left_out is None:
        return Advice(None, UNSTEADY, bins)
    return Advice(_worth(times[inside], values[inside], float(times[inside][left_out]), warmup_s), bins=bins)


def _worth(times: np.ndarray, values: np.ndarray, advised_s: float, warmup_s: float) -> float:
    """The advice, where what it would leave out beyond the warm-up differs from the rest; else the warm-up as it is.

    MSER-5 also cuts a little off a series that is steady from its beginning.
    """
    cut, rest = (times >= warmup_s) & (times < advised_s), times >= max(advised_s, warmup_s)
    if not cut.any() or abs(math.log(float(values[cut].mean() / values[rest].mean()))) < math.log1p(WORTH):
        return min(advised_s, warmup_s)
    return advised_s


def _shifts(
    record: RunRecord, times: np.ndarray, logs: np.ndarray, bin_s: float, events: pa.Table
) -> Iterator[Shift]:
    for change in level_changes(logs):
        ratio = math.exp(change.after - change.before)
        if max(ratio, 1 / ratio) >= FACTOR:
            t_s = float(times[change.index])
            yield Shift(record.run_id, record.treatment_id, t_s, ratio, _beside(events, t_s, bin_s))


def _beside(events: pa.Table, t_s: float, bin_s: float) -> str:
    """The event that is nearest to a shift, in words; one before it is preferred to one after."""
    found = [
        row
        for row in events.select(["t_us", "source", "kind", "instance", "message"]).to_pylist()
        if row["kind"] not in _OF_THE_INSTRUMENT
        and max(0.0, t_s - BEFORE_S) <= row["t_us"] / 1e6 <= t_s + bin_s + AFTER_S
    ]
    if not found:
        return ""
    nearest = min(found, key=lambda row: (row["t_us"] / 1e6 > t_s + bin_s, abs(t_s - row["t_us"] / 1e6)))
    gap = t_s - nearest["t_us"] / 1e6
    when = "at the same time as" if abs(gap) < bin_s else f"{format_duration(abs(gap), digits=2)} "
    when += "" if abs(gap) < bin_s else ("after" if gap > 0 else "before")
    instance, words = nearest["instance"], nearest["message"] or nearest["kind"].replace("_", " ")
    what = words if not instance or instance in words else f"{instance} {words}"
    return f"{when}: {what} ({nearest['source']})"


def shift_findings(plan: Plan, runs: Sequence[Steadiness]) -> Iterator[Finding]:
    """Tell of shifts while the load was constant, and of warm-ups that are too short by MSER-5."""
    labels = {t.id: t.label for t in plan.treatments}
    shifts = sorted((s for run in runs for s in run.shifts), key=lambda s: -abs(math.log(s.ratio)))
    if shifts:
        told = "; ".join(_told(shift) for shift in shifts[:MOST_TOLD])
        more = f"; and {len(shifts) - MOST_TOLD} more" if len(shifts) > MOST_TOLD else ""
        yield Finding(
            "level_shift",
            "warning",
            f"p95 changed while the load was constant: {told}{more}.",
            "Look at the time series and the logs of these runs. A shift belongs to the system and stays in the "
            "numbers; one that only some runs have is why they scatter.",
            tuple(dict.fromkeys(shift.run_id for shift in shifts)),
        )
    yield from _warmups(labels, runs)
    answer = plan.experiment.answer
    if answer is None or not answer.steady_state:  # which says it itself
        yield from _unjudged(runs)


def _told(shift: Shift) -> str:
    times = shift.ratio if shift.ratio > 1 else 1 / shift.ratio
    word = "rose" if shift.ratio > 1 else "fell"
    beside = f", {shift.beside}" if shift.beside else ""
    return f"in {shift.run_id} it {word} {format_number(times, digits=2)}-fold at {shift.t_s:g} s{beside}"


@dataclass(frozen=True)
class Late:
    """Treatments of which most runs are steady only behind the warm-up.

    Parameters
    ----------
    runs : mapping
        Treatment → those runs.
    judged : mapping
        Treatment → how many of its runs MSER-5 could judge.
    """

    runs: Mapping[str, Sequence[Steadiness]]
    judged: Mapping[str, int]

    @classmethod
    def of(cls, runs: Sequence[Steadiness]) -> Late | None:
        """Look through runs; None where there is no such treatment."""
        late: dict[str, list[Steadiness]] = defaultdict(list)
        judged: dict[str, int] = defaultdict(int)
        for run in runs:
            if run.advised_s is not None:
                judged[run.treatment_id] += 1
                if run.advised_s > run.warmup_s:
                    late[run.treatment_id].append(run)
        many = {t: of for t, of in late.items() if 2 * len(of) > judged[t]}
        return cls(many, judged) if many else None

    @property
    def longest_s(self) -> float:
        """From when on all of them are steady."""
        return max(run.advised_s or 0.0 for of in self.runs.values() for run in of)

    def told(self, labels: Mapping[str, str]) -> str:
        """Which they are, in words."""
        return "; ".join(
            f"{labels.get(t, t)} in {len(of)} of {self.judged[t]} runs, up to {max(r.advised_s or 0.0 for r in of):g} s"
            for t, of in self.runs.items()
        )


def _warmups(labels: Mapping[str, str], runs: Sequence[Steadiness]) -> Iterator[Finding]:
    """One finding for all treatments: the warm-up has to be the same in all of them."""
    late = Late.of(runs)
    if late is None:
        return
    declared = max(run.warmup_s for of in late.runs.values() for run in of)
    yield Finding(
        "warmup_short",
        "warning",
        f"p95 is steady only after the warm-up of {declared:g} s, by MSER-5: {late.told(labels)}.",
        f"Nothing was cut. Declare `warmup: {math.ceil(late.longest_s):g}s` or more, the same for all treatments, and "
        "repeat; or declare `steady_state: true` in `answer`.",
        tuple(run.run_id for of in late.runs.values() for run in of),
    )


def _unjudged(runs: Sequence[Steadiness]) -> Iterator[Finding]:
    """Silence about the warm-up must not be read as praise of it.

    One run in twenty is `UNSTEADY` by chance, and those that are not by chance have a shift, which is told.
    """
    unknown = [run for run in runs if run.unjudged in (SHORT, FAILING)]
    if not unknown:
        return
    yield Finding(
        "warmup_unjudged",
        "info",
        f"Whether the warm-up is long enough is not known of {len(unknown)} of {len(runs)} runs: "
        f"{unjudged_told(unknown)}.",
        "Look at their time series; or let the load last longer at one level, and see to it that requests succeed.",
        tuple(run.run_id for run in unknown),
    )


def unjudged_told(runs: Sequence[Steadiness]) -> str:
    """Why MSER-5 has no advice, in words; empty where it has, or where there was no constant load to judge.

    Parameters
    ----------
    runs : sequence of Steadiness
    """
    of = {kind: [run for run in runs if run.unjudged == kind] for kind in UNJUDGED}
    told = []
    if of[SHORT]:
        fewest = min(run.bins for run in of[SHORT])
        told.append(
            f"{_in_runs(of[SHORT])} there are fewer than the {FEWEST} time bins of constant load that MSER-5 needs "
            f"({fewest} at least)"
        )
    if of[FAILING]:
        told.append(f"{_in_runs(of[FAILING])} the p95 of some time bin lies among failures")
    if of[UNSTEADY]:
        told.append(
            f"{_in_runs(of[UNSTEADY])} p95 does not become steady in the first half of the constant load"
        )
    return "; ".join(told)


def _in_runs(runs: Sequence[Steadiness]) -> str:
    return f"in {sentences.count(len(runs), 'runs')}"
