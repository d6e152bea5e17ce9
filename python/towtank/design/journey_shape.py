"""What a journey asks for: how many requests an iteration makes, and how long each may take. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from towtank.design.foreign import ForeignWorkload
from towtank.design.model import Choose, ClosedLoad, If, Journey, Once, Pause, Repeat, Request, Step, Workload
from towtank.design.think import longest_s, mean_s

Count = tuple[float, float, float]
"""Fewest, expected and most requests."""


def branches(step: Step) -> tuple[tuple[Step, ...], ...]:
    """Lists of steps that a step holds; a request and a pause hold none."""
    if isinstance(step, Request | Pause):
        return ()
    if isinstance(step, Choose):
        return tuple(option.steps for option in step.choose)
    if isinstance(step, Once):
        return (step.once,)
    if isinstance(step, Repeat):
        return (step.repeat.steps,)
    if isinstance(step, If):
        return (step.if_.steps, step.if_.else_)
    return (step.sequence,)


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step, however deep, in the order of the file."""
    for step in steps:
        yield step
        for branch in branches(step):
            yield from all_steps(branch)


def requests_in(journey: Journey) -> Iterator[Request]:
    """Every request of a journey, however deep."""
    return (step for step in all_steps(journey.steps) if isinstance(step, Request))


def step_timeouts_s(workload: Workload | ForeignWorkload) -> dict[str, float]:
    """Timeout of every request of a journey: its own, or else the workload's."""
    if isinstance(workload, ForeignWorkload):  # the steps are the other tool's
        return {}
    return {
        request.name: workload.timeout if request.timeout is None else request.timeout
        for request in requests_in(workload.journey)
    }


def trace_shares(
    workloads: Mapping[str, Workload | ForeignWorkload], share: float
) -> dict[tuple[str, str], float]:
    """Share of the requests of each workload and step that carry a trace id; those that carry none are left out.

    Parameters
    ----------
    workloads : mapping
        Name → workload.
    share : float
        What holds for requests that say nothing themselves (`generator.traceparent`).
    """
    found = {
        (name, request.name): share if request.traceparent is None else request.traceparent
        for name, workload in workloads.items()
        if not isinstance(workload, ForeignWorkload)
        for request in requests_in(workload.journey)
    }
    return {step: asked for step, asked in found.items() if asked > 0}


def longest_timeout_s(workload: Workload | ForeignWorkload) -> float:
    """Bound above which nothing is known of a latency: the longest timeout of any step."""
    return max(step_timeouts_s(workload).values(), default=workload.timeout)


def steps_per_iteration(journey: Journey, iterations: float = math.inf) -> Count:
    """Fewest, expected and most requests of one iteration.

    Expected follows the weights of each choice and the mean of each repetition; of an `if` nothing is known, so it is
    the mean of both ways.

    Parameters
    ----------
    iterations : float
        Iterations of a session, which share what happens once; 1 where each is a session of its own.
    """
    return _count(journey.steps, iterations)


def connections_held(workload: Workload) -> int:
    """Connections that a user, or the session of an arrival, keeps at once: one to each of its targets.

    How many instances a target has is the deployment's, and where redirects lead is the servers' business: the engine,
    which knows the whole job, may count more.
    """
    load = workload.load
    policy = workload.connections.policy or ("per-user" if isinstance(load, ClosedLoad) else "pool")
    if policy != "per-user":
        return 1
    if workload.rotate is None:
        return len({request.target for request in requests_in(workload.journey)})
    # all requests of an iteration go to one of them
    keeps = isinstance(load, ClosedLoad) and load.session == "user"
    return len(set(workload.rotate)) if keeps else 1


def makes_one_request(journey: Journey, iterations: float = 1.0) -> bool:
    """Whether every iteration makes exactly one request: then arrivals and rows must be equal."""
    low, _, high = steps_per_iteration(journey, iterations)
    return low == high == 1


def fewest_requests(workload: Workload) -> float:
    """Requests that an iteration makes at least, on average over a session."""
    anew = not isinstance(workload.load, ClosedLoad) or workload.load.session == "iteration"
    return steps_per_iteration(workload.journey, 1.0 if anew else math.inf)[0]


def pauses_s(journey: Journey) -> tuple[float, float]:
    """Waits of an iteration that are steps of their own: at least on average, and at most."""
    return _pauses(journey.steps)


def _count(steps: Sequence[Step], iterations: float) -> Count:
    low = mean = high = 0.0
    for step in steps:
        a, b, c = _count_step(step, iterations)
        low, mean, high = low + a, mean + b, high + c
    return low, mean, high


def _count_step(step: Step, iterations: float) -> Count:
    if isinstance(step, Request):
        return 1.0, 1.0, 1.0
    if isinstance(step, Choose):
        return _count_choice(step, iterations)
    counts = [_count(branch, iterations) for branch in branches(step)]
    if isinstance(step, Repeat):
        (one,), (least, most) = counts, step.repeat.times
        return one[0] * least, one[1] * (least + most) / 2, one[2] * most
    if isinstance(step, If):
        return (
            min(c[0] for c in counts),
            math.fsum(c[1] for c in counts) / len(counts),
            max(c[2] for c in counts),
        )
    if isinstance(step, Once) and iterations > 1:
        return 0.0, counts[0][1] / iterations, counts[0][2]
    return counts[0] if counts else (0.0, 0.0, 0.0)


def _count_choice(step: Choose, iterations: float) -> Count:
    counts = [_count(option.steps, iterations) for option in step.choose]
    mean = math.fsum(c[1] * share for c, share in zip(counts, shares(step), strict=True))
    return min(c[0] for c in counts), mean, max(c[2] for c in counts)


def shares(step: Choose) -> list[float]:
    """How often each alternative is taken."""
    weights = [option.weight for option in step.choose]
    largest = max(weights)  # scaled first: the sum of huge weights would overflow
    total = math.fsum(weight / largest for weight in weights)
    return [weight / largest / total for weight in weights]


def _pauses(steps: Sequence[Step]) -> tuple[float, float]:
    """Waits that are certain, on average; and the longest."""
    certain = longest = 0.0
    for step in steps:
        if isinstance(step, Pause):
            certain, longest = certain + mean_s(step.pause), longest + longest_s(step.pause)
            continue
        inside = [_pauses(branch) for branch in branches(step)] or [(0.0, 0.0)]
        least, most = min(p[0] for p in inside), max(p[1] for p in inside)
        if isinstance(step, Repeat):
            least, most = least * step.repeat.times[0], most * step.repeat.times[1]
        elif isinstance(step, Once):
            least = 0.0
        certain, longest = certain + least, longest + most
    return certain, longest
