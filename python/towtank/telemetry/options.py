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
