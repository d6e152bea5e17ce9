"""Many results of one experiment in the order of their times: where a response variable took another level.

A result is one session and counts as one value, the mean over its runs: what differs between sessions is in all of its
runs. Levels are told apart by `change_points`. Apache Otava, which does this for time series in a database, wants one
exact version of numpy and the clients of half a dozen services, and reckons its t-tests with deviations that are too
small for few values; `ruptures` finds segments and says of none how certain it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from towtank.analysis.change_points import MOST_PERMUTATIONS, fewest
from towtank.analysis.comparison import Rules
from towtank.analysis.followed_series import Change, FollowedSeries
from towtank.analysis.planning import UNASKED
from towtank.analysis.session import read_session
from towtank.analysis.steady_state import common_start
from towtank.analysis.versions import begun, refuse_incomparable
from towtank.errors import ResultsError
from towtank.store import Results

CAUTION = (
    "Each result is one value. What else changed with the time (machine, neighbours, a new deployment) cannot be told "
    "from the version; results that resemble those next to them, as under a slow drift, look like levels."
)


@dataclass(frozen=True)
class Point:
    """One result.

    Parameters
    ----------
    name : str
        Of its folder.
    path : Path
    started_utc : str
        When its first run began.
    """

    name: str
    path: Path
    started_utc: str


@dataclass(frozen=True)
class Series:
    """One response variable of one treatment over the results.

    Parameters
    ----------
    values : tuple of float or None
        For each result the mean over its runs (of logs, where ratios are compared), in the base unit.
    reasons : tuple of str
        For each result why there is no value; empty where there is one.
    """

    treatment_id: str
    variable: str
    values: tuple[float | None, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """What became of an experiment over its results.

    Parameters
    ----------
    points : tuple of Point
        Oldest first.
    series : tuple of Series
    changes : tuple of Change
        By the result they begin at.
    notes : tuple of str
    unsaid : tuple of str
        What cannot be said of the newest result, one sentence each: it must not pass for one in which all was well.
    """

    experiment: str
    points: tuple[Point, ...]
    series: tuple[Series, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    unsaid: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    caution: str = CAUTION

    def worse_since(self, results: int) -> tuple[Change, ...]:
        """Changes for the worse that begin within the newest so many results."""
        return tuple(c for c in self.changes if c.word == "worse" and c.at >= len(self.points) - results)


def history(results: Sequence[Results]) -> History:
    """Follow the primary variables over results of one design.

    Parameters
    ----------
    results : sequence of Results
        In any order; they are put in that of their first runs.

    Returns
    -------
    History

    Raises
    ------
    ResultsError
        Fewer than two have a valid run, one is there twice, or a design differs from the newest one.
    """
    ordered, left_out = _ordered(results)
    told = [note for _, note in left_out]
    if len(ordered) < 2:
        raise ResultsError(
            f"a history needs two results with valid runs, and there {'is one' if ordered else 'is none'}",
            hint="name more folders: towtank history results-2026-*/",
        )
    newest = ordered[-1][1]
    for _, older in ordered[:-1]:
        refuse_incomparable(older, newest)
    plan = newest.plan
    start = common_start([one for _, one in ordered])
    sessions = [read_session(one, start.start_us) for _, one in ordered]
    points = tuple(point for point, _ in ordered)
    answer = plan.experiment.answer
    names = answer.primary if answer else UNASKED
    each = (1 - Rules.of(plan).confidence) / (len(names) * len(plan.treatments))
    followed = [FollowedSeries(plan, t, name, sessions) for name in names for t in plan.treatments]
    changes = [
        one.change([point.name for point in points], found, bounds)
        for number, one in enumerate(followed)
        for found, bounds in one.found(each, np.random.default_rng([plan.experiment.seed, number]))
    ]
    return History(
        experiment=plan.experiment.experiment,
        points=points,
        series=tuple(
            Series(one.treatment.id, one.described.name, one.values, one.reasons) for one in followed
        ),
        changes=tuple(sorted(changes, key=lambda change: change.at)),
        notes=(*told, *begun(start), *_told(followed, each, declared=answer is not None)),
        unsaid=(*_newer(left_out, ordered[-1][0]), *_gaps_at_the_end(followed)),
        labels={treatment.id: treatment.label for treatment in plan.treatments},
    )


def _ordered(
    results: Sequence[Results],
) -> tuple[list[tuple[Point, Results]], list[tuple[Point | None, str]]]:
    """Results with valid runs by time; and what must be said, with the result that it leaves out."""
    seen: set[Path] = set()
    known: list[tuple[Point, Results]] = []
    told: list[tuple[Point | None, str]] = []
    for one in results:
        if one.path in seen:
            raise ResultsError(f"{one.path} is named twice", hint="name each result once")
        seen.add(one.path)
        if one.damage:
            told.append(
                (None, f"{one.path.name}: {len(one.damage)} run(s) cannot be read and count as missing.")
            )
        valid = one.runs(include_invalid=False)
        started = min((run.record.started_utc for run in valid or one.runs("all")), default="")
        point = Point(one.path.name, one.path, started)
        if valid:
            known.append((point, one))
        else:
            told.append((point, f"{one.path} has no valid run and is left out."))
    return sorted(known, key=lambda pair: pair[0].started_utc), told


def _newer(left_out: Sequence[tuple[Point | None, str]], newest: Point) -> Iterator[str]:
    """Results that were left out and are newer than all that count; one without any run may be as new as any."""
    for point, _ in left_out:
        if point is not None and (not point.started_utc or point.started_utc > newest.started_utc):
            yield (
                f"{point.name} is newer than {newest.name} and has no valid run: nothing is said of it, good or bad."
            )


def _gaps_at_the_end(followed: Sequence[FollowedSeries]) -> Iterator[str]:
    """Series that had values, and have none in the newest result."""
    for one in followed:
        if one.known and one.known[-1] != len(one.values) - 1:
            yield (
                f"{one.described.name} of {one.treatment.label} has no value in the newest result: {one.reasons[-1]}."
            )


def _told(followed: Sequence[FollowedSeries], level: float, *, declared: bool) -> list[str]:
    told = []
    if not declared:
        told.append("The experiment file declares no `answer`, so nothing is called better or worse.")
    needed = fewest(level)
    if not needed:
        told.append(
            f"No change could be told of anything: {1 - level * len(followed):.10g} confidence over {len(followed)} "
            f"series leaves each a level of {level:.2g}, and at most {MOST_PERMUTATIONS:,} orders are drawn."
        )
    short = [one for one in followed if len(one.known) < needed]
    if short:
        names = dict.fromkeys(f"{one.described.name} of {one.treatment.label}" for one in short)
        told.append(
            f"No change could be told of {', '.join(names)}: with {min(len(one.known) for one in short)} results that "
            f"have a value; it takes {needed} or more, with {len(followed)} series to look at."
        )
    for one in followed:
        gaps = len(one.values) - len(one.known)
        if gaps:
            reason = next(reason for index, reason in enumerate(one.reasons) if index not in one.known)
            told.append(
                f"{one.described.name} of {one.treatment.label} has no value in {gaps} of {len(one.values)} results, "
                f"which are left out of its series: {reason}."
            )
    return told
