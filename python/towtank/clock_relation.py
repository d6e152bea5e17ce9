"""How another machine's clock relates to ours, and how well that is known.

Every exchange with the other side bounds the offset (its clock − ours) from both sides, whatever it tells: its time to
the nanosecond, to the millisecond, or only the whole second of an HTTP Date header. Bounds of exchanges that lie close
together are intersected; what is known at several moments of a run gives offset and drift in between. Times of two
clocks are never subtracted without the uncertainty stated here.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

NS_PER_S = 1_000_000_000
MOST_DRIFT_PPM = 500
"""The kernel slews a clock by no more than this; what changed faster was set."""
EDGE_ENOUGH_NS = 5_000_000
"""An edge search ends when the offset is known to ± half of this: finer than any telemetry that it is for."""
EDGE_QUESTIONS = 8
"""Questions around one change of the second; each volley divides the uncertainty by up to this number."""
EDGE_MOST = 60
"""Questions of one search, at most."""


@dataclass(frozen=True)
class OffsetBounds:
    """What is known of the offset (the other clock − ours) at one moment.

    Parameters
    ----------
    at_ns : int
        CLOCK_MONOTONIC, the middle of the exchange.
    low_ns, high_ns : int
        The offset lies between them.
    """

    at_ns: int
    low_ns: int
    high_ns: int

    @classmethod
    def of_exchange(
        cls,
        sent_ns: int,
        received_there_ns: int,
        sent_there_ns: int,
        received_ns: int,
        *,
        resolution_ns: int = 0,
    ) -> Self:
        """Bound the offset by the four timestamps of a question and its answer.

        Parameters
        ----------
        sent_ns, received_ns : int
            Ours: when the question left and the answer came, CLOCK_MONOTONIC.
        received_there_ns, sent_there_ns : int
            Theirs: when the question came and the answer left; the same where only one is known.
        resolution_ns : int
            Their clock is cut off to this, so that the true time may be later by as much.

        Notes
        -----
        The question came there after it left here: offset ≤ received_there + resolution − sent. The answer came here
        after it left there: offset ≥ sent_there − received. The width is the round trip without the time that the
        other side took, plus the resolution.
        """
        return cls(
            (sent_ns + received_ns) // 2,
            sent_there_ns - received_ns,
            received_there_ns + resolution_ns - sent_ns,
        )

    @property
    def middle_ns(self) -> int:
        """The offset, if ways there and back take as long."""
        return (self.low_ns + self.high_ns) // 2

    @property
    def uncertainty_ns(self) -> int:
        """The offset is known to ± this."""
        return (self.high_ns - self.low_ns + 1) // 2

    def aged(self, now_ns: int) -> OffsetBounds:
        """The same at a later moment: wider by what clocks may have drifted apart since."""
        drift_ns = max(0, now_ns - self.at_ns) * MOST_DRIFT_PPM // 1_000_000
        return OffsetBounds(now_ns, self.low_ns - drift_ns, self.high_ns + drift_ns)

    def narrowed(self, other: OffsetBounds) -> OffsetBounds:
        """Both together; the later one alone where they contradict each other, since a clock was set in between."""
        low, high = max(self.low_ns, other.low_ns), min(self.high_ns, other.high_ns)
        return other if low > high else OffsetBounds(other.at_ns, low, high)


@dataclass(frozen=True)
class Ticking:
    """Our clock and a way to let time go by; replaced in tests."""

    now_ns: Callable[[], int] = time.monotonic_ns
    sleep_s: Callable[[float], None] = time.sleep


def search_edge(
    ask: Callable[[], OffsetBounds],
    *,
    known: OffsetBounds | None = None,
    enough_ns: int = EDGE_ENOUGH_NS,
    clock: Ticking | None = None,
) -> OffsetBounds:
    """Find the offset of a clock that tells whole seconds only, by asking around the changes of its second.

    Parameters
    ----------
    ask : callable
        One exchange.
    known : OffsetBounds, optional
        From an earlier search: where to ask first, which saves the first second. It is no evidence, since the clock may
        have been set meanwhile.
    enough_ns : int
        Width at which to stop.
    clock : Ticking, optional

    Returns
    -------
    OffsetBounds
        Never narrower than the shortest round trip; about three seconds after the first question, one with `known`.

    Notes
    -----
    If the offset is g, the second changes there when our clock is at a multiple of 1 s − g. A question sent just then
    tells whether the offset is larger or smaller than g. Of several such g within the bounds the largest comes first in
    time; when the second has changed, the others would tell nothing new and the next volley begins. With `known` the
    first volley reaches from its one end to the other: what it finds outside is a clock that was set, and the search
    goes on as if nothing had been known.
    """
    clock = clock or Ticking()
    bounds = ask()
    volleys = EDGE_MOST // EDGE_QUESTIONS
    if known is not None:
        hint = known.aged(bounds.at_ns).narrowed(bounds)
        part = (hint.high_ns - hint.low_ns) // (EDGE_QUESTIONS - 1)
        bounds = _volley(ask, bounds, hint.high_ns, part, clock)
        volleys -= 1
    for _ in range(volleys):
        before = bounds.high_ns - bounds.low_ns
        if before <= enough_ns:
            break
        part = before // (EDGE_QUESTIONS + 1)
        bounds = _volley(ask, bounds, bounds.high_ns - part, part, clock)
        if bounds.high_ns - bounds.low_ns > 0.9 * before:
            break  # the round trip is the limit
    return bounds


def _volley(
    ask: Callable[[], OffsetBounds], bounds: OffsetBounds, largest_ns: int, part_ns: int, clock: Ticking
) -> OffsetBounds:
    """Ask several times around one change of the second, for guesses from the largest down, a part between two."""
    now_ns = clock.now_ns()
    first_due_ns = now_ns + (-(now_ns + largest_ns)) % NS_PER_S
    for number in range(EDGE_QUESTIONS):
        guess, due_ns = largest_ns - number * part_ns, first_due_ns + number * part_ns
        wait_ns = due_ns - clock.now_ns()
        if number and (wait_ns < 0 or not bounds.low_ns < guess < bounds.high_ns):
            continue  # the answer before took longer than this part, or told of it too
        clock.sleep_s(max(0, wait_ns) / NS_PER_S)
        answer = ask()
        bounds = bounds.narrowed(answer)
        if answer.low_ns > guess - NS_PER_S // 2:
            break  # the second has changed: later questions of this volley would tell nothing new
    return bounds


class ClockRelation:
    """How another clock relates to CLOCK_MONOTONIC over a time, from bounds at several moments.

    Parameters
    ----------
    method : str
        How it was found out, for run.json.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._known: list[OffsetBounds] = []

    def add(self, bounds: OffsetBounds) -> None:
        """Take in what is known at a later moment."""
        self._known.append(bounds)

    @property
    def last(self) -> OffsetBounds | None:
        """The latest."""
        return self._known[-1] if self._known else None

    def offset_ns(self, at_ns: int) -> int:
        """The offset when our clock was at `at_ns`: on a straight line between neighbouring moments.

        Raises
        ------
        ValueError
            Nothing is known yet.
        """
        known = self._known
        if not known:
            raise ValueError("nothing is known of the other clock yet")
        after = bisect_left([bounds.at_ns for bounds in known], at_ns)
        if after in (0, len(known)):
            return known[min(after, len(known) - 1)].middle_ns
        first, second = known[after - 1], known[after]
        share = (at_ns - first.at_ns) / (second.at_ns - first.at_ns)
        return first.middle_ns + round(share * (second.middle_ns - first.middle_ns))

    def there_ns(self, here_ns: int) -> int:
        """The other clock's time when ours was at `here_ns`."""
        return here_ns + self.offset_ns(here_ns)

    def here_ns(self, there_ns: int) -> int:
        """Our clock's time when the other was at `there_ns`."""
        here = there_ns - self.offset_ns(
            there_ns - self.offset_ns(self._known[0].at_ns if self._known else 0)
        )
        return there_ns - self.offset_ns(here)

    @property
    def uncertainty_ns(self) -> int:
        """Times that were converted are right to ± this: about a step, the line between is wrong by up to all of it."""
        worst = max((bounds.uncertainty_ns for bounds in self._known), default=0)
        return worst + (self._jump_ns if self.step_ns else 0)

    @property
    def step_ns(self) -> int:
        """Largest jump between two moments that neither drift nor uncertainty explains; 0 when there was none."""
        jumps = [
            abs(b.middle_ns - a.middle_ns)
            - a.uncertainty_ns
            - b.uncertainty_ns
            - (b.at_ns - a.at_ns) * MOST_DRIFT_PPM // 1_000_000
            for a, b in itertools.pairwise(self._known)
        ]
        return max([0, *jumps])

    @property
    def _jump_ns(self) -> int:
        """Largest change of the offset between two moments."""
        return max((abs(b.middle_ns - a.middle_ns) for a, b in itertools.pairwise(self._known)), default=0)

    def facts(self) -> dict[str, Any]:
        """For run.json; `ahead_s` is against our time of day, `drift_ppm` null when it cannot be told."""
        if not self._known:
            return {"method": self._method, "readings": 0}
        first, last = self._known[0], self._known[-1]
        wall_ns = time.time_ns() - time.monotonic_ns()
        span_ns = last.at_ns - first.at_ns
        moved_ns = last.middle_ns - first.middle_ns
        told = span_ns > 0 and not self.step_ns and abs(moved_ns) > first.uncertainty_ns + last.uncertainty_ns
        drift = moved_ns / span_ns * 1e6 if told else None
        return {
            "method": self._method,
            "readings": len(self._known),
            "ahead_s": round((last.middle_ns - wall_ns) / NS_PER_S, 6),
            "uncertainty_s": round(self.uncertainty_ns / NS_PER_S, 6),
            "drift_ppm": None if drift is None else round(drift, 3),
            "step_s": round(self.step_ns / NS_PER_S, 6),
        }
