"""The containers of one invoker: which one takes an activation, which must go for it, and who waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

State = Literal["warm", "warming", "prewarmed", "recreated-prewarmed", "cold", "recreated"]


@dataclass
class Container:
    """A container: what runs in it, and since when it is idle."""

    name: str
    action: str | None
    memory: int
    kind: str
    concurrency: int = 1
    active: int = 0
    started: bool = False
    last_used_s: float = 0.0

    @property
    def has_room(self) -> bool:
        """Whether it takes one more activation."""
        return self.active < self.concurrency


@dataclass(frozen=True)
class Activation:
    """One request to run an action: what it needs of a pool.

    Parameters
    ----------
    id : str
    action : str
        With its namespace: a container is never shared between namespaces.
    memory : int
        MiB.
    kind : str
        Runtime, for prewarmed containers.
    concurrency : int
    """

    id: str
    action: str
    memory: int
    kind: str = ""
    concurrency: int = 1


@dataclass(frozen=True)
class Run:
    """An activation that found its container.

    Parameters
    ----------
    activation, container : str
    state : str
        How the container was found; all but warm and warming ones are a cold start of the action.
    removed : tuple of str
        Containers that had to go for it.
    """

    activation: str
    container: str
    state: State
    removed: tuple[str, ...] = ()


@dataclass
class ContainerPool:
    """Containers of one invoker within a memory pool.

    Prewarmed containers lie outside of the pool until they are taken, as published.

    Parameters
    ----------
    memory : int
        MiB of the pool (`user-memory`).
    prefix : str
        Of the containers' names.
    prewarm : tuple of (kind, memory, count)

    Notes
    -----
    core/invoker/…/containerpool/ContainerPool.scala
    """

    memory: int
    prefix: str = "container"
    prewarm: tuple[tuple[str, int, int], ...] = ()
    _pool: dict[str, Container] = field(default_factory=dict)
    _prewarmed: dict[str, Container] = field(default_factory=dict)
    _waiting: deque[Activation] = field(default_factory=deque)
    _made: int = 0

    def __post_init__(self) -> None:
        for kind, memory, count in self.prewarm:
            for _ in range(count):
                self._add_prewarmed(kind, memory)

    @property
    def containers(self) -> tuple[Container, ...]:
        """All that are in the pool."""
        return tuple(self._pool.values())

    @property
    def prewarmed(self) -> tuple[Container, ...]:
        """Those that wait outside of it."""
        return tuple(self._prewarmed.values())

    @property
    def waiting(self) -> int:
        """Activations that found no container."""
        return len(self._waiting)

    def offer(self, activation: Activation, t_s: float) -> list[Run]:
        """Take an activation in: what runs now because of it; nothing when it has to wait behind others."""
        self._waiting.append(activation)
        return self._drain(t_s)

    def start(self, activation: Activation, t_s: float) -> Run | None:
        """Find a new container for an activation, whoever else seems to have room; None when there is none."""
        return self._run(activation, t_s, new=True)

    def note(self, container: str, *, active: int, started: bool, used_s: float | None) -> None:
        """Take in what was seen of a container from outside, where single activations are not told.

        Parameters
        ----------
        container : str
        active : int
            Activations that it works on.
        started : bool
            Whether it is initialised.
        used_s : float, optional
            When it last worked; None leaves that as it was.
        """
        one = self._pool[container]
        one.active, one.started = active, started
        if used_s is not None:
            one.last_used_s = used_s

    def finished(self, container: str, t_s: float) -> list[Run]:
        """Note that a container has done one activation: what runs now because of it."""
        one = self._pool[container]
        one.active -= 1
        one.started = True
        one.last_used_s = t_s
        return self._drain(t_s)

    def lost(self, container: str, t_s: float) -> list[Run]:
        """Note that a container is gone: what runs now because of it."""
        del self._pool[container]
        return self._drain(t_s)

    def unused(self, t_s: float, idle_s: float) -> list[str]:
        """Take out the containers that were idle for too long: their names."""
        found = [c.name for c in self._idle() if t_s - c.last_used_s >= idle_s]
        for name in found:
            del self._pool[name]
        return found

    def _drain(self, t_s: float) -> list[Run]:
        """Run those that wait, in their order: the first one that finds nothing keeps the others waiting."""
        runs = []
        while self._waiting:
            run = self._run(self._waiting[0], t_s)
            if run is None:
                break
            self._waiting.popleft()
            runs.append(run)
        return runs

    def _run(self, activation: Activation, t_s: float, *, new: bool = False) -> Run | None:
        """A warm container, a prewarmed or a new one, or one in the place of idle ones."""
        if _memory(c for c in self._pool.values() if not c.has_room) + activation.memory > self.memory:
            return None
        found = None if new else self._with_room(activation)
        if found is not None:
            return self._begin(found, activation, "warm" if found.started else "warming", t_s)
        if _memory(self._pool.values()) + activation.memory <= self.memory:
            container, prewarmed = self._new(activation)
            return self._begin(container, activation, "prewarmed" if prewarmed else "cold", t_s)
        removed = self._evict(activation.memory)
        if not removed:
            return None
        container, prewarmed = self._new(activation)
        state: State = "recreated-prewarmed" if prewarmed else "recreated"
        return self._begin(container, activation, state, t_s, removed)

    def _with_room(self, activation: Activation) -> Container | None:
        """Of the same action, initialised ones first."""
        fitting = [c for c in self._pool.values() if c.action == activation.action and c.has_room]
        return min(fitting, key=lambda c: not c.started, default=None)

    def _begin(
        self,
        container: Container,
        activation: Activation,
        state: State,
        t_s: float,
        removed: Iterable[str] = (),
    ) -> Run:
        container.active += 1
        container.last_used_s = t_s
        return Run(activation.id, container.name, state, tuple(removed))

    def _evict(self, memory: int) -> list[str]:
        """Idle containers, the longest idle first, until there is enough; none when there never is."""
        idle = sorted(self._idle(), key=lambda c: c.last_used_s)
        needed = min(memory, _memory(c for c in self._pool.values() if c.has_room))
        if not idle or _memory(idle) < needed:
            return []
        removed = []
        for container in idle:
            if needed <= 0:
                break
            del self._pool[container.name]
            needed -= container.memory
            removed.append(container.name)
        return removed

    def _idle(self) -> list[Container]:
        return [c for c in self._pool.values() if c.active == 0 and c.started]

    def _new(self, activation: Activation) -> tuple[Container, bool]:
        """A prewarmed container of the right kind and size, which is replaced at once, or a new one."""
        for name, container in self._prewarmed.items():
            if (container.kind, container.memory) == (activation.kind, activation.memory):
                del self._prewarmed[name]
                self._add_prewarmed(container.kind, container.memory)
                container.action, container.concurrency = activation.action, activation.concurrency
                self._pool[name] = container
                return container, True
        container = Container(
            self._name(), activation.action, activation.memory, activation.kind, activation.concurrency
        )
        self._pool[container.name] = container
        return container, False

    def _add_prewarmed(self, kind: str, memory: int) -> None:
        name = self._name()
        self._prewarmed[name] = Container(name, None, memory, kind)

    def _name(self) -> str:
        self._made += 1
        return f"{self.prefix}-{self._made - 1}"


def _memory(containers: Iterable[Container]) -> int:
    return sum(container.memory for container in containers)
