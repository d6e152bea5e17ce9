"""Which invoker an activation goes to: a home by hash, steps by coprimes, chance when all are full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_INT32 = 1 << 32


class Chance(Protocol):
    """A source of random whole numbers, such as `random.Random`."""

    def randrange(self, stop: int, /) -> int:
        """From 0 to stop − 1."""


def java_hash(text: str) -> int:
    """`String.hashCode` of Java, −2³¹ … 2³¹ − 1."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _INT32
    return value - _INT32 if value >= _INT32 // 2 else value


def hash_of(namespace: str, action: str) -> int:
    """The number that places an action: the same on every controller (generateHash)."""
    return abs(java_hash(namespace) ^ java_hash(action))


def step_sizes(count: int) -> tuple[int, ...]:
    """Numbers up to `count` that are coprime to it and to each other (pairwiseCoprimeNumbersUntil)."""
    found: list[int] = []
    for number in range(1, count + 1):
        if math.gcd(number, count) == 1 and all(math.gcd(number, other) == 1 for other in found):
            found.append(number)
    return tuple(found)


class Slots:
    """What a controller believes to be free on one invoker (NestedSemaphore).

    Parameters
    ----------
    permits : int
        Memory in MiB; below 0 once the invoker was overloaded.
    """

    def __init__(self, permits: int) -> None:
        self.permits = permits
        self._open: dict[str, int] = {}
        self._running: dict[str, int] = {}

    def take(self, action: str, *, concurrency: int, memory: int, force: bool = False) -> bool:
        """Take room for one activation: in a container that has room, else of the memory.

        Parameters
        ----------
        action : str
        concurrency : int
            Activations that one container takes at a time.
        memory : int
            Of one container, in MiB.
        force : bool
            Take it even where there is none.
        """
        if self._open.get(action, 0) > 0:
            self._open[action] -= 1
        elif force or self.permits >= memory:
            self.permits -= memory
            self._open[action] = self._open.get(action, 0) + concurrency - 1
        else:
            return False
        self._running[action] = self._running.get(action, 0) + 1
        return True

    def release(self, action: str, *, concurrency: int, memory: int) -> None:
        """Give an activation's room back; a whole container's worth of it is memory again."""
        self._running[action] -= 1
        self._open[action] += 1
        if self._open[action] >= concurrency:
            self._open[action] -= concurrency
            self.permits += memory


@dataclass(frozen=True)
class Placement:
    """Where an activation goes, and whether that was by chance because no invoker had room."""

    invoker: int
    overloaded: bool


def place(
    action: str,
    slots: Sequence[Slots],
    *,
    hashed: int,
    concurrency: int,
    memory: int,
    chance: Chance,
    usable: Sequence[bool] | None = None,
) -> Placement | None:
    """Find an invoker for one activation and take its room there.

    Parameters
    ----------
    action : str
    slots : sequence of Slots
        Of every invoker.
    hashed : int
        Of `hash_of`.
    concurrency, memory : int
        As of `Slots.take`.
    chance : Chance
    usable : sequence of bool, optional
        Whether each invoker is healthy; all without it.

    Returns
    -------
    Placement or None
        None when no invoker is healthy.

    Notes
    -----
    `schedule` in core/controller/…/loadBalancer/ShardingContainerPoolBalancer.scala
    """
    count = len(slots)
    healthy = [index for index in range(count) if usable is None or usable[index]]
    if not healthy:
        return None
    sizes = step_sizes(count)
    step, index = sizes[hashed % len(sizes)], hashed % count
    for _ in range(count):
        if index in healthy and slots[index].take(action, concurrency=concurrency, memory=memory):
            return Placement(index, overloaded=False)
        index = (index + step) % count
    index = healthy[chance.randrange(len(healthy))]
    slots[index].take(action, concurrency=concurrency, memory=memory, force=True)
    return Placement(index, overloaded=True)
