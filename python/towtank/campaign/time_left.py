"""How much a campaign still has to do, and how long that takes, from the attempts that were seen so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

AROUND_A_LOAD_S = 2.0
"""Deploying, settling and keeping a run, as long as no attempt has shown what they take here."""


@dataclass
class Estimate:
    """Runs that are done, that are given up, and what is left: with the repeats that are to be expected.

    An attempt that the instrument spoiled leaves its run to be repeated, until it has had all its attempts; then the
    run is given up, which is not done.
    """

    total: int = 0
    done: int = 0
    given_up: int = 0
    chances: list[int] = field(default_factory=list)
    """Of each run that is left, how many attempts it may still have; the run under way comes first."""
    _durations_s: list[float] = field(default_factory=list)
    _spoiled: int = 0
    _begun: float = 0.0

    def start(self, chances: Sequence[int], given_up: int) -> None:
        """An attempt starts; `chances` has its own run first."""
        self.chances = list(chances)
        self.given_up = given_up
        self.done = self.total - len(self.chances) - given_up
        self._begun = time.monotonic()

    def finish(self, *, usable: bool) -> None:
        """It ended; an attempt that is not usable leaves its run to be done, or given up."""
        self._durations_s.append(time.monotonic() - self._begun)
        self._spoiled += not usable
        if not self.chances:
            return
        left = 0 if usable else self.chances[0] - 1
        self.done += usable
        self.given_up += not usable and left == 0
        self.chances = [*([left] if left else []), *self.chances[1:]]

    @property
    def repeats(self) -> float:
        """How many attempts beyond one a run are to be expected, if attempts go on being spoiled as they were."""
        # One good attempt is taken as seen: the first of a campaign must not decide alone.
        share = self._spoiled / (len(self._durations_s) + 1)
        return sum(sum(share**k for k in range(1, most)) for most in self.chances)

    def left_s(self, planned_s: float) -> float:
        """Time left, seconds; before the first attempt has ended, from the length of its load alone."""
        known = self._durations_s
        each = sum(known) / len(known) if known else planned_s + AROUND_A_LOAD_S
        left = len(self.chances) if known or self.chances else self.total - self.done - self.given_up
        return (left + self.repeats) * each
