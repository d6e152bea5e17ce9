"""What each kind of fault can be told, besides when it comes and what it hits."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from towtank.fields import Cores, Duration, Model, Ratio, Size
from towtank.platforms.base import LOAD

LEAST_LEFT_BYTES = 256 * 2**20
"""Never less than this is left free on a disk that others use as well."""


class KillOptions(Model):
    """End an instance with SIGKILL, or ask it first."""

    grace: Duration = Field(
        0.0, description="time in which it may end by itself (SIGTERM first); 0 kills it at once"
    )


class StopOptions(Model):
    """Stop every process of an instance (SIGSTOP): it is there, its connections stand, and nothing is answered."""


class CpuOptions(Model):
    """Take CPU away from an instance."""

    cores: Cores = Field(description="what is left of it", examples=["100m"])


class DiskOptions(Model):
    """Fill the deployment's own disk with one file in `{data}`, or in a volume of its pods."""

    size: Size = Field(gt=0, description="bytes of the file, at most", examples=["1GiB"])
    leave: Size = Field(
        2**30,
        description="bytes that stay free on the disk whatever `size` says; at least 256 MiB, unless the folder is "
        "a disk of its own",
    )
    folder: str = Field(
        ".", description="folder of the file, inside `{data}`; in a pod the path of a volume, such as `/data`"
    )


class EdgeOptions(Model):
    """The way from one component to another, or from the load to a target."""

    source: str = Field(
        LOAD,
        alias="from",
        description="where calls come from: a component, or `load` for the load's own requests",
    )


class SharedEdgeOptions(EdgeOptions):
    """A fault that need not meet every connection."""

    share: Ratio = Field(1.0, gt=0, description="share of the connections that it meets, drawn at random")


class DelayOptions(SharedEdgeOptions):
    """Delay what comes back over an edge."""

    delay: Duration = Field(gt=0, description="how much later answers arrive")
    jitter: Duration = Field(0.0, description="up to this much more or less, drawn anew for each piece")


class DropOptions(SharedEdgeOptions):
    """Let calls over an edge vanish: connections stand, and nothing comes through."""


class AbortOptions(SharedEdgeOptions):
    """Break calls over an edge: connections are reset."""


class PartitionOptions(EdgeOptions):
    """Cut an edge, an instance or its node off: nothing comes through in either direction."""

    of: Literal["edge", "instance", "node"] = Field(
        "edge",
        description="what is cut: the way of calls over an edge, all ways of an instance, or those of its node",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.of != "edge" and self.source != LOAD:
            raise ValueError(f"`from` belongs to `of: edge`; `of: {self.of}` cuts the ways to everybody")
        return self
