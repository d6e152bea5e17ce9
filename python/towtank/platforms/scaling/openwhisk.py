"""OpenWhisk's scheduling as a policy: a container for every request that finds none, while a pool has memory."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from towtank.autoscaling.openwhisk.balancer import Slots, hash_of, place
from towtank.autoscaling.openwhisk.pool import Activation, ContainerPool
from towtank.autoscaling.openwhisk.settings import MIB, OpenWhiskSettings
from towtank.platforms.scaling.policy import Policy, Seen, Shortage, Wanted


@dataclass(frozen=True)
class _Placed:
    """A container: where it is, and what its pool calls it."""

    invoker: int
    container: str
    state: str


class OpenWhiskPolicy(Policy):
    """One action of one namespace on invokers that are all alike.

    Which container a request goes to, the ingress decides, in the order in which they were made: those on the home
    invoker come first. Here it is decided where new ones are made, and when idle ones go.

    Parameters
    ----------
    settings : OpenWhiskSettings
    action : str
        Where the settings name none.
    seed : int
        Of the chance that places an overload.
    """

    def __init__(self, settings: OpenWhiskSettings, action: str, *, seed: int = 0) -> None:
        super().__init__(0)
        self._settings = settings
        self._memory = settings.action_memory // MIB
        self._action = f"{settings.namespace}/{settings.action or action}"
        self._hash = hash_of(settings.namespace, self._action)
        self._pools = [
            ContainerPool(settings.pool_memory // MIB, prefix=f"invoker{index}")
            for index in range(settings.invokers)
        ]
        self._slots = [Slots(settings.pool_memory // MIB) for _ in self._pools]
        self._chance = random.Random(seed)  # noqa: S311 - a choice of machines, no secret
        self._unnamed: deque[_Placed] = deque()
        self._placed: dict[str, _Placed] = {}
        self._asked = 0

    @property
    def _count(self) -> int:
        return len(self._placed) + len(self._unnamed)

    def short(self, shortage: Shortage) -> Wanted | None:
        """Make containers for the requests that wait, as far as those that start are too few for them."""
        before = self._count
        missing = math.ceil(shortage.held / self._settings.concurrency) - shortage.starting
        for _ in range(missing):
            if all(slots.permits < self._memory for slots in self._slots):
                break
            self._place(shortage.t_s)
        return self._wanted() if self._count > before else None

    def look(self, seen: Seen) -> Wanted:
        """Note who works, let the idle ones go, and make up for requests that still wait."""
        stats = seen.stats
        for life in seen.lives:
            placed, now = self._placed.get(life.name), stats.instances.get(life.name)
            if placed is not None and now is not None:
                busy = bool(now.in_flight or now.requests)
                self._pools[placed.invoker].note(
                    placed.container,
                    active=now.in_flight,
                    started=life.answers,
                    used_s=seen.t_s if busy else None,
                )
        unused = {
            (index, name)
            for index, pool in enumerate(self._pools)
            for name in pool.unused(seen.t_s, self._settings.idle_timeout)
        }
        remove = tuple(
            name for name, placed in self._placed.items() if (placed.invoker, placed.container) in unused
        )
        for name in remove:
            self._release(name)
        starting = sum(life.is_wanted and not life.answers for life in seen.lives)
        short = Shortage(seen.t_s, stats.held, stats.ready, starting)
        found = (self.short(short) if stats.held else None) or self._wanted()
        return Wanted(found.replicas, found.values, remove=remove)

    def made(self, name: str) -> Mapping[str, object]:
        """Give a placed container its name."""
        placed = self._unnamed.popleft()
        self._placed[name] = placed
        return {"invoker": placed.invoker, "state": placed.state}

    def gone(self, name: str) -> None:
        """Its memory is free again."""
        placed = self._placed.get(name)
        if placed is not None:
            self._pools[placed.invoker].lost(placed.container, 0.0)
            self._release(name)

    def _place(self, t_s: float) -> None:
        """Choose an invoker as for an activation, and make a container there; memory is taken by container."""
        self._asked += 1
        found = place(
            self._action,
            self._slots,
            hashed=self._hash,
            concurrency=1,
            memory=self._memory,
            chance=self._chance,
        )
        if found is None:
            return
        asked = Activation(str(self._asked), self._action, self._memory)
        run = self._pools[found.invoker].start(asked, t_s)
        if run is not None:
            self._unnamed.append(_Placed(found.invoker, run.container, run.state))

    def _release(self, name: str) -> None:
        placed = self._placed.pop(name)
        self._slots[placed.invoker].release(self._action, concurrency=1, memory=self._memory)

    def _wanted(self) -> Wanted:
        used = [pool for pool in self._pools if pool.containers]
        return Wanted(
            self._count,
            {
                "autoscaler_desired": self._count,
                "pool_memory_used_bytes": float(self._count * self._settings.action_memory),
                "invokers_used": float(len(used)),
            },
        )
