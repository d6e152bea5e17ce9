"""Ways of deploying an application: each turns its part of an experiment file into a running deployment.

`base` is the seam, `registry` the table of what there is; `local` runs processes on this machine, `external`
uses what is already there. docs/platforms.md says what each offers and how to write another.
"""

from towtank.platforms.base import (
    DeployContext,
    Deployment,
    Instance,
    LogFile,
    Platform,
    SystemEvent,
    Target,
)
from towtank.platforms.registry import PLATFORMS, PlatformKind, config_model, create, names

__all__ = [
    "PLATFORMS",
    "DeployContext",
    "Deployment",
    "Instance",
    "LogFile",
    "Platform",
    "PlatformKind",
    "SystemEvent",
    "Target",
    "config_model",
    "create",
    "names",
]
