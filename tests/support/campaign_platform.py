"""A platform whose deployments are lines in a journal: for tests of the campaign's own logic."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.fields import Model
from towtank.platforms.base import DeployContext, Instance, LogFile, SystemEvent, Target


class JournalConfig(Model):
    """What a deployment of the journal platform is to be."""

    platform: Literal["journal"]
    name: str = "app"
    instances: int = 1

    def target_names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass
class JournalDeployment:
    config: JournalConfig
    context: DeployContext
    platform: JournalPlatform
    removed: bool = False
    happened: list[SystemEvent] = field(default_factory=list)

    @property
    def targets(self) -> dict[str, Target]:
        # addresses kept for documentation (RFC 5737): the fake engine sends nothing there
        instances = tuple(
            Instance(f"{self.config.name}-{i}", f"http://192.0.2.{i + 1}:8000")
            for i in range(self.config.instances)
        )
        return {self.config.name: Target(self.config.name, instances)}

    def wait_ready(self, *, cancelled: Any) -> None:
        cancelled()
        self.platform.note("ready", self.context.name)
        if self.context.name in self.platform.never_ready:
            raise ReadinessTimeout(f"{self.context.name} was not ready after 1 s", hint="look into its log")

    def events(self) -> list[SystemEvent]:
        if self.platform.lost:
            raise PlatformError("the guard was lost")
        return list(self.happened)

    def happen(self, kind: str) -> None:
        self.happened.append(SystemEvent(time.monotonic_ns(), kind, f"{self.config.name}-0", f"it {kind}"))

    def images(self) -> dict[str, list[str]]:
        return {name: list(digests) for name, digests in self.platform.images.items()}

    def describe(self) -> dict[str, Any]:
        return {"instances": list(self.targets), "images": self.images()}

    def remove(self) -> list[LogFile]:
        if not self.removed:
            self.platform.note("remove", self.context.name)
            self.platform.alive.discard(self.context.token)
            self.removed = True
        path = self.context.log_dir / f"{self.config.name}-0.log"
        path.write_text("bye\n")
        return [LogFile(f"{self.config.name}-0", path, 4, 4)]


@dataclass
class JournalPlatform:
    """Remembers everything that was asked of it."""

    name: str = "journal"
    journal: list[str] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)
    never_ready: set[str] = field(default_factory=set)
    refuses: str = ""
    swept: list[str] = field(default_factory=list)
    lost: bool = False
    images: dict[str, list[str]] = field(default_factory=dict)
    deployments: list[JournalDeployment] = field(default_factory=list)

    def note(self, what: str, name: str) -> None:
        self.journal.append(f"{what} {name}")

    def check(self, config: Any, root: Path | None = None) -> list[str]:
        return [self.refuses] if self.refuses else []

    def deploy(self, config: Any, context: DeployContext) -> JournalDeployment:
        self.note("deploy", context.name)
        self.alive.add(context.token)
        self.deployments.append(JournalDeployment(config, context, self))
        return self.deployments[-1]

    def sweep(self, token: str) -> int:
        self.swept.append(token)
        present = token in self.alive
        self.alive.discard(token)
        return int(present)
