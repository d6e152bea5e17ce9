"""How fast the HPA follows its metrics: stabilisation windows, policies and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from towtank.autoscaling.hpa.settings import Policy, ResolvedRules

CONTROLLER_FACTOR, CONTROLLER_LEAST = 2, 4
"""Without rules, one decision at most doubles the instances, or reaches 4 (scaleUpLimitFactor, -Minimum)."""


@dataclass(frozen=True)
class Recommendation:
    """What the metrics asked for at a moment, before it was held back."""

    t_s: float
    replicas: int


@dataclass(frozen=True)
class Change:
    """By how many instances the scale was changed at a moment; > 0 in either direction."""

    t_s: float
    replicas: int


@dataclass(frozen=True)
class Memory:
    """What the HPA remembers: past recommendations, and changes upwards and downwards."""

    recommendations: tuple[Recommendation, ...] = ()
    ups: tuple[Change, ...] = ()
    downs: tuple[Change, ...] = ()

    def changed(self, t_s: float, before: int, after: int, *, keep_s: float) -> Memory:
        """The same after the scale was set; changes are kept as long as a policy can ask for them."""
        if after == before:
            return self
        change = Change(t_s, abs(after - before))
        if after > before:
            return replace(self, ups=(*_since(self.ups, t_s - keep_s), change))
        return replace(self, downs=(*_since(self.downs, t_s - keep_s), change))


def _since(changes: tuple[Change, ...], t_s: float) -> tuple[Change, ...]:
    return tuple(change for change in changes if change.t_s >= t_s)


def stabilise_down(memory: Memory, wanted: int, t_s: float, window_s: float) -> tuple[int, Memory]:
    """Without rules: the highest recommendation of the window.

    Notes
    -----
    stabilizeRecommendation in pkg/controller/podautoscaler/horizontal.go
    """
    kept = tuple(one for one in memory.recommendations if one.t_s >= t_s - window_s)
    highest = max([wanted, *(one.replicas for one in kept)])
    return highest, replace(memory, recommendations=(*kept, Recommendation(t_s, wanted)))


def stabilise(
    memory: Memory, wanted: int, *, current: int, t_s: float, up_s: float, down_s: float
) -> tuple[int, Memory]:
    """With rules: as close to what there is as the recommendations of both windows allow.

    Notes
    -----
    stabilizeRecommendationWithBehaviors, same file
    """
    past = memory.recommendations
    lowest = min([wanted, *(one.replicas for one in past if one.t_s > t_s - up_s)])
    highest = max([wanted, *(one.replicas for one in past if one.t_s > t_s - down_s)])
    kept = tuple(one for one in past if one.t_s >= t_s - max(up_s, down_s))
    return (
        min(max(current, lowest), highest),
        replace(memory, recommendations=(*kept, Recommendation(t_s, wanted))),
    )


def bounded_by_controller(wanted: int, *, current: int, least: int, most: int) -> int:
    """Without rules: between the bounds of the object, and not more than doubled (convertDesiredReplicasWithRules)."""
    most = min(most, max(CONTROLLER_FACTOR * current, CONTROLLER_LEAST))
    return least if wanted < least else min(wanted, most)


def bounded_by_rules(
    memory: Memory,
    wanted: int,
    *,
    current: int,
    t_s: float,
    least: int,
    most: int,
    up: ResolvedRules,
    down: ResolvedRules,
) -> int:
    """With rules: between the bounds of the object and of the policies (convertDesiredReplicasWithBehaviorRate)."""
    if wanted > current:
        return min(wanted, most, max(current, up_limit(memory, current, t_s, up)))
    if wanted < current:
        return max(wanted, least, min(current, down_limit(memory, current, t_s, down)))
    return wanted


def up_limit(memory: Memory, current: int, t_s: float, rules: ResolvedRules) -> int:
    """The most instances that policies allow now."""
    if rules.select == "Disabled":
        return current
    limits = [_raised(policy, _at_beginning(memory, current, t_s, policy)) for policy in rules.policies]
    return min(limits) if rules.select == "Min" else max(limits)


def down_limit(memory: Memory, current: int, t_s: float, rules: ResolvedRules) -> int:
    """The fewest instances that policies allow now."""
    if rules.select == "Disabled":
        return current
    limits = [_lowered(policy, _at_beginning(memory, current, t_s, policy)) for policy in rules.policies]
    return max(limits) if rules.select == "Min" else min(limits)


def _at_beginning(memory: Memory, current: int, t_s: float, policy: Policy) -> int:
    """How many there were when the policy's period began."""

    def total(changes: Sequence[Change]) -> int:
        return sum(change.replicas for change in changes if change.t_s > t_s - policy.period)

    return current - total(memory.ups) + total(memory.downs)


def _raised(policy: Policy, count: int) -> int:
    # Rounded up: else a small percentage of few instances would never let one more come.
    return count + policy.value if policy.type == "Pods" else math.ceil(count * (1 + policy.value / 100))


def _lowered(policy: Policy, count: int) -> int:
    return count - policy.value if policy.type == "Pods" else math.trunc(count * (1 - policy.value / 100))
