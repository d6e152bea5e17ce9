"""What a scaled deployment went through: steps of instances, decisions, seconds; read by telemetry from its thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

ALL = ""
"""Stands for all components together."""
MOST_KEPT = 1_000_000
"""Of each kind; what comes later is not told. Four components for a day make a third of it."""


@dataclass(frozen=True)
class Step:
    """Something that happened to an instance: created, started, ready, unready, first_request, terminating, gone."""

    t_ns: int
    component: str
    instance: str
    name: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """Numbers of a component at a moment, by metric."""

    t_ns: int
    component: str
    values: Mapping[str, float]


@dataclass
class Journal:
    """Everything since the deployment was made, in the order in which it came; safe for several threads."""

    _steps: list[Step] = field(default_factory=list)
    _numbers: list[Numbers] = field(default_factory=list)
    _counts: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, t_ns: int, component: str, instance: str, name: str, **detail: object) -> None:
        """Note what happened to an instance."""
        with self._lock:
            if len(self._steps) < MOST_KEPT:
                self._steps.append(Step(t_ns, component, instance, name, detail))

    def numbers(self, t_ns: int, component: str, values: Mapping[str, float]) -> None:
        """Note numbers that hold at a moment: of a decision, or of a second."""
        with self._lock:
            if len(self._numbers) < MOST_KEPT:
                self._numbers.append(Numbers(t_ns, component, dict(values)))

    def counts(self, t_ns: int, component: str, values: Mapping[str, float]) -> None:
        """Note how many instances there are in which state, from a moment on; also of all components together."""
        with self._lock:
            if self._counts.get(component) == values:
                return
            self._counts[component] = dict(values)
            changed = [Numbers(t_ns, component, dict(values)), Numbers(t_ns, ALL, self._total())]
            if len(self._numbers) < MOST_KEPT:
                self._numbers += changed

    def _total(self) -> dict[str, float]:
        total: Counter[str] = Counter()
        for values in self._counts.values():
            total.update(values)
        return dict(total)

    def steps_after(self, index: int) -> list[Step]:
        """Steps from the index on."""
        with self._lock:
            return self._steps[index:]

    def numbers_after(self, index: int) -> list[Numbers]:
        """Numbers from the index on."""
        with self._lock:
            return self._numbers[index:]

    def counts_now(self) -> dict[str, Mapping[str, float]]:
        """Component, and `ALL` → how many instances there are in which state."""
        with self._lock:
            return {**self._counts, ALL: self._total()} if self._counts else {}


@runtime_checkable
class SeenScaling(Protocol):
    """A deployment that scales its components itself and can be looked at while it does."""

    def scaling_journal(self) -> Journal | None:
        """What it went through; None when none of its components is scaled."""
