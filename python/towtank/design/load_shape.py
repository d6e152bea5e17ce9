"""What a load model asks for over time: pieces of a line, and how many requests that makes.

Pure arithmetic without a clock; the engine has the same pieces in its job (docs/job.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from towtank.design.foreign import ForeignLoad, ForeignWorkload
from towtank.design.journey_shape import longest_timeout_s, pauses_s, steps_per_iteration
from towtank.design.load_model import Sine
from towtank.design.model import ClosedLoad, Journey, Load, OpenLoad, Workload
from towtank.design.think import longest_s, mean_s

_HALVINGS = 60
"""Of the longest load: less than a nanosecond is left."""
AnyLoad = Load | ForeignLoad
"""A load model of ours, or one that another tool makes."""

LONGEST_S = 7 * 86400.0
"""No load lasts longer."""
COUNT_BOUND_S = 3600.0
"""Upper bound in time of a load that stops by count and names no duration."""


@dataclass(frozen=True)
class Piece:
    """A stretch over which the target moves along a straight line, or along a wave.

    Parameters
    ----------
    name : str
        Of the stage that it belongs to; a stage with ramp and hold has two pieces.
    start, end : float
        Arrivals per second (open) or virtual users (closed).
    duration_s : float
    stage : int
        0-based number of that stage.
    wave : Sine, optional
        What lies between start and end.
    """

    name: str
    start: float
    end: float
    duration_s: float
    stage: int = 0
    wave: Sine | None = None

    @property
    def area(self) -> float:
        """Arrivals (open) or user-seconds (closed): what lies under the line."""
        return self.area_to(self.duration_s)

    def area_to(self, until_s: float) -> float:
        """Arrivals or user-seconds of the first so many seconds."""
        if self.wave is not None:
            wave, period = self.wave, self.wave.period
            turn = 2 * math.pi * wave.phase
            swing = math.cos(turn) - math.cos(turn + 2 * math.pi * until_s / period)
            return wave.mean * until_s + wave.amplitude * period / (2 * math.pi) * swing
        part = until_s / self.duration_s if self.duration_s > 0 else 0.0
        return (self.start + self.start + (self.end - self.start) * part) / 2 * until_s

    @property
    def top(self) -> float:
        """Highest level."""
        ends = max(self.start, self.end)
        if self.wave is None:
            return ends
        has_crest = (0.25 - self.wave.phase) % 1 * self.wave.period <= self.duration_s
        return self.wave.mean + self.wave.amplitude if has_crest else ends

    @property
    def bottom(self) -> float:
        """Lowest level."""
        ends = min(self.start, self.end)
        if self.wave is None:
            return ends
        has_trough = (0.75 - self.wave.phase) % 1 * self.wave.period <= self.duration_s
        return self.wave.mean - self.wave.amplitude if has_trough else ends


def stops_by_count(load: AnyLoad) -> bool:
    """Tell whether a load ends after a number of arrivals or iterations."""
    if isinstance(load, ForeignLoad):
        return False
    if isinstance(load, OpenLoad):
        return load.max_arrivals is not None
    return load.iterations is not None or load.iterations_per_user is not None


def _length_s(load: Load) -> float:
    if load.duration is not None:
        return load.duration
    return COUNT_BOUND_S if stops_by_count(load) else 0.0


def pieces(load: AnyLoad) -> tuple[Piece, ...]:
    """Turn any form of a load into pieces, in order; pieces without length are left out.

    A declared stage is a ramp from the level before (0 at the start, unless the load says otherwise), then a hold.
    ``users`` with ``spawn_per_s`` ramp from 0 at that rate; the ramp is part of ``duration``, as in Locust. Of another
    tool's load only the length is known: its one piece has no height.
    """
    if isinstance(load, ForeignLoad):
        return (Piece(load.tool, 0.0, 0.0, load.duration),)
    if isinstance(load, OpenLoad):
        return _arriving(load)
    if load.stages is not None:
        levels = [(s.name, float(s.users), s.ramp, s.hold) for s in load.stages]
        return _staged(levels, float(load.start_users))
    users, duration = float(load.users or 0), _length_s(load)
    if not load.spawn_per_s:
        return (Piece("constant", users, users, duration),)
    ramp = min(users / load.spawn_per_s, duration)
    reached = load.spawn_per_s * ramp
    both = (Piece("spawning", 0.0, reached, ramp), Piece("constant", users, users, duration - ramp, 1))
    return tuple(piece for piece in both if piece.duration_s > 0)


def _arriving(load: OpenLoad) -> tuple[Piece, ...]:
    if load.trace is not None:
        name = PurePosixPath(load.trace.file).name
        return tuple(Piece(name, rate, rate, length) for rate, length in load.trace.recorded.stretches)
    if load.stages is not None:
        return _staged(
            [(s.name, s.sine or s.rate or 0.0, s.ramp, s.hold) for s in load.stages], load.start_rate
        )
    return (Piece("constant", load.rate or 0.0, load.rate or 0.0, _length_s(load)),)


Declared = Sequence[tuple[str | None, float | Sine, float, float]]
"""Name, level or wave, ramp and hold of each stage."""


def _staged(stages: Declared, level: float) -> tuple[Piece, ...]:
    found: list[Piece] = []
    for number, (name, target, ramp, hold) in enumerate(stages):
        title = name or f"stage {number + 1}"
        wave = target if isinstance(target, Sine) else None
        start = target if not isinstance(target, Sine) else _height(target, 0.0)
        end = start if wave is None else _height(wave, hold)
        if ramp > 0:
            found.append(Piece(title, level, start, ramp, number))
        if hold > 0:
            found.append(Piece(title, start, end, hold, number, wave))
        level = end
    return tuple(found)


def _height(wave: Sine, at_s: float) -> float:
    return wave.mean + wave.amplitude * math.sin(2 * math.pi * (at_s / wave.period + wave.phase))


def duration_s(load: AnyLoad) -> float:
    """Length of the load in seconds, warm-up included; what stops by count may end earlier."""
    return math.fsum(piece.duration_s for piece in pieces(load))


def may_end_in_warmup(load: AnyLoad) -> bool:
    """Tell whether a load that stops by count may do so before its warm-up is over.

    Even arrivals come when they are due; all others may come sooner.
    """
    if load.warmup <= 0 or not stops_by_count(load):
        return False
    return ends_in_warmup(load) or not (isinstance(load, OpenLoad) and load.falls == "uniform")


def ends_in_warmup(load: AnyLoad) -> bool:
    """Tell whether all even arrivals of a load that stops by count are due within its warm-up."""
    if not isinstance(load, OpenLoad) or load.max_arrivals is None or load.falls != "uniform":
        return False
    return _arrivals_until(load, load.warmup) > load.max_arrivals - 1


def _arrivals_until(load: OpenLoad, end_s: float) -> float:
    """∫ rate dt from the start."""
    arrivals = 0.0
    for piece in pieces(load):
        arrivals += piece.area_to(min(max(end_s, 0.0), piece.duration_s))
        end_s -= piece.duration_s
    return arrivals


def measured_s(load: AnyLoad) -> tuple[float, float]:
    """Measured window: from the end of the warm-up to the end of the load.

    Even arrivals that stop by count end it with the last one; it is not known where other loads that stop by count do.
    """
    end = duration_s(load)
    if not isinstance(load, OpenLoad) or load.max_arrivals is None or load.falls != "uniform":
        return load.warmup, end
    if _arrivals_until(load, end) <= load.max_arrivals - 1:
        return load.warmup, end
    before, after = 0.0, end
    for _ in range(_HALVINGS):
        middle = (before + after) / 2
        if _arrivals_until(load, middle) > load.max_arrivals - 1:
            after = middle
        else:
            before = middle
    return load.warmup, after


def window_start_s(loads: Iterable[AnyLoad]) -> float:
    """Where the measured window of what is driven together begins: when all of it is warm, seconds."""
    return max((load.warmup for load in loads), default=0.0)


def expected_arrivals(load: AnyLoad) -> float | None:
    """Arrivals of an open load in closed form, ∫ rate dt (the mean for Poisson); None for a closed one."""
    if not isinstance(load, OpenLoad):
        return None
    arrivals = math.fsum(piece.area for piece in pieces(load))
    if load.trace is not None and load.trace.recorded.arrivals is not None:
        arrivals = float(load.trace.recorded.arrivals)
    return arrivals if load.max_arrivals is None else min(arrivals, float(load.max_arrivals))


def peak(load: AnyLoad) -> float:
    """Highest arrival rate (per second) or number of users."""
    return max((piece.top for piece in pieces(load)), default=0.0)


def rises_s(load: AnyLoad) -> tuple[float, ...]:
    """Instants at which the intended load jumps up, or begins to rise; the start of a load is one, too."""
    found: list[float] = []
    at_s, level, rising = 0.0, 0.0, False
    for piece in pieces(load):
        rises = piece.end > piece.start
        if piece.start > level or (rises and not rising):
            found.append(at_s)
        at_s, level, rising = at_s + piece.duration_s, piece.end, rises
    return tuple(found)


@dataclass(frozen=True)
class Expected:
    """How many requests a run will make.

    Parameters
    ----------
    low : float
    high : float or None
        None: no bound is known before the run; it is as fast as the answers come.
    exact : bool
        Low and high are the same number by the load model itself, not a mean.
    """

    low: float
    high: float | None
    exact: bool


def expected_requests(workload: Workload | ForeignWorkload) -> Expected:
    """Requests of one run.

    Open load: arrivals in closed form, ∫ rate dt, times the requests of an iteration. Closed load: bounds; from below
    every request takes its whole timeout, from above only think time, pacing or a rate bound an iteration.
    """
    if isinstance(workload, ForeignWorkload):
        return Expected(0.0, None, exact=False)
    load, journey = workload.load, workload.journey
    anew = isinstance(load, OpenLoad) or load.session == "iteration"
    low, mean, high = steps_per_iteration(journey, 1.0 if anew else math.inf)
    if isinstance(load, OpenLoad):
        arrivals = expected_arrivals(load) or 0.0
        exact = low == high and load.is_counted
        return Expected(arrivals * mean, arrivals * mean, exact=exact)
    user_seconds = math.fsum(piece.area for piece in pieces(load))
    waits = pauses_s(journey)[1] + longest_s(load.pacing)
    slowest = high * (longest_timeout_s(workload) + longest_s(journey.think)) + waits
    fewest = user_seconds / slowest if slowest > 0 and math.isfinite(slowest) else 0.0
    bounds = [user_seconds / fastest] if (fastest := _fastest_iteration_s(load, journey)) > 0 else []
    if load.iterations is not None:
        bounds.append(float(load.iterations))
    if load.iterations_per_user is not None:
        bounds.append(load.iterations_per_user * peak(load))
    most = (
        min(bounds) + peak(load) if bounds and not stops_by_count(load) else (min(bounds) if bounds else None)
    )
    least = min(fewest, most) if most is not None else fewest
    return Expected(math.floor(least * low), None if most is None else most * high, exact=False)


def _fastest_iteration_s(load: ClosedLoad, journey: Journey) -> float:
    """Shortest possible mean time from the start of an iteration to the next, if answers took no time."""
    by_rate = 1 / load.max_rate_per_user if load.max_rate_per_user else 0.0
    fewest_steps = steps_per_iteration(journey)[0]
    waits = fewest_steps * mean_s(journey.think) + pauses_s(journey)[0]
    return max(by_rate, mean_s(load.pacing), waits)
