"""Which faults there are: one explicit table, and entry points for those of others.

Another distribution adds a fault with an entry point of the group `towtank.faults`: its name is the fault's, its value
a `FaultKind`. It needs a platform that says in its `PlatformKind` that it can do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from towtank.errors import PlatformError
from towtank.faults.options import (
    AbortOptions,
    CpuOptions,
    DelayOptions,
    DiskOptions,
    DropOptions,
    KillOptions,
    PartitionOptions,
    StopOptions,
)
from towtank.fields import Model
from towtank.plugins import PluginKind, Registry

if TYPE_CHECKING:
    from towtank.faults.base import Action

ENTRY_POINT_GROUP = "towtank.faults"


@dataclass(frozen=True)
class FaultKind(PluginKind):
    """A fault that can be named under `faults`; its config model is that of its own keys.

    Parameters
    ----------
    hits : {"instances", "deployment", "edge"}
        What it is made on.
    """

    hits: Literal["instances", "deployment", "edge"] = "instances"


FAULTS: dict[str, FaultKind] = {
    "kill": FaultKind(KillOptions, "towtank.faults.instances:Kill", "end an instance"),
    "stop": FaultKind(
        StopOptions, "towtank.faults.instances:Stop", "stop an instance (SIGSTOP), and let it go on"
    ),
    "cpu": FaultKind(CpuOptions, "towtank.faults.instances:Cpu", "take CPU away from an instance"),
    "disk": FaultKind(
        DiskOptions, "towtank.faults.disk:Disk", "fill the deployment's disk", hits="deployment"
    ),
    "delay": FaultKind(
        DelayOptions, "towtank.faults.edges:Delay", "delay what comes back over an edge", hits="edge"
    ),
    "drop": FaultKind(DropOptions, "towtank.faults.edges:Drop", "let calls over an edge vanish", hits="edge"),
    "abort": FaultKind(AbortOptions, "towtank.faults.edges:Abort", "break calls over an edge", hits="edge"),
    "partition": FaultKind(
        PartitionOptions,
        "towtank.faults.edges:Partition",
        "cut an edge, an instance or its node off",
        hits="edge",
    ),
}

_registry: Registry[FaultKind, Action] = Registry(
    "fault", table=FAULTS, kind=FaultKind, group=ENTRY_POINT_GROUP, error=PlatformError
)
names = _registry.names
kind = _registry.kind
create = _registry.create


def config_model(name: str) -> type[Model]:
    """Model of a fault's own keys, for validating its part of an experiment file."""
    return kind(name).config
