"""Options of the telemetry sources, as an experiment file gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from towtank.errors import TelemetryError
from towtank.fields import Duration, Model, Whole
from towtank.platforms.external_config import Address


class HostOptions(Model):
    """Options of the source `host`."""

    pressure: bool = Field(
        True,  # noqa: FBT003 - pydantic's idiom
        description="pressure stall of CPU, memory and I/O, where the kernel offers it",
    )


class ProcessOptions(Model):
    """Options of the source `process`."""

    open_files: bool = Field(
        True,  # noqa: FBT003 - pydantic's idiom
        description="count open descriptors; costs a look into a folder per process",
    )


_WHICH_NODES = "`used`: those that pods of the deployment are on; `all`: every node of the cluster"


class WatchOptions(Model):
    """Options of the source `kubernetes`."""


class ScalingOptions(Model):
    """Options of the source `scaling`."""


class MetricsOptions(Model):
    """Options of the source `metrics-server`."""

    nodes: Literal["used", "all"] = Field("used", description=_WHICH_NODES)


class KubeletOptions(Model):
    """Options of the source `kubelet`."""

    nodes: Literal["used", "all"] = Field("used", description=_WHICH_NODES)
    filesystems: bool = Field(
        True,  # noqa: FBT003 - pydantic's idiom
        description="what pods and nodes have on disk; one more question to each kubelet every 10 s",
    )


class ActivationOptions(Model):
    """Options of the source `openwhisk`."""

    settle: Duration = Field(
        2.0, le=60, description="wait after the run before activations are asked for: records come late"
    )
    most: Whole = Field(100_000, ge=200, description="activations that are asked for, of the whole namespace")


class CloudMonitoringOptions(Model):
    """Options of the source `cloud-monitoring`."""

    endpoint: Address = Field(
        "https://monitoring.googleapis.com", description="address of the Cloud Monitoring API"
    )
    settle: Duration = Field(
        240.0, le=900, description="wait after the run before metrics are asked for: they come minutes late"
    )


class CallsOptions(Model):
    """Options of the source `calls`: which counters of a page are what, and which labels name an edge."""

    path: str = Field("/metrics", pattern="^/", description="the page of each instance")
    calls: str = Field(description="counter of calls", examples=["boutique_edge_calls_total"])
    seconds: str | None = Field(None, description="counter of the time that they took, s")
    bytes: tuple[str, ...] = Field((), description="counters of their bytes, added up")
    errors: str | None = Field(None, description="counter of those that ended with an error")
    caller: str = Field("from", description="label that names who calls")
    callee: str = Field("to", description="label that names who is called")
    place: str | None = Field(
        "where",
        description="label that tells calls within a process from others; null: all are between processes",
    )
    local: str = Field("local", description="its value for calls within a process")

    def numbers(self) -> dict[str, str]:
        """Name of a counter → what its number is called, with its unit."""
        named = {self.calls: "calls", **dict.fromkeys(self.bytes, "calls_bytes")}
        if self.seconds is not None:
            named[self.seconds] = "calls_s"
        if self.errors is not None:
            named[self.errors] = "calls_failed"
        return named


Options = TypeVar("Options", bound=Model)


def read_options(source: str, model: type[Options], options: Mapping[str, Any]) -> Options:
    """Validate what `ObserveContext.options` holds.

    Raises
    ------
    TelemetryError
        Names each wrong option and those that exist.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise TelemetryError(
            f"options of telemetry source {source!r} are wrong: {wrong}",
            hint=f"options of {source!r} are {', '.join(model.model_fields) or 'none'}",
        ) from error
