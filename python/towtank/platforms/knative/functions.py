"""A function in an experiment file: an image and a few fields, each of which a factor may set.

What a field does not say is left to the cluster: its ConfigMaps `config-autoscaler` and `config-defaults` decide then.
Bounds are those of Knative's own admission (`pkg/apis/autoscaling` of knative.dev/serving v0.42).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from towtank.fields import Duration, Model, Number, Ratio, Whole
from towtank.platforms.kubernetes.quantities import quantity

_HOUR_S = 3600.0
_SHORTEST_WINDOW_S = 6.0
_METRICS = {"kpa": ("concurrency", "rps"), "hpa": ("cpu", "memory")}
_ONLY_KPA = (
    "target_utilization", "panic_window", "panic_threshold", "scale_down_delay", "retention", "burst_capacity",
    "activation_scale",
)  # fmt: skip


def _quantity(value: str) -> str:
    quantity(value)
    return value


def _whole_seconds(value: float) -> float:
    if not value.is_integer():
        raise ValueError(f"{value:g} s is no whole number of seconds, which is all that Knative takes here")
    return value


Quantity = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(_quantity)]
"""As Kubernetes writes it: 250m, 64Mi."""
Seconds = Annotated[Duration, AfterValidator(_whole_seconds)]
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$")]
"""Of a function: it becomes part of a host name, and of the names of revisions."""


class Amounts(Model):
    """CPU and memory of one instance."""

    cpu: Quantity | None = Field(None, description="such as 250m")
    memory: Quantity | None = Field(None, description="such as 64Mi")


class RevisionScaling(Model):
    """How instances come and go; without a field, as the cluster has it."""

    by: Literal["kpa", "hpa"] | None = Field(
        None, description="Knative's own autoscaler, or Kubernetes' horizontal one"
    )
    metric: Literal["concurrency", "rps", "cpu", "memory"] | None = Field(
        None, description="what is looked at: concurrency or rps (kpa), cpu or memory (hpa)"
    )
    target: Number | None = Field(
        None, ge=0.01, description="of it, for one instance: requests, requests/s, percent of CPU or MiB"
    )
    target_utilization: Ratio | None = Field(
        None, ge=0.01, le=1, description="share of the target that is aimed at"
    )
    min_scale: Whole | None = Field(None, ge=0, description="instances at least")
    max_scale: Whole | None = Field(None, ge=0, description="instances at most; 0 for no bound")
    initial_scale: Whole | None = Field(
        None, ge=0, description="instances at first; 0 only where the cluster allows it"
    )
    activation_scale: Whole | None = Field(
        None, ge=2, description="instances at least when it comes from zero"
    )
    window: Annotated[Seconds, Field(ge=_SHORTEST_WINDOW_S, le=_HOUR_S)] | None = Field(
        None, description="over which load is averaged, 6 s to 1 h"
    )
    panic_window: Ratio | None = Field(
        None, ge=0.01, le=1, description="share of `window` that panic is decided by"
    )
    panic_threshold: Number | None = Field(
        None, ge=1.1, le=10, description="panic begins where load is so many times what instances can take"
    )
    scale_down_delay: Annotated[Seconds, Field(le=_HOUR_S)] | None = Field(
        None, description="how long load must be lower before instances go"
    )
    retention: Annotated[Duration, Field(le=_HOUR_S)] | None = Field(
        None, description="how long the last instance stays at least, once there is nothing to do"
    )
    burst_capacity: Number | None = Field(
        None,
        ge=-1,
        description="requests that instances must be able to take at once, else the activator stays in front: 0 for "
        "only at zero, -1 for always",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        by = self.by or "kpa"
        if self.metric is not None and self.metric not in _METRICS[by]:
            raise ValueError(
                f"`metric: {self.metric}` does not go with {by}; allowed are {', '.join(_METRICS[by])}"
            )
        for key in _ONLY_KPA if by == "hpa" else ():
            if getattr(self, key) is not None:
                raise ValueError(f"`{key}` goes with kpa only: Kubernetes' autoscaler does not know it")
        if by == "hpa" and self.min_scale == 0:
            raise ValueError("`min_scale: 0` goes with kpa only: Kubernetes' autoscaler keeps one instance")
        if self.max_scale and self.max_scale < (self.min_scale or 0):
            raise ValueError(f"`max_scale` is {self.max_scale}, below `min_scale`, which is {self.min_scale}")
        if self.burst_capacity is not None and -1 < self.burst_capacity < 0:
            raise ValueError(f"`burst_capacity` is {self.burst_capacity:g}; allowed are -1, 0 and more")
        return self


class IngressLimits(Model):
    """What Envoy lets through to one revision, where Contour configures it; one more is answered 503."""

    connections: Whole | None = Field(None, ge=1, description="connections at once; Envoy's default is 1,024")
    pending: Whole | None = Field(
        None, ge=1, description="requests that wait for a connection; default 1,024"
    )
    requests: Whole | None = Field(None, ge=1, description="requests under way; default 1,024")


class Revision(Model):
    """What one revision is made of; each field may be left out."""

    image: str | None = Field(None, min_length=1, description="image, as the cluster pulls it")
    command: tuple[str, ...] = Field((), description="program in the image, instead of its own")
    args: tuple[str, ...] = Field((), description="its arguments")
    env: dict[str, str] = Field({}, description="environment variables")
    port: Annotated[Whole, Field(ge=1, le=65535)] | None = Field(
        None, description="where it listens; without it Knative says so in $PORT"
    )
    http2: bool = Field(default=False, description="it speaks HTTP/2 without TLS there")
    probe: str | None = Field(
        None, pattern="^/", description="path that answers when it is ready; without it, an open port"
    )
    requests: Amounts = Field(Amounts(), description="what an instance is given at least")
    limits: Amounts = Field(Amounts(), description="what it is given at most")
    container_concurrency: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        None, description="requests that one instance gets at a time; 0 for no bound"
    )
    timeout: Annotated[Seconds, Field(ge=1)] | None = Field(None, description="longest time of a request")
    scaling: RevisionScaling = Field(RevisionScaling(), description="how instances come and go")
    ingress: IngressLimits = Field(IngressLimits(), description="what the ingress lets through to it")
    annotations: dict[str, str] = Field({}, description="further annotations of the revision")


class Share(Revision):
    """One of several revisions that share the traffic; what it does not say is as for the function."""

    percent: Annotated[Whole, Field(ge=0, le=100)] = Field(description="of the requests")
    tag: Name | None = Field(None, description="a name under which it alone is reached")


class Function(Revision):
    """A Knative Service; with `split`, a Route to several."""

    split: dict[Name, Share] = Field({}, description="revisions by name, with their shares of the requests")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.split and sum(one.percent for one in self.split.values()) != 100:
            shares = ", ".join(f"{name} {one.percent}" for name, one in self.split.items())
            raise ValueError(f"shares of `split` must add up to 100 percent; found {shares}")
        tags = [one.tag for one in self.split.values() if one.tag]
        if len(set(tags)) != len(tags):
            raise ValueError(f"two revisions of `split` have the same tag: {', '.join(tags)}")
        if self.image is None and not (self.split and all(one.image for one in self.split.values())):
            raise ValueError("`image` is missing")
        return self

    def revisions(self) -> dict[str, Revision]:
        """Every revision by name, whole; one without a name where nothing is split."""
        if not self.split:
            return {"": self}
        own = self.model_dump(exclude={"split"}, exclude_unset=True)
        return {
            name: Revision.model_validate(
                _merged(own, one.model_dump(exclude={"percent", "tag"}, exclude_unset=True))
            )
            for name, one in self.split.items()
        }


def _merged(base: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    """Mappings are merged, all else is replaced."""
    found = dict(base)
    for key, value in over.items():
        here = found.get(key)
        found[key] = _merged(here, value) if isinstance(here, dict) and isinstance(value, dict) else value
    return found
