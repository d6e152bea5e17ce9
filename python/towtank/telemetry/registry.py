"""Which telemetry sources there are: one explicit table, and entry points for those of others.

Another distribution adds a source with an entry point of the group `towtank.telemetry`: its name is the source's,
its value a `SourceKind`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from towtank.errors import TelemetryError
from towtank.fields import Model
from towtank.plugins import PluginKind, Registry
from towtank.telemetry.agent.options import AgentOptions
from towtank.telemetry.knative.options import KnativeOptions
from towtank.telemetry.netdata.options import NetdataOptions
from towtank.telemetry.options import (
    ActivationOptions,
    CallsOptions,
    CloudMonitoringOptions,
    HostOptions,
    KubeletOptions,
    MetricsOptions,
    ProcessOptions,
    ScalingOptions,
    WatchOptions,
)
from towtank.telemetry.otlp.options import OtlpOptions
from towtank.telemetry.prometheus.options import PrometheusOptions

if TYPE_CHECKING:
    from towtank.telemetry.base import Source

ENTRY_POINT_GROUP = "towtank.telemetry"


@dataclass(frozen=True)
class SourceKind(PluginKind):
    """A telemetry source that can be named under `observe`; its config model is that of its options.

    Parameters
    ----------
    platforms : tuple of str
        It sees deployments on these platforms only; empty when the platform does not matter.
    """

    platforms: tuple[str, ...] = ()


_IN_CLUSTERS = ("kubernetes", "knative")
SOURCES: dict[str, SourceKind] = {
    "host": SourceKind(
        HostOptions, "towtank.telemetry.host:HostSource", "this machine, and Towtank's own share"
    ),
    "process": SourceKind(
        ProcessOptions,
        "towtank.telemetry.process:ProcessSource",
        "each local instance with all its processes",
    ),
    "calls": SourceKind(
        CallsOptions,
        "towtank.telemetry.calls:CallsSource",
        "how often components of local deployments call each other, as they count it themselves",
        ("local",),
    ),
    "scaling": SourceKind(
        ScalingOptions,
        "towtank.telemetry.scaling:ScalingSource",
        "instances, decisions and requests of local deployments with `scaling`",
        ("local",),
    ),
    "prometheus": SourceKind(
        PrometheusOptions,
        "towtank.telemetry.prometheus.source:PrometheusSource",
        "queries of the file, asked of a Prometheus server",
    ),
    "netdata": SourceKind(
        NetdataOptions,
        "towtank.telemetry.netdata.source:NetdataSource",
        "charts of the file, asked of a Netdata agent",
    ),
    "kubernetes": SourceKind(
        WatchOptions,
        "towtank.telemetry.kubernetes:KubernetesSource",
        "replicas, nodes, autoscalers and the life of every pod, from watches",
        _IN_CLUSTERS,
    ),
    "kubelet": SourceKind(
        KubeletOptions,
        "towtank.telemetry.kubelet:KubeletSource",
        "CPU, memory, network, storage and throttling of pods and nodes, from the kubelets",
        _IN_CLUSTERS,
    ),
    "metrics-server": SourceKind(
        MetricsOptions,
        "towtank.telemetry.metrics_server:MetricsServerSource",
        "CPU and memory of pods and nodes, from the metrics API",
        _IN_CLUSTERS,
    ),
    "knative": SourceKind(
        KnativeOptions,
        "towtank.telemetry.knative.source:KnativeSource",
        "decisions of Knative's autoscaler; requests and queues of ingress, activator and queue-proxy",
        ("knative",),
    ),
    "agent": SourceKind(
        AgentOptions,
        "towtank.telemetry.agent.source:AgentSource",
        "nodes of the cluster, or other machines: CPU, memory, disks, network, pressure, mounts, starts of containers",
    ),
    "otlp": SourceKind(
        OtlpOptions,
        "towtank.telemetry.otlp.source:OtlpSource",
        "spans of traced requests, sent by the application through OpenTelemetry",
    ),
    "openwhisk": SourceKind(
        ActivationOptions,
        "towtank.telemetry.activations:ActivationsSource",
        "activations of actions on OpenWhisk: waiting, initialising (cold starts), running",
        ("openwhisk",),
    ),
    "cloud-monitoring": SourceKind(
        CloudMonitoringOptions,
        "towtank.telemetry.cloud_monitoring:CloudMonitoringSource",
        "services on Cloud Run: instances, requests, CPU, memory and starts, from Cloud Monitoring",
        ("cloud_run",),
    ),
}

_registry: Registry[SourceKind, Source] = Registry(
    "telemetry source", table=SOURCES, kind=SourceKind, group=ENTRY_POINT_GROUP, error=TelemetryError
)
names = _registry.names
kind = _registry.kind
create = _registry.create


def options_model(name: str) -> type[Model]:
    """Option model of a source, for validating its part of an experiment file."""
    return kind(name).config
