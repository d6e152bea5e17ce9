"""Capacity: the search on a ladder of loads for the highest that holds the objectives (DESIGN §9).

The estimand is the highest rung at which a run holds them with probability above ½. Single runs only seek the place.
Then rungs are decided by independent confirmation runs, five by default: a rung is *confirmed* when all of them held,
*refuted* when all of them failed, and undecided as soon as they disagree. With probability at most ½ of holding, five
of five hold in at most 1/32 of all cases, and the same the other way round.

What comes next is a function of the trials so far and of nothing else: a search is resumed by asking again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["seek", "confirm"]
Outcome = Literal["held", "failed", "generator"]
"""`generator`: the load was not made as it was meant, so the run says nothing of the system."""
Decision = Literal["confirmed", "refuted", "undecided", "generator", "open"]
End = Literal["found", "top", "bottom", "generator", "budget"]
CONFIRMATIONS = 5
STEP = 0.05
MOST_RUNGS = 2_000


@dataclass(frozen=True)
class Trial:
    """One run on one rung.

    Parameters
    ----------
    rung : int
        From 0.
    purpose : {"seek", "confirm"}
    outcome : {"held", "failed", "generator"}
    why : str
        What failed, such as ``p95`` or ``collapsed``.
    """

    rung: int
    purpose: Purpose
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class Wanted:
    """The run that is to come next."""

    rung: int
    purpose: Purpose


@dataclass(frozen=True)
class LoadLine:
    """What a search found, in rungs of its ladder.

    Parameters
    ----------
    end : {"found", "top", "bottom", "generator", "budget"}
        ``found``: with a rung that holds and one that fails. ``top``, ``bottom``: it holds at the highest rung, fails
        at the lowest. ``generator``: above it the load cannot be made as it is meant. ``budget``: no run is left.
    holds, fails : int or None
        Highest confirmed rung; lowest refuted one above it.
    undecided : tuple of int
        Rungs between them whose confirmations disagreed.
    why : tuple of (str, int)
        What failed on the refuted rung, the most frequent first, with the number of runs.
    against : tuple of (int, int, int)
        Rung, runs that held, runs: below `holds` with one that failed, or above `fails` with one that held.
    trials : int
    """

    end: End
    holds: int | None
    fails: int | None
    undecided: tuple[int, ...]
    why: tuple[tuple[str, int], ...]
    against: tuple[tuple[int, int, int], ...]
    trials: int


def ladder(at_least: float, at_most: float, *, step: float = STEP, whole: bool = False) -> tuple[float, ...]:
    """Loads from the lowest to the highest, each by `step` above the one before.

    Parameters
    ----------
    at_least, at_most : float
    step : float
        Relative, such as 0.05.
    whole : bool
        Users: whole numbers, at least 1 apart. Rates have four significant digits.

    Raises
    ------
    ValueError
        Bounds out of order or infinite, a step outside 0.1 % to 100 %, or more than `MOST_RUNGS`.
    """
    if not 0 < at_least <= at_most < math.inf:
        raise ValueError(
            f"a ladder from {at_least:g} to {at_most:g} has no rungs; allowed is 0 < lowest ≤ highest, both finite"
        )
    if not 0.001 <= step <= 1:
        raise ValueError(f"a step of {step:g} makes no ladder; allowed is from 0.1% to 100%")
    rungs: list[float] = []
    value = float(round(at_least)) if whole else at_least
    value = max(value, 1.0) if whole else value
    exact = value
    while value <= at_most:
        if len(rungs) == MOST_RUNGS:
            raise ValueError(f"a ladder of more than {MOST_RUNGS} rungs; begin higher or take larger steps")
        rungs.append(value)
        exact *= 1 + step
        value = max(value + 1, float(round(exact))) if whole else float(f"{exact:.4g}")
    return tuple(rungs)


def rung_of(rungs: Sequence[float], load: float) -> int:
    """Highest rung at or below a load; the lowest when all are above."""
    return max((number for number, value in enumerate(rungs) if value <= load), default=0)


class Search:
    """What is known of a ladder, and what to try next.

    Parameters
    ----------
    rungs : int
        How many there are.
    start : int
        Where to begin: a guess, such as a ramp's.
    confirmations : int
        Runs that must agree, ≥ 1.
    most_trials : int
        No run more than these.
    """

    def __init__(
        self, rungs: int, *, start: int, confirmations: int = CONFIRMATIONS, most_trials: int = 200
    ) -> None:
        if not 0 <= start < rungs:
            raise ValueError(f"rung {start} is not one of {rungs}")
        if confirmations < 1:
            raise ValueError(f"{confirmations} confirmations confirm nothing; allowed is 1 or more")
        self._rungs = rungs
        self._start = start
        self._needed = confirmations
        self._most_trials = most_trials

    def next(self, trials: Sequence[Trial]) -> Wanted | LoadLine:
        """Say what follows from the trials so far: another one, or the result."""
        known = _Known(trials, self._rungs, self._needed)
        wanted = self._seek(known) or self._confirm(known, known.seek_held or 0)
        if isinstance(wanted, Wanted):
            return wanted if len(trials) < self._most_trials else known.result("budget")
        return known.result(wanted)

    def _seek(self, known: _Known) -> Wanted | None:
        """One run each, doubling the distance until one fails and one holds, then halving it; None when done."""
        low, high, top = known.seek_held, known.seek_failed, known.top
        if not known.sought:
            return Wanted(min(self._start, top), "seek") if top >= 0 else None
        if low is None and high is None:  # only the generator ended: lower
            return Wanted(max(0, top - 2 ** (known.sought - 1) + 1), "seek") if top >= 0 else None
        if high is None and low is not None:
            return Wanted(min(top, low + 2 ** (known.sought - 1)), "seek") if low < top else None
        if low is None and high is not None:
            return Wanted(max(0, high - 2 ** (known.sought - 1)), "seek") if high > 0 else None
        assert low is not None and high is not None  # noqa: PT018, S101 - the cases above
        return Wanted((low + high) // 2, "seek") if high - low > 1 else None

    def _confirm(self, known: _Known, candidate: int) -> Wanted | End:
        """Up from the candidate to a refuted rung, then, unless one was confirmed, down to a confirmed one."""
        rung = candidate
        end: End = "found"
        while True:
            if rung > known.top:
                end = "generator" if known.top < self._rungs - 1 else "top"
                break
            decided = known.decision(rung)
            if decided == "open":
                return Wanted(rung, "confirm")
            if decided == "generator":
                end = "generator"
                break
            if decided == "refuted":
                break
            rung += 1
        if any(known.decision(one) == "confirmed" for one in range(candidate, rung)):
            return end
        for below in range(min(candidate, rung) - 1, -1, -1):
            decided = known.decision(below)
            if decided == "open":
                return Wanted(below, "confirm")
            if decided == "confirmed":
                return end
        return "generator" if end == "generator" else "bottom"


def replayed(search: Search, made: Sequence[tuple[int, Outcome, str]]) -> tuple[Trial, ...]:
    """Turn runs that were made back into trials: for what each was made follows from those before it.

    A run that the search would not have asked for then (an earlier one was repeated since, and ended differently) only
    seeks: it never confirms anything.

    Parameters
    ----------
    search : Search
    made : sequence of (int, Outcome, str)
        Rung, outcome and what failed, in the order of the plan.
    """
    trials: list[Trial] = []
    for rung, outcome, why in made:
        wanted = search.next(trials)
        asked = isinstance(wanted, Wanted) and wanted.rung == rung
        purpose: Purpose = wanted.purpose if isinstance(wanted, Wanted) and asked else "seek"
        trials.append(Trial(rung, purpose, outcome, why))
    return tuple(trials)


class _Known:
    """Trials, counted."""

    def __init__(self, trials: Sequence[Trial], rungs: int, needed: int) -> None:
        self._trials = trials
        self._needed = needed
        seeking = [one for one in trials if one.purpose == "seek"]
        self.sought = len(seeking)
        blocked = min((one.rung for one in trials if one.outcome == "generator"), default=rungs)
        self.top = blocked - 1
        failed = [one.rung for one in seeking if one.outcome == "failed" and one.rung <= self.top]
        self.seek_failed = min(failed, default=None)
        held = [one.rung for one in seeking if one.outcome == "held" and one.rung <= self.top]
        below = [rung for rung in held if self.seek_failed is None or rung < self.seek_failed]
        self.seek_held = max(below, default=None)

    def decision(self, rung: int) -> Decision:
        """What the confirmations of a rung say."""
        outcomes = Counter(
            one.outcome for one in self._trials if one.rung == rung and one.purpose == "confirm"
        )
        if outcomes["generator"]:
            return "generator"
        if outcomes["held"] and outcomes["failed"]:
            return "undecided"
        if outcomes["held"] >= self._needed:
            return "confirmed"
        return "refuted" if outcomes["failed"] >= self._needed else "open"

    def result(self, end: End) -> LoadLine:
        """Put together what was found."""
        decided = {rung: self.decision(rung) for rung in sorted({one.rung for one in self._trials})}
        holds = max((rung for rung, word in decided.items() if word == "confirmed"), default=None)
        lowest = -1 if holds is None else holds
        fails = min(
            (rung for rung, word in decided.items() if word == "refuted" and rung > lowest), default=None
        )
        why = Counter(
            one.why
            for one in self._trials
            if one.rung == fails and one.purpose == "confirm" and one.outcome == "failed" and one.why
        )
        bracketed = holds is not None and fails is not None
        return LoadLine(
            "found" if end == "top" and bracketed else end,
            holds,
            fails,
            tuple(
                rung
                for rung, word in decided.items()
                if word == "undecided" and rung > lowest and (fails is None or rung < fails)
            ),
            tuple(why.most_common()),
            tuple(self._against(holds, fails)),
            len(self._trials),
        )

    def _against(self, holds: int | None, fails: int | None) -> list[tuple[int, int, int]]:
        found = []
        for rung in sorted({one.rung for one in self._trials}):
            here = Counter(one.outcome for one in self._trials if one.rung == rung)
            below = holds is not None and rung < holds and here["failed"] > 0
            above = fails is not None and rung > fails and here["held"] > 0
            if below or above:
                found.append((rung, here["held"], here["held"] + here["failed"]))
        return found


def ratio(
    first: tuple[float, float | None], second: tuple[float, float | None]
) -> tuple[float, float, float | None]:
    """Capacity of one deployment as a factor of another's.

    Parameters
    ----------
    first, second : (float, float or None)
        Loads at which each holds and fails; None where no failing one was reached.

    Returns
    -------
    (estimate, low, high)
        The ratio of what holds, and its bounds: low is 0 and high None where a bound is not known.
    """
    (holds, fails), (other_holds, other_fails) = first, second
    low = 0.0 if other_fails is None else holds / other_fails
    return holds / other_holds, low, None if fails is None else fails / other_holds
