"""Which platforms there are: one explicit table, and entry points for those of others.

Another distribution adds a platform with an entry point of the group `towtank.platforms`: its name is the
platform's, its value a `PlatformKind`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from towtank.errors import PlatformError
from towtank.fields import Model
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.local_config import LocalConfig
from towtank.plugins import PluginKind, Registry

if TYPE_CHECKING:
    from towtank.platforms.base import Platform

ENTRY_POINT_GROUP = "towtank.platforms"


class PlatformKind(PluginKind):
    """A platform; its config model has `target_names()`, its implementation is a `Platform`."""


PLATFORMS: dict[str, PlatformKind] = {
    "local": PlatformKind(
        LocalConfig, "towtank.platforms.local:LocalPlatform", "processes on this machine, under the guard"
    ),
    "external": PlatformKind(
        ExternalConfig, "towtank.platforms.external:ExternalPlatform", "addresses that are already there"
    ),
    "kubernetes": PlatformKind(
        KubernetesConfig,
        "towtank.platforms.kubernetes.platform:KubernetesPlatform",
        "objects in a Kubernetes cluster, created and removed again",
    ),
}

_registry: Registry[PlatformKind, Platform] = Registry(
    "platform", table=PLATFORMS, kind=PlatformKind, group=ENTRY_POINT_GROUP, error=PlatformError
)
names = _registry.names
kind = _registry.kind
create = _registry.create


def config_model(name: str) -> type[Model]:
    """Config model of a platform, for validating its part of an experiment file."""
    return kind(name).config
