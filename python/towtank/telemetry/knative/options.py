"""Options of the source `knative`: where the parts of an installed Knative are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from towtank.fields import ControlWay, Model, Whole

SYSTEM = "knative-serving"
Port = Annotated[Whole, Field(ge=1, le=65535)]


class Envoy(Model):
    """Pods of the ingress, and where their counters are; as Contour has them by default."""

    namespace: str = Field("projectcontour", min_length=1, description="namespace of its pods")
    selector: str = Field("app=envoy", min_length=1, description="labels of its pods")
    port: Port = Field(8002, description="where it serves its counters")
    path: str = Field("/stats/prometheus", pattern="^/", description="in Prometheus' text format")


class KnativeOptions(Model):
    """Options of the source `knative`."""

    namespace: str = Field(SYSTEM, min_length=1, description="where Knative's autoscaler and activator are")
    envoy: Envoy | None = Field(Envoy(), description="the ingress; null where it is no Envoy")
    control: ControlWay = Field(
        None,
        description="how questions travel: `direct` to the pods' own addresses, or `port_forward` through the API "
        "server; null tries the first, and then the other",
    )
