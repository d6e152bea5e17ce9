"""What the ingress says each second, and what its own answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

PROTOCOL = 1
NS_PER_S = 1e9


@dataclass(frozen=True)
class InstanceStats:
    """One instance in one interval: requests under way now, their mean number, and how many were sent to it."""

    in_flight: int
    concurrency: float
    requests: int


@dataclass(frozen=True)
class Stats:
    """One interval, as a rule a second.

    Parameters
    ----------
    from_ns, to_ns : int
        CLOCK_MONOTONIC.
    arrivals, held, in_flight, ready : int
        Requests that came; held and under way at its end; instances that take requests.
    concurrency, held_concurrency : float
        Means over the interval: of held and sent requests together, and of held ones.
    answered : mapping of str to int
        Status → answers of instances.
    made : mapping of str to int
        Reason → answers of the ingress itself.
    left : int
        Clients that went away.
    instances : mapping
    """

    from_ns: int
    to_ns: int
    arrivals: int
    held: int
    in_flight: int
    ready: int
    concurrency: float
    held_concurrency: float
    answered: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    instances: Mapping[str, InstanceStats] = field(default_factory=dict)

    @property
    def t_s(self) -> float:
        """Its end."""
        return self.to_ns / NS_PER_S

    @property
    def seconds(self) -> float:
        """Its length."""
        return max(1, self.to_ns - self.from_ns) / NS_PER_S

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> Self:
        """From an event `stats`.

        Raises
        ------
        KeyError, TypeError
            It is none.
        """
        instances = {
            name: InstanceStats(one["in_flight"], one["concurrency"], one["requests"])
            for name, one in event["instances"].items()
        }
        plain = (
            "from_ns",
            "to_ns",
            "arrivals",
            "held",
            "in_flight",
            "ready",
            "concurrency",
            "held_concurrency",
        )
        return cls(
            **{name: event[name] for name in plain},
            answered=dict(event["answered"]),
            made=dict(event["made"]),
            left=sum(event["left"].values()),
            instances=instances,
        )


MADE = {
    "pending": (
        503,
        "more were held than `scaling.pending` allows",
        "raise `scaling.pending`, or start sooner",
    ),
    "queue": (
        503,
        "more waited than the queues of the instances hold",
        "raise the concurrency or the number",
    ),
    "held": (504, "they were held longer than `scaling.held_timeout`", "see why no instance took them"),
    "rate": (
        429,
        "more came in a minute than `invocations_per_minute` allows",
        "raise it, or lower the load",
    ),
    "concurrent": (
        429,
        "more ran at a time than `concurrent_invocations` allows",
        "raise it, or lower the load",
    ),
    "refused": (503, "their instance took no connection", "see its log: did it end, or not listen?"),
    "broke": (502, "their instance ended before it answered", "see its log"),
    "malformed": (400, "they were no HTTP", "see what the journey sends"),
    "ending": (503, "the deployment was being removed", "let the load end before"),
}
"""Reason of an answer that the ingress made → its status, why in words, and what to do."""
