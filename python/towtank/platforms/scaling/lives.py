"""Instances of a scaled component from their creation to their end, and which of them goes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Life:
    """One instance; times are CLOCK_MONOTONIC in ns, None until it is so far.

    Parameters
    ----------
    name : str
    number : int
        It was the n-th that was made.
    created_ns : int
        When it was decided.
    """

    name: str
    number: int
    created_ns: int
    pid: int | None = None
    started_ns: int | None = None
    ready_ns: int | None = None
    changed_ns: int | None = None
    answers: bool = False
    first_request_ns: int | None = None
    ending_ns: int | None = None
    stopped: bool = False
    given_up: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has asked it to end."""
        return self.ending_ns is None

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return self.answers and self.is_wanted


def to_end(lives: Iterable[Life], count: int) -> list[Life]:
    """Whose turn it is to go: those that are not ready, then those that became ready last.

    Notes
    -----
    As Kubernetes' replica set ranks pods (pkg/controller: ActivePodsWithRanks); nodes and deletion costs play no part
    on one machine.
    """
    wanted = [life for life in lives if life.is_wanted]
    ranked = sorted(wanted, key=lambda life: (life.is_ready, -(life.ready_ns or 0), -life.number))
    return ranked[: max(0, count)]
