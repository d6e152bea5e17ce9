"""One response variable of one treatment, result by result: its levels, and what a change of level means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from towtank.analysis import sentences
from towtank.analysis.change_points import ChangePoint, change_points
from towtank.analysis.differences import scaled
from towtank.analysis.model import Quantity
from towtank.analysis.session import Session
from towtank.analysis.verdicts import goodput_guard, margin
from towtank.design.plan import Plan, Treatment
from towtank.variables import Variable


@dataclass(frozen=True)
class Change:
    """A change of level.

    Parameters
    ----------
    at : int
        Index of the first result at the new level.
    size : float or None
        New ÷ old level, or their difference for shares; None where values lie among failures.
    before, after : int
        Results with a value between this change and the ones next to it.
    word : {"worse", "better", ""}
        Empty where it is smaller than what matters, where nothing is declared, or may not be ranked.
    """

    treatment_id: str
    variable: str
    at: int
    size: float | None
    p_value: float
    before: int
    after: int
    word: str
    sentence: str


class FollowedSeries:
    """One response variable of one treatment, session by session."""

    def __init__(self, plan: Plan, treatment: Treatment, name: str, sessions: Sequence[Session]) -> None:
        self.treatment = treatment
        self.described: Variable = plan.experiment.variable(name)
        self._answer = plan.experiment.answer
        self._sessions = sessions
        self._quantities = [self._of(session, name) for session in sessions]
        self._levels = [self._level(quantities) for quantities in self._quantities]
        self.known = [index for index, level in enumerate(self._levels) if level is not None]

    def found(
        self, level: float, rng: np.random.Generator
    ) -> list[tuple[ChangePoint, tuple[list[int], list[int]]]]:
        """Changes, each with the sessions before and behind it that have a value."""
        values = [level for level in self._levels if level is not None]
        changes = change_points(values, level=level, rng=rng)
        edges = [0, *(change.index for change in changes), len(values)]
        return [
            (change, (self.known[edges[i] : edges[i + 1]], self.known[edges[i + 1] : edges[i + 2]]))
            for i, change in enumerate(changes)
        ]

    def change(self, names: Sequence[str], found: ChangePoint, sides: tuple[list[int], list[int]]) -> Change:
        """One change, in numbers and words."""
        before, after = sides
        at, log = after[0], self.described.scale == "log"
        shift = self._mean(after) - self._mean(before)
        finite = math.isfinite(shift)
        rises = shift > 0 if finite else self._rank(after) > self._rank(before)
        size = (math.exp(shift) if log else shift) if finite else None
        word, why = self._word(shift if finite else math.inf, sides, rises=rises)
        what = sentences.noun(self.described)
        if size is None:
            moved = f"{what} {_beyond(self._rank(before), self._rank(after), rises=rises)}"
        elif log:
            moved = f"{what} became {sentences.ratio(size)} × what it was"
        else:
            moved = f"{what} became {sentences.share_points(abs(size))} {'higher' if rises else 'lower'}"
        facts = f"{sentences.count(len(before), 'results')} before, {len(after)} from then on"
        p_text = sentences.p_value(found.p_value, name="permutation p")
        sentence = f"{self.treatment.label}: {moved} with {names[at]} ({facts}; {p_text}): {word or why}."
        return Change(
            self.treatment.id, self.described.name, at, size, found.p_value, len(before), len(after), word, sentence
        )  # fmt: skip

    @property
    def values(self) -> tuple[float | None, ...]:
        """Values over the results in the base unit; None where there is none, or no finite one."""
        back = math.exp if self.described.scale == "log" else float
        return tuple(
            None if level is None or not math.isfinite(level) else back(level) for level in self._levels
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why there is no value, for each result."""
        return tuple(
            "" if level is not None and math.isfinite(level) else _why(quantities, level)
            for quantities, level in zip(self._quantities, self._levels, strict=True)
        )

    def _of(self, session: Session, name: str) -> list[Quantity]:
        return list(session.values.get(name, {}).get(self.treatment.id, {}).values())

    def _level(self, quantities: Sequence[Quantity]) -> float | None:
        """Mean over runs on the scale of comparison; their median where some lie among failures."""
        values = [scaled(self.described, q) for q in quantities if q.value is not None]
        if not values:
            return None
        finite = all(map(math.isfinite, values))
        return float(np.mean(values)) if finite else float(np.quantile(values, 0.5, method="higher"))

    def _mean(self, indices: Sequence[int]) -> float:
        levels = [level for index in indices if (level := self._levels[index]) is not None]
        finite = all(map(math.isfinite, levels))
        return float(np.mean(levels)) if finite else math.nan

    def _rank(self, indices: Sequence[int]) -> float:
        """Middle level of some sessions, which may be infinite."""
        levels = [level for index in indices if (level := self._levels[index]) is not None]
        return float(np.quantile(levels, 0.5, method="higher"))

    def _word(self, shift: float, sides: tuple[list[int], list[int]], *, rises: bool) -> tuple[str, str]:
        """The word for a change; or why there is none."""
        if self._answer is None:
            return "", "no `answer` says what matters"
        if abs(shift) <= margin(self.described, self._answer.matters):
            return "", "less than what matters"
        if self.described.successes_only:
            guard = goodput_guard(*(self._goodput(side) for side in reversed(sides)))
            if guard:
                return "", guard
        return ("worse" if rises == self.described.lower_is_better else "better"), ""

    def _goodput(self, indices: Sequence[int]) -> dict[int, Quantity]:
        runs = (q for index in indices for q in self._of(self._sessions[index], "goodput"))
        return dict(enumerate(runs))


def _beyond(before: float, after: float, *, rises: bool) -> str:
    """How a level moved that has no size: percentiles among failures are infinite, the logarithm of 0 is minus that."""
    if before == after or (math.isfinite(before) and math.isfinite(after)):
        return f"{'rose' if rises else 'fell'}, with some results among failures or at 0"
    if after == math.inf:
        return "rose to where it lies among failures"
    if before == math.inf:
        return "fell from where it lay among failures"
    return "fell to 0" if after == -math.inf else "rose from 0"


def _why(quantities: Sequence[Quantity], level: float | None) -> str:
    if level is not None:
        return (
            "it falls among failures in half of the runs or more"
            if level > 0
            else "it is 0, which has no ratio"
        )
    if not quantities:
        return "the treatment has no valid run"
    return next((q.reason for q in quantities if q.reason), "no run has a value")
