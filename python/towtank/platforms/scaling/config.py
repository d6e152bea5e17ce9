"""The `scaling` key of a local component: which autoscaler is emulated, and what its ingress does with requests."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.autoscaling.kpa.settings import KpaSettings
from towtank.autoscaling.openwhisk.settings import OpenWhiskSettings
from towtank.fields import Duration, Model, Whole

DEFAULT_PENDING = 1024
"""Envoy's `max_pending_requests`, which the ingresses of Knative leave at its default."""
DEFAULT_HELD_S = 300.0
"""Knative's default timeout of a revision."""
OPENWHISK_HELD_S = 60.0
"""How long OpenWhisk lets a blocking invocation wait for its result."""
QUEUE_PER_REQUEST = 10
"""Requests that Knative's queue-proxy lets wait for each that its container takes (pkg/queue: QueueDepth)."""
Spread = Literal["random_choice_2", "first_available", "round_robin", "least_outstanding"]
KINDS = ("kpa", "hpa", "fixed", "openwhisk")


class Scaling(Model):
    """How many instances there are, and who decides. Reports call it an emulation."""

    kpa: KpaSettings | None = Field(None, description="as Knative's autoscaler decides, including to zero")
    hpa: HpaSettings | None = Field(None, description="as Kubernetes' horizontal pod autoscaler decides")
    fixed: Annotated[Whole, Field(ge=1, le=1000)] | None = Field(
        None, description="always this many, behind the same ingress: what autoscalers are compared with"
    )
    openwhisk: OpenWhiskSettings | None = Field(None, description="as OpenWhisk schedules containers")
    container_concurrency: Whole = Field(
        0,
        ge=0,
        description="with `hpa` and `fixed`: requests that an instance takes at a time; 0 is no limit",
    )
    pending: Annotated[Whole, Field(ge=0)] | None = Field(
        None,
        description="requests held at most, more are answered 503; null is 1024, with `openwhisk` no bound",
    )
    held_timeout: Duration | None = Field(
        None, gt=0, description="a request held longer is answered 504; null is 300 s, with `openwhisk` 60 s"
    )
    spread: Spread | None = Field(
        None, description="which instance a request goes to; null is as the platform does that is emulated"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"{found} is given; allowed is exactly one of {', '.join(KINDS)}")
        if self.container_concurrency and (self.kpa or self.openwhisk):
            key = "kpa.container_concurrency" if self.kpa else "openwhisk.concurrency"
            raise ValueError(f"`container_concurrency` stands beside `{given[0]}`; there it is `{key}`")
        return self

    @property
    def kind(self) -> str:
        """Which of `KINDS`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def concurrency(self) -> int:
        """Requests that an instance takes at a time; 0 is no limit."""
        if self.kpa is not None:
            return self.kpa.container_concurrency
        return self.openwhisk.concurrency if self.openwhisk is not None else self.container_concurrency

    def limits(self) -> dict[str, object]:
        """What the ingress is told at the beginning."""
        openwhisk = self.openwhisk
        pending = self.pending if self.pending is not None or openwhisk is not None else DEFAULT_PENDING
        default_s = DEFAULT_HELD_S if openwhisk is None else OPENWHISK_HELD_S
        held_s = default_s if self.held_timeout is None else self.held_timeout
        found: dict[str, object] = {
            "pending": pending,
            "held_timeout_ms": round(held_s * 1000),
            "policy": self.spread or self._own_spread(),
        }
        if openwhisk is not None:
            found["invocations_per_minute"] = openwhisk.invocations_per_minute
            found["concurrent_invocations"] = openwhisk.concurrent_invocations
        return found

    def _own_spread(self) -> str:
        return {"kpa": "knative", "openwhisk": "first_available"}.get(self.kind, "random_choice_2")

    def never_empty(self) -> str:
        """Why there would always be an instance, with the key that says so; empty where there may be none."""
        if self.fixed is not None:
            return f"`fixed: {self.fixed}` is always {self.fixed}"
        if self.hpa is not None:
            return f"`hpa` keeps {self.hpa.min_replicas} (`min_replicas`)"
        if self.kpa is not None and self.kpa.min_scale:
            return f"`kpa` keeps {self.kpa.min_scale} (`min_scale`)"
        if self.kpa is not None and not self.kpa.enable_scale_to_zero:
            return "`kpa` keeps the last instance (`enable_scale_to_zero: false`)"
        return ""

    @property
    def emulated(self) -> str:
        """The platform whose autoscaler it stands for; empty for a fixed number."""
        names = {"kpa": "Knative (KPA)", "hpa": "Kubernetes (HPA)", "openwhisk": "OpenWhisk"}
        return names.get(self.kind, "")
