"""Which platforms there are: one explicit table, and entry points for those of others.

Another distribution adds a platform with an entry point of the group `towtank.platforms`: its name is the
platform's, its value a `PlatformKind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from towtank.errors import PlatformError
from towtank.fields import Model
from towtank.platforms.cloud_run.config import CloudRunConfig
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.knative.config import KnativeConfig
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.openwhisk.config import OpenWhiskConfig
from towtank.plugins import PluginKind, Registry

if TYPE_CHECKING:
    from towtank.platforms.base import Platform

ENTRY_POINT_GROUP = "towtank.platforms"


@dataclass(frozen=True)
class FaultAbility:
    """How a platform makes one kind of fault.

    Parameters
    ----------
    how : str
        For the docs.
    lasts : {"must", "may", "never"}
        Whether it must, may or cannot have an end (`for`) there.
    needs : str
        Key that the deployment must have for it; empty where it needs none.
    edge_needs : str
        As `needs`, where the fault is about an edge.
    options : mapping
        Key of the fault → values that are possible there; keys that are not named may have any.
    """

    how: str
    lasts: Literal["must", "may", "never"] = "must"
    needs: str = ""
    edge_needs: str = ""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlatformKind(PluginKind):
    """A platform; its config model has `target_names()`, its implementation is a `Platform`.

    Parameters
    ----------
    faults : mapping
        Kind of fault → how it is made there; its deployments have the powers that these need.
    no_faults : str
        Why it cannot make the others.
    """

    faults: Mapping[str, FaultAbility] = field(default_factory=dict)
    no_faults: str = "nothing of it is under Towtank's control"


PLATFORMS: dict[str, PlatformKind] = {
    "local": PlatformKind(
        LocalConfig,
        "towtank.platforms.local:LocalPlatform",
        "processes on this machine, under the guard",
        faults={
            "kill": FaultAbility(
                "SIGKILL to every process of the instance; with `for`, it is then started again", lasts="may"
            ),
            "stop": FaultAbility("SIGSTOP to every process of the instance, then SIGCONT"),
            "cpu": FaultAbility("the CPU limit of the instance's control group, version 1 or 2"),
            "disk": FaultAbility("one file in `{data}`"),
            "delay": FaultAbility("Toxiproxy between the components"),
            "drop": FaultAbility("Toxiproxy between the components"),
            "abort": FaultAbility("Toxiproxy between the components"),
            "partition": FaultAbility("Toxiproxy between the components", options={"of": ("edge",)}),
        },
        no_faults="no way is known to make it on processes of this machine",
    ),
    "external": PlatformKind(
        ExternalConfig,
        "towtank.platforms.external:ExternalPlatform",
        "addresses that are already there",
        no_faults="what is at those addresses is not Towtank's to disturb",
    ),
    "kubernetes": PlatformKind(
        KubernetesConfig,
        "towtank.platforms.kubernetes.platform:KubernetesPlatform",
        "objects in a Kubernetes cluster, created and removed again",
        faults={
            "kill": FaultAbility("the pod is deleted, and its controller makes another", lasts="never"),
            "cpu": FaultAbility(
                "the running pod is resized in place (Kubernetes 1.33 or newer); without a CPU limit, the disturber of "
                "its node limits the containers' control groups"
            ),
            "stop": FaultAbility("the node's disturber sends SIGSTOP, then SIGCONT", needs="disturber"),
            "partition": FaultAbility(
                "Toxiproxy in front of a Service; or the node's disturber drops all that comes to the pod or node, or "
                "from it",
                needs="disturber",
                edge_needs="edge_proxy",
            ),
            "disk": FaultAbility("the node's disturber puts one file into a volume", needs="disturber"),
            "delay": FaultAbility("Toxiproxy in front of a Service", edge_needs="edge_proxy"),
            "drop": FaultAbility("Toxiproxy in front of a Service", edge_needs="edge_proxy"),
            "abort": FaultAbility("Toxiproxy in front of a Service", edge_needs="edge_proxy"),
        },
        no_faults="no way is known to make it on objects in a cluster",
    ),
    "knative": PlatformKind(
        KnativeConfig,
        "towtank.platforms.knative.platform:KnativePlatform",
        "functions and Services on Knative Serving, scaled by its autoscalers, to zero too",
        faults={
            "kill": FaultAbility("the pod is deleted, and Knative makes another", lasts="never"),
            "partition": FaultAbility(
                "the node's disturber drops all that comes to the pod or node, or from it", needs="disturber"
            ),
        },
        no_faults="of what befalls Knative's pods only killing and cutting off are known to work",
    ),
    "openwhisk": PlatformKind(
        OpenWhiskConfig,
        "towtank.platforms.openwhisk.platform:OpenWhiskPlatform",
        "actions on OpenWhisk, created and removed again",
        no_faults="OpenWhisk lets nobody near its containers",
    ),
    "cloud_run": PlatformKind(
        CloudRunConfig,
        "towtank.platforms.cloud_run.platform:CloudRunPlatform",
        "services on Google Cloud Run, created and removed again",
        no_faults="Cloud Run lets nobody near its instances",
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
