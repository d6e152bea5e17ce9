"""The `cloud_run` platform's part of an experiment file: services, how they scale, and how requests reach them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from towtank.fields import Duration, Model, Slug, Whole
from towtank.platforms.external_config import Address
from towtank.platforms.knative.functions import Name, Quantity, Seconds
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.readiness import Ready
from towtank.platforms.target_transport import DEFAULT_TARGET, OwnTransport, TargetsTransport
from towtank.platforms.transport import Headers

ENDPOINT = "https://run.googleapis.com"
DEFAULT_CPU, DEFAULT_MEMORY_BYTES, DEFAULT_MAX_INSTANCES = 1.0, 512 << 20, 100
"""What Cloud Run gives where nothing is said (cloud.google.com/run/docs/configuring)."""
DEFAULT_TIMEOUT_S = 300.0
"""An image is pulled and an instance started before a revision is ready."""
_ALLOWED = "allowed are http://HOST[:PORT] and https://HOST[:PORT]"


def _no_socket(value: str) -> str:
    if value.startswith("unix:"):
        raise ValueError(f"found {value!r}; {_ALLOWED}")
    return value


Endpoint = Annotated[Address, AfterValidator(_no_socket)]


class Vpc(Model):
    """The way into a private network."""

    connector: str = Field(
        min_length=1, description="Serverless VPC Access connector, by name or as projects/…"
    )
    egress: Literal["all", "private"] = Field("private", description="which of its own traffic goes there")


class Service(Model):
    """A service of one container; a field that is not given is Cloud Run's own."""

    image: str = Field(min_length=1, description="container image, as Cloud Run pulls it")
    command: tuple[str, ...] = Field((), description="program in the image, instead of its own")
    args: tuple[str, ...] = Field((), description="its arguments")
    env: dict[str, str] = Field({}, description="environment variables")
    port: Annotated[Whole, Field(ge=1, le=65535)] | None = Field(
        None, description="where it listens; without it 8080, and $PORT says so"
    )
    http2: bool = Field(default=False, description="it speaks HTTP/2 without TLS there")
    cpu: Quantity | None = Field(None, description="of an instance, such as 1 or 500m")
    memory: Quantity | None = Field(None, description="of an instance, such as 512Mi")
    concurrency: Annotated[Whole, Field(ge=1, le=1000)] | None = Field(
        None, description="requests that one instance gets at a time"
    )
    min_instances: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        None, description="instances that are kept without load, and paid"
    )
    max_instances: Annotated[Whole, Field(ge=1, le=1000)] | None = Field(
        None, description="instances at most"
    )
    cpu_always: bool | None = Field(
        None,
        description="CPU also between requests (billed by instance); false: only during them (billed by request)",
    )
    startup_boost: bool | None = Field(None, description="more CPU while an instance starts")
    generation: Literal[1, 2] | None = Field(None, description="of the execution environment")
    timeout: Annotated[Seconds, Field(ge=1, le=3600)] | None = Field(
        None, description="longest time of a request"
    )
    vpc: Vpc | None = Field(None, description="the way into a private network")
    service_account: str | None = Field(None, min_length=1, description="identity of its instances")
    public: bool = Field(
        default=False,
        description="anybody may call it; else `headers` must carry an identity token",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        low, high = self.min_instances, self.max_instances
        if low is not None and high is not None and high < low:
            raise ValueError(f"`max_instances` is {high}, below `min_instances`, which is {low}")
        if self.cpu is not None and quantity(self.cpu) < 1 and (self.concurrency or 1) > 1:
            raise ValueError(
                f"`cpu` is {self.cpu} and `concurrency` {self.concurrency}: below one CPU, Cloud Run gives an instance "
                "one request at a time"
            )
        return self

    @property
    def vcpu(self) -> float:
        """CPU of an instance."""
        return DEFAULT_CPU if self.cpu is None else quantity(self.cpu)

    @property
    def memory_bytes(self) -> float:
        """Memory of an instance."""
        return DEFAULT_MEMORY_BYTES if self.memory is None else quantity(self.memory)


class CloudRunTarget(OwnTransport):
    """A service that requests go to."""

    service: Name = Field(description="name of a service of the deployment")
    headers: Headers | None = Field(None, description="sent with every request, instead of the deployment's")


def _as_target(value: object) -> object:
    return {"service": value} if isinstance(value, str) else value


AnyTarget = Annotated[
    CloudRunTarget, BeforeValidator(_as_target, json_schema_input_type=str | CloudRunTarget)
]


class CloudRunReady(Ready):
    """When the deployment counts as ready: its revisions are, and then this probe of each service is answered."""

    timeout: Duration = Field(
        DEFAULT_TIMEOUT_S, gt=0, description="how long all services together may take to become ready"
    )


class CloudRunConfig(TargetsTransport):
    """Services on Google Cloud Run. What Towtank created, and nothing else, is removed at the end.

    Credentials are those that Google's own libraries find. Without `targets` each service is one by its name; the only
    one is `app`.
    """

    platform: Literal["cloud_run"] = Field(description="services on Google Cloud Run")
    project: str = Field(
        pattern=r"^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$",
        description="project by its id; there is no default, so that none is charged by accident",
    )
    region: str = Field(pattern=r"^[a-z]+(-[a-z]+)+[0-9]+$", description="such as europe-west1")
    endpoint: Endpoint = Field(ENDPOINT, description="address of the Admin API")
    services: dict[Name, Service] = Field(min_length=1, description="services by name")
    targets: dict[Slug, AnyTarget] | None = Field(None, min_length=1, description="target → service")
    headers: Headers = Field(
        default_factory=dict,
        description='sent with every request, such as {authorization: "Bearer {env.ID_TOKEN}"}',
    )
    ready: CloudRunReady = Field(CloudRunReady(), description="when the deployment counts as ready")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, target in self.resolved().items():
            if target.service not in self.services:
                raise ValueError(
                    f"the target {name!r} names {target.service!r}, which is no service of the deployment"
                )
        return self

    def resolved(self) -> dict[str, CloudRunTarget]:
        """Target → service, also of those that are not written."""
        if self.targets is not None:
            return dict(self.targets)
        names = [DEFAULT_TARGET] if len(self.services) == 1 else list(self.services)
        return {
            target: CloudRunTarget(service=name) for target, name in zip(names, self.services, strict=True)
        }

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        return tuple(self.resolved())

    def used_at_least(self) -> tuple[float, float]:
        """See `base.BoundsUse`."""
        return self._used({name: one.min_instances or 0 for name, one in self.services.items()})

    def used_at_most(self) -> tuple[float, float]:
        """See `base.BoundsUse`."""
        return self._used(
            {name: one.max_instances or DEFAULT_MAX_INSTANCES for name, one in self.services.items()}
        )

    def _used(self, counts: dict[str, int]) -> tuple[float, float]:
        return (
            sum(counts[name] * one.vcpu for name, one in self.services.items()),
            sum(counts[name] * one.memory_bytes for name, one in self.services.items()),
        )
