"""A platform in memory: starts nothing, keeps the contract, and misbehaves when a test asks it to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.fields import Model
from towtank.platforms.base import Cancelled, DeployContext, Instance, LogFile, SystemEvent, Target


class FakeConfig(Model):
    """One target with some instances."""

    platform: Literal["fake"]
    replicas: int = 1
    ready: bool = True

    def target_names(self) -> tuple[str, ...]:
        return ("app",)


class FakePlatform:
    """Deployments that exist in this object only.

    Attributes
    ----------
    journal : list of str
        What was done, in order: "deploy one", "ready one", "remove one".
    alive : dict
        Token → name of what exists.
    refuses : str
        A problem that `check` finds.
    never_ready : set of str
        Deployments that do not become ready.
    events_next : dict
        Deployment → kinds of events that its next incarnation will have.
    lost : bool
        Nothing can be said about deployments any more.
    """

    name = "fake"

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.alive: dict[str, str] = {}
        self.refuses = ""
        self.never_ready: set[str] = set()
        self.events_next: dict[str, list[str]] = {}
        self.lost = False

    def check(self, config: FakeConfig, root: Path | None = None) -> Sequence[str]:
        return [self.refuses] if self.refuses else []

    def deploy(self, config: FakeConfig, context: DeployContext) -> FakeDeployment:
        self.journal.append(f"deploy {context.name}")
        self.alive[context.token] = context.name
        return FakeDeployment(self, config, context)

    def sweep(self, token: str) -> int:
        return 0 if self.alive.pop(token, None) is None else 1


class FakeDeployment:
    """Instances that are only names."""

    def __init__(self, platform: FakePlatform, config: FakeConfig, context: DeployContext) -> None:
        self._platform = platform
        self._config = config
        self._context = context
        self._kinds = platform.events_next.pop(context.name, [])
        self._events: list[SystemEvent] = []
        self._removed = False

    @property
    def targets(self) -> Mapping[str, Target]:
        count = self._config.replicas
        return {
            "app": Target(
                "app", tuple(Instance(f"app-{i}", f"http://127.0.0.1:{9 + i}") for i in range(count))
            )
        }

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        cancelled()
        if not self._config.ready or self._context.name in self._platform.never_ready:
            raise ReadinessTimeout(
                f"{self._context.name} was not ready within 0 s: instance app-0 wrote nothing",
                hint="it never will be",
            )
        self._platform.journal.append(f"ready {self._context.name}")

    def events(self) -> Sequence[SystemEvent]:
        if self._platform.lost and not self._removed:
            raise PlatformError("the platform was lost")
        while self._kinds:
            kind = self._kinds.pop(0)
            self._events.append(SystemEvent(time.monotonic_ns(), kind, "app-0", f"app-0 {kind}"))
        return list(self._events)

    def describe(self) -> dict[str, Any]:
        return {"platform": "fake", "instances": [{"name": i.name} for i in self.targets["app"].instances]}

    def remove(self) -> Sequence[LogFile]:
        if not self._removed:
            self._platform.journal.append(f"remove {self._context.name}")
        self._removed = True
        self._platform.alive.pop(self._context.token, None)
        return ()
