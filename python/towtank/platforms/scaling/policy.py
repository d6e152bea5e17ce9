"""What decides how many instances there are: the seam between the controller and the emulated autoscalers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from towtank.platforms.scaling.lives import Life
from towtank.platforms.scaling.seam import Stats


@dataclass(frozen=True)
class Seen:
    """What a policy sees each second: what the ingress said, and every instance that is there."""

    stats: Stats
    lives: Sequence[Life]

    @property
    def t_s(self) -> float:
        """Now."""
        return self.stats.t_s


@dataclass(frozen=True)
class Shortage:
    """A request that nobody could take.

    Parameters
    ----------
    t_s : float
    held : int
        Requests that wait, this one included.
    ready, starting : int
        Instances that take requests, and those that do not yet.
    """

    t_s: float
    held: int
    ready: int
    starting: int


@dataclass(frozen=True)
class Wanted:
    """What a policy wants.

    Parameters
    ----------
    replicas : int
    values : mapping
        Metric → number, for the record; what it was decided by.
    limits : mapping
        What the ingress is to be told, where it changes.
    remove : tuple of str
        Instances that must go, by name; without it the controller chooses.
    note : str
        Something that a person should know of the decision.
    """

    replicas: int
    values: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, object] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    note: str = ""


class Policy:
    """Always the same number; others decide by what they see.

    Parameters
    ----------
    at_start : int
        Instances that are started at once and must be ready before any load.
    """

    def __init__(self, at_start: int) -> None:
        self.at_start = at_start

    def look(self, seen: Seen) -> Wanted:
        """Decide, each second; a policy with longer ticks gives the same again in between."""
        del seen
        return Wanted(self.at_start)

    def short(self, shortage: Shortage) -> Wanted | None:
        """Decide at once, because a request found nobody; None when it has to wait for the next second."""
        del shortage
        return None

    def made(self, name: str) -> Mapping[str, object]:
        """Hear that an instance was created; what is to be noted of it."""
        del name
        return {}

    def gone(self, name: str) -> None:
        """Hear that an instance is gone, or on its way out."""
