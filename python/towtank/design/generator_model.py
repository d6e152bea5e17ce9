"""Where the load comes from: this machine, a cluster, machines elsewhere; one engine, or several workers."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from towtank.fields import ControlWay, Cores, Duration, Model, Ratio, Size, Whole, read_ssh_address

MOST_LANES = 128
"""Threads of all workers together: a row has 8 bits for them, of which one is kept free."""
_IMAGE = re.compile(
    r"[a-zA-Z0-9][a-zA-Z0-9._-]*(:[0-9]{1,5}(?=/))?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class Dns(Model):
    """How names of hosts are resolved; the time of it is kept, and the answers take turns over connections."""

    servers: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        None,
        min_length=1,
        description="addresses of servers, such as 127.0.0.1:53; without them the system's",
    )
    timeout: Duration = Field(5.0, gt=0, description="a name that takes longer has no address")
    cache: Literal["ttl", "forever", "never"] = Field(
        "ttl", description="ask again when an answer has expired, never, or for every connection"
    )


def image_name(value: str) -> str:
    """Read the name of an image.

    Raises
    ------
    ValueError
        A cluster would only say so when it tries to pull.
    """
    if _IMAGE.fullmatch(value) is None:
        raise ValueError(
            f"{value!r} names no image; allowed is [registry[:port]/]name[:tag][@sha256:…], lower-case but for the tag"
        )
    return value


class GeneratorCluster(Model):
    """The cluster that workers run in, as one Job (`where: cluster`)."""

    context: str = Field(min_length=1, description="context of the kubeconfig; always named")
    kubeconfig: str | None = Field(None, description="another kubeconfig than the usual one")
    image: Annotated[str, AfterValidator(image_name)] = Field(
        description="image of the engine, as the cluster pulls it",
        examples=["registry.example/towtank-engine:0.1.0"],
    )
    namespace: str | None = Field(
        None, pattern=_DNS_LABEL, description="a namespace that exists; without it one is made and removed"
    )
    node_selector: dict[str, str] = Field({}, description="labels of nodes that workers may use")
    control: ControlWay = None
    cpu: Cores | None = Field(None, description="CPU that each worker reserves")
    memory: Size | None = Field(None, description="memory that each worker reserves, and may use at most")
    start_timeout: Duration = Field(180.0, gt=0, description="all workers must be there within this")


def read_where(value: object) -> object:
    """Read `where`: a word, or a list of addresses.

    Raises
    ------
    ValueError
    """
    if isinstance(value, str) and value in ("local", "cluster"):
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(
            f"{value!r} is no place; allowed are local, cluster, or a list such as [ssh://a, ssh://user@b:2222]"
        )
    return tuple(read_ssh_address(one) for one in value)


class Generator(Model):
    """Where and how the engine runs."""

    where: Annotated[Literal["local", "cluster"] | tuple[str, ...], BeforeValidator(read_where)] = Field(
        "local", description="`local` (this machine), `cluster`, or a list of ssh:// addresses"
    )
    workers: Whole = Field(
        1, ge=1, le=64, description="engines that share the load; on several machines, one after the other"
    )
    cluster: GeneratorCluster | None = Field(None, description="for `where: cluster`")
    engine: str | None = Field(
        None,
        description="path of the engine on machines reached by ssh; without it this one's is copied there",
    )
    threads: Whole = Field(1, ge=1, le=64, description="threads of the engine, or of each worker")
    nice: Whole = Field(
        0, ge=-20, le=19, description="its priority; below 0 goes before the system under test"
    )
    cpus: tuple[Annotated[Whole, Field(ge=0, le=4095)], ...] | None = Field(
        None, min_length=1, description="CPUs that it is pinned to; local workers share them out"
    )
    spread: Literal["per-connection-random", "per-request-round-robin", "least-outstanding"] = Field(
        "per-connection-random", description="how requests are spread over the instances of a target"
    )
    instance_header: str | None = Field(
        None, description="answer header that names the instance that answered"
    )
    traceparent: Ratio = Field(
        0.0, description="share of requests that carry a W3C `traceparent` header with its sampled flag set"
    )
    dns: Dns = Field(Dns(), description="how names of hosts are resolved")
    max_connections: Whole = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="connections open at once, at most, over all workers; a load that may need more is refused",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.workers * self.threads > MOST_LANES:
            raise ValueError(
                f"{self.workers} workers with {self.threads} threads each are {self.workers * self.threads}; "
                f"at most {MOST_LANES} are possible"
            )
        if self.where == "cluster" and self.cluster is None:
            raise ValueError("`where: cluster` needs to know which: `cluster: {context: …, image: …}`")
        if self.where != "cluster" and self.cluster is not None:
            raise ValueError("`cluster` belongs to `where: cluster`")
        if self.engine is not None and self.where in ("local", "cluster"):
            raise ValueError("`engine` belongs to machines that are reached by ssh: `where: [ssh://…]`")
        if self.where not in ("local", "cluster") and self.workers < len(self.where):
            raise ValueError(
                f"{len(self.where)} machines and {self.workers} worker(s): each needs at least one"
            )
        self._check_cpus()
        return self

    def _check_cpus(self) -> None:
        if self.cpus is None or not self.is_shared:
            return
        lanes = self.workers * self.threads
        if self.where == "local" and len(self.cpus) < lanes:
            raise ValueError(
                f"{len(self.cpus)} `cpus` for {self.workers} workers with {self.threads} thread(s) each: they need "
                f"{lanes}, or none"
            )
        if isinstance(self.where, tuple) and self.workers > len(self.where):
            raise ValueError("workers on one machine would be pinned to the same `cpus`: leave them out")

    @property
    def is_shared(self) -> bool:
        """Whether workers carry the load out, rather than one engine of this machine."""
        return self.where != "local" or self.workers > 1
