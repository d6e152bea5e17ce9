"""Options of the telemetry source `agent`, as an experiment file gives them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from towtank.fields import ControlWay, Duration, Model, SshAddress

_ABSOLUTE = r"^/"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class AgentOptions(Model):
    """Options of the source `agent`."""

    image: str | None = Field(
        None,
        min_length=1,
        description="image of the engine, as the cluster pulls it; in a cluster it is needed",
    )
    hosts: tuple[SshAddress, ...] | None = Field(
        None,
        min_length=1,
        description="machines reached by ssh, instead of a cluster's nodes or this machine",
    )
    engine: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="path of the engine on `hosts`; without it this one's is copied there"
    )
    namespace: str | None = Field(
        None, pattern=_DNS_LABEL, description="a namespace that exists; without it one is made and removed"
    )
    node_selector: dict[str, str] = Field(
        {}, description="labels of nodes that agents stand on; all without it"
    )
    control: ControlWay = None
    ceph_sockets: str | None = Field(
        None, pattern=_ABSOLUTE, description="folder of ceph-fuse's admin sockets, on every node"
    )
    start_timeout: Duration = Field(90.0, gt=0, description="all agents must answer within this")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.hosts is not None:
            inside = [key for key in ("image", "namespace", "node_selector", "control") if getattr(self, key)]
            if inside:
                raise ValueError(
                    f"`{inside[0]}` is about nodes of a cluster, and `hosts` names other machines"
                )
            if len(set(self.hosts)) < len(self.hosts):
                raise ValueError("a machine stands twice in `hosts`")
        elif self.engine is not None:
            raise ValueError("`engine` belongs to machines that are reached by ssh: `hosts: [ssh://…]`")
        return self
