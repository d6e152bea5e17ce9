"""What a load model asks for over time: pieces of a line, and how many requests that makes.

Pure arithmetic without a clock; the engine has the same pieces in its job (docs/formats.md §1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from towtank.design.model import (
    Choose,
    ClosedLoad,
    ExponentialThink,
    Journey,
    Load,
    OpenLoad,
    Request,
    Step,
    Think,
    UniformThink,
    Workload,
)

COUNT_BOUND_S = 3600.0
"""Upper bound in time of a load that stops by count and names no duration."""


@dataclass(frozen=True)
class Piece:
    """A stretch over which the target moves along a straight line.

    Parameters
    ----------
    name : str
        Of the stage that it belongs to; a stage with ramp and hold has two pieces.
    start, end : float
        Arrivals per second (open) or virtual users (closed).
    duration_s : float
    stage : int
        0-based number of that stage.
    """

    name: str
    start: float
    end: float
    duration_s: float
    stage: int = 0

    @property
    def area(self) -> float:
        """Arrivals (open) or user-seconds (closed): the trapezoid under the line."""
        return (self.start + self.end) / 2 * self.duration_s


def stops_by_count(load: Load) -> bool:
    """Tell whether a load ends after a number of arrivals or iterations."""
    if isinstance(load, OpenLoad):
        return load.max_arrivals is not None
    return load.iterations is not None or load.iterations_per_user is not None


def _length_s(load: Load) -> float:
    if load.duration is not None:
        return load.duration
    return COUNT_BOUND_S if stops_by_count(load) else 0.0


def pieces(load: Load) -> tuple[Piece, ...]:
    """Turn any form of a load into pieces, in order; pieces without length are left out.

    A declared stage is a ramp from the level before (0 at the start), then a hold. ``users`` with ``spawn_per_s`` ramp
    from 0 at that rate; the ramp is part of ``duration``, as in Locust.
    """
    if isinstance(load, OpenLoad):
        if load.stages is None:
            return (Piece("constant", load.rate or 0.0, load.rate or 0.0, _length_s(load)),)
        return _staged([(s.name, s.rate, s.ramp, s.hold) for s in load.stages])
    if load.stages is not None:
        return _staged([(s.name, float(s.users), s.ramp, s.hold) for s in load.stages])
    users, duration = float(load.users or 0), _length_s(load)
    if not load.spawn_per_s:
        return (Piece("constant", users, users, duration),)
    ramp = min(users / load.spawn_per_s, duration)
    reached = load.spawn_per_s * ramp
    both = (Piece("spawning", 0.0, reached, ramp), Piece("constant", users, users, duration - ramp, 1))
    return tuple(piece for piece in both if piece.duration_s > 0)


def _staged(stages: list[tuple[str | None, float, float, float]]) -> tuple[Piece, ...]:
    found: list[Piece] = []
    level = 0.0
    for number, (name, target, ramp, hold) in enumerate(stages):
        title = name or f"stage {number + 1}"
        if ramp > 0:
            found.append(Piece(title, level, target, ramp, number))
        if hold > 0:
            found.append(Piece(title, target, target, hold, number))
        level = target
    return tuple(found)


def duration_s(load: Load) -> float:
    """Length of the load in seconds, warm-up included; what stops by count may end earlier."""
    return math.fsum(piece.duration_s for piece in pieces(load))


def may_end_in_warmup(load: Load) -> bool:
    """Tell whether a load that stops by count may do so before its warm-up is over.

    Even arrivals come when they are due; all others may come sooner.
    """
    if load.warmup <= 0 or not stops_by_count(load):
        return False
    return ends_in_warmup(load) or not (isinstance(load, OpenLoad) and load.arrivals == "uniform")


def ends_in_warmup(load: Load) -> bool:
    """Tell whether all even arrivals of a load that stops by count are due within its warm-up."""
    if not isinstance(load, OpenLoad) or load.max_arrivals is None or load.arrivals != "uniform":
        return False
    return _arrivals_until(load, load.warmup) > load.max_arrivals - 1


def _arrivals_until(load: OpenLoad, end_s: float) -> float:
    """∫ rate dt from the start."""
    arrivals = 0.0
    for piece in pieces(load):
        part = min(max(end_s, 0.0), piece.duration_s) / piece.duration_s if piece.duration_s > 0 else 0.0
        reached = piece.start + (piece.end - piece.start) * part
        arrivals += (piece.start + reached) / 2 * part * piece.duration_s
        end_s -= piece.duration_s
    return arrivals


def expected_arrivals(load: Load) -> float | None:
    """Arrivals of an open load in closed form, ∫ rate dt (the mean for Poisson); None for a closed one."""
    if not isinstance(load, OpenLoad):
        return None
    arrivals = math.fsum(piece.area for piece in pieces(load))
    return arrivals if load.max_arrivals is None else min(arrivals, float(load.max_arrivals))


def peak(load: Load) -> float:
    """Highest arrival rate (per second) or number of users."""
    return max((max(p.start, p.end) for p in pieces(load)), default=0.0)


def step_timeouts_s(workload: Workload) -> dict[str, float]:
    """Timeout of every request of a journey, nested choices included: its own, or else the workload's."""
    found: dict[str, float] = {}
    waiting = list(workload.journey.steps)
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, Request):
            found[step.name] = workload.timeout if step.timeout is None else step.timeout
        else:
            waiting += [below for option in step.choose for below in option.steps]
    return found


def longest_timeout_s(workload: Workload) -> float:
    """Bound above which nothing is known of a latency: the longest timeout of any step."""
    return max(step_timeouts_s(workload).values(), default=workload.timeout)


def steps_per_iteration(journey: Journey) -> tuple[float, float, float]:
    """Fewest, expected and most requests of one iteration; expected follows the weights of each choice."""
    return _count(journey.steps)


def _count(steps: tuple[Step, ...]) -> tuple[float, float, float]:
    low = mean = high = 0.0
    for step in steps:
        if isinstance(step, Request):
            a = b = c = 1.0
        else:
            a, b, c = _count_choice(step)
        low, mean, high = low + a, mean + b, high + c
    return low, mean, high


def _count_choice(step: Choose) -> tuple[float, float, float]:
    counts = [_count(option.steps) for option in step.choose]
    weights = [option.weight for option in step.choose]
    largest = max(weights)  # scaled first: the sum of huge weights would overflow
    total = math.fsum(weight / largest for weight in weights)
    mean = math.fsum(c[1] * (w / largest) for c, w in zip(counts, weights, strict=True)) / total
    return min(c[0] for c in counts), mean, max(c[2] for c in counts)


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


def expected_requests(workload: Workload) -> Expected:
    """Requests of one run.

    Open load: arrivals in closed form, ∫ rate dt, times the requests of an iteration. Closed load: bounds; from below
    every request takes its whole timeout, from above only think time, pacing or a rate bound an iteration.
    """
    load, journey = workload.load, workload.journey
    low, mean, high = steps_per_iteration(journey)
    if isinstance(load, OpenLoad):
        arrivals = expected_arrivals(load) or 0.0
        exact = low == high and load.arrivals == "uniform"
        return Expected(arrivals * mean, arrivals * mean, exact=exact)
    user_seconds = math.fsum(piece.area for piece in pieces(load))
    slowest = high * (longest_timeout_s(workload) + _longest(journey.think)) + _longest(load.pacing)
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
    return max(by_rate, _mean(load.pacing), fewest_steps * _mean(journey.think))


def _mean(think: Think | None) -> float:
    if think is None:
        return 0.0
    if isinstance(think, UniformThink):
        return (think.uniform[0] + think.uniform[1]) / 2
    return think.exponential if isinstance(think, ExponentialThink) else think


def _longest(think: Think | None) -> float:
    if think is None:
        return 0.0
    if isinstance(think, UniformThink):
        return think.uniform[1]
    return 10 * think.exponential if isinstance(think, ExponentialThink) else think
