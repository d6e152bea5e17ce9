"""The `kubernetes` platform's part of an experiment file: what is deployed, what is set in it, how it is reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from towtank.fields import ControlWay, Duration, Model, Size, Slug, Whole
from towtank.platforms.base import Edge
from towtank.platforms.kubernetes.paths import parse_path
from towtank.platforms.output import DEFAULT_LOG_LIMIT_BYTES
from towtank.platforms.readiness import Ready
from towtank.platforms.target_transport import DEFAULT_TARGET, OwnTransport, TargetsTransport
from towtank.platforms.transport import Headers

DEFAULT_TIMEOUT_S = 300.0
"""Images have to be pulled and volumes to be bound; a cluster autoscaler needs minutes for a node."""
MOST_COPIES = 1000
"""Far beyond what an experiment needs; stops a typing error before it fills a cluster."""
_REFUSED_WAYS = {
    "port_forward": "it squeezes every request through the API server and one kubelet",
    "api_proxy": "every request would pass the API server",
}
WAYS = ("node_port", "load_balancer", "cluster_ip", "ingress", "gateway")
_LEADS = {
    "service": WAYS[:3], "ingress": ("ingress",), "httproute": ("gateway",), "gateway": ("gateway",),
    "knative": WAYS[:3],
}  # fmt: skip
"""What requests can go to → the ways that lead there; those to Knative lead to the Service of its ingress."""
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_LABEL_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"

Name = Annotated[str, Field(pattern=_NAME)]
"""Name of an object: lower-case letters, digits, ``-`` and ``.``."""


def object_name(value: object) -> str:
    """Read the name of one object of a manifest, ``Kind/name``.

    Raises
    ------
    ValueError
    """
    kind, slash, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not kind[:1].isupper() or not name:
        raise ValueError(f"{value!r} names no object; allowed is Kind/name, such as Deployment/shop")
    return f"{kind}/{name}"


ObjectName = Annotated[str, BeforeValidator(object_name)]


def _local_path(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError(f"{value!r} is not the path of a file or folder")
    if "://" in value:
        raise ValueError(f"{value!r} is an address; a deployment is made of files in the experiment's folder")
    return value


LocalPath = Annotated[str, AfterValidator(_local_path)]


class Helm(Model):
    """A Helm chart; `helm template` turns it into manifests, and Towtank creates them."""

    chart: LocalPath = Field(description="folder or .tgz of the chart, in the experiment's folder")
    values: dict[str, Any] = Field({}, description="values of the chart")
    release: Annotated[str, Field(pattern=_LABEL_NAME)] = Field("towtank", description="name of the release")


class Patch(Model):
    """What is merged into one object; lists of things with names are merged by name, null removes a key."""

    target: ObjectName = Field(description="the object, as Kind/name", examples=["Deployment/shop"])
    merge: dict[str, Any] = Field(min_length=1, description="mapping that is merged into it")


class Copies(Model):
    """The same objects several times: the granularity of a deployment as a factor.

    Copy n of `shop` is `shop-n`. Each has a label `towtank.dev/copy`, and copies of Services select the pods of
    their own number.
    """

    of: tuple[ObjectName, ...] = Field(min_length=1, description="objects, as Kind/name")
    count: Whole = Field(ge=1, le=MOST_COPIES, description="how many of each")


class Disturber(Model):
    """Helpers for faults that need a hand on the node: one privileged pod of the engine's image on each."""

    image: str = Field(min_length=1, description="image of the engine, as the cluster pulls it")
    namespace: Annotated[str, Field(pattern=_LABEL_NAME)] | None = Field(
        None,
        description="a namespace that exists and lets privileged pods in; without it one is made, and removed",
    )
    node_selector: dict[str, str] = Field(
        {}, description="labels of the nodes that they stand on; without it all"
    )
    control: ControlWay = None


class EdgeProxy(Model):
    """Toxiproxy in front of the Services that faults on edges are about; in every run, with a fault or without."""

    image: str = Field(min_length=1, description="image of Toxiproxy, as the cluster pulls it")
    engine: str = Field(
        min_length=1,
        description="image of the engine, as the cluster pulls it; it stands beside Toxiproxy and undoes what it did",
    )
    namespace: Annotated[str, Field(pattern=_LABEL_NAME)] | None = Field(
        None, description="a namespace that exists; without it one is made, and removed"
    )
    node_selector: dict[str, str] = Field({}, description="labels of the nodes that it may stand on")
    control: ControlWay = None


class KubernetesReady(Ready):
    """When the deployment counts as ready: its pods are, and then this probe of each target is answered."""

    timeout: Duration = Field(
        DEFAULT_TIMEOUT_S, gt=0, description="how long all pods and targets together may take to become ready"
    )


def _way(value: object) -> object:
    if value in _REFUSED_WAYS:
        raise ValueError(
            f"{value!r} is no way for a measured load: {_REFUSED_WAYS[str(value)]}; allowed are {', '.join(WAYS)}"
        )
    return value


class KubernetesTarget(OwnTransport):
    """A Service, an Ingress, a Gateway with or without an HTTPRoute, or a Knative Service that requests go to."""

    service: Name | None = Field(None, description="name of a Service of the deployment")
    ingress: Name | None = Field(
        None, description="name of an Ingress of the deployment, instead of a Service"
    )
    httproute: Name | None = Field(
        None,
        description="name of an HTTPRoute of the deployment, instead of a Service; its Gateway may be anybody's",
    )
    gateway: Name | None = Field(
        None, description="name of a Gateway of the deployment, where its routes ask for no host of their own"
    )
    knative: Name | None = Field(
        None, description="name of a Knative Service or Route of the deployment, instead of a Service"
    )
    tag: Annotated[str, Field(pattern=_LABEL_NAME)] | None = Field(
        None, description="a tag of the Knative Service's traffic; without it, requests are split as it says"
    )
    port: Annotated[Whole, Field(ge=1, le=65535)] | Annotated[str, Field(pattern=_LABEL_NAME)] | None = Field(
        None,
        description="number or name of the Service's port, or of the Gateway's listener; not needed where there is one",
    )
    through: Annotated[
        Literal["node_port", "load_balancer", "cluster_ip", "ingress", "gateway"] | None,
        BeforeValidator(_way),
    ] = Field(
        None, description="how requests get into the cluster; without it, what the Service's type offers"
    )
    address: str | None = Field(
        None,
        min_length=1,
        description="host name or IP address to use instead of the one that the cluster names",
    )
    headers: Headers | None = Field(None, description="sent with every request, instead of the deployment's")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [key for key in _LEADS if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(f"`{key}`" for key in given) if given else "none of them"
            known = ", ".join(f"`{key}`" for key in list(_LEADS)[:-1])
            raise ValueError(f"needs exactly one of {known} and `{list(_LEADS)[-1]}`; found {found}")
        if self.tag is not None and self.knative is None:
            raise ValueError("`tag` goes with `knative` only")
        leads = _LEADS[given[0]]
        if self.through is not None and self.through not in leads:
            raise ValueError(f"`through: {self.through}` does not go with `{given[0]}`")
        return self


def _as_target(value: object) -> object:
    return {"service": value} if isinstance(value, str) else value


AnyTarget = Annotated[
    KubernetesTarget, BeforeValidator(_as_target, json_schema_input_type=str | KubernetesTarget)
]


class PodLogging(Model):
    """Which pods are listened to."""

    pods: dict[str, str] = Field(
        {},
        description="labels of the pods whose output is kept and counted; without any, all of the deployment",
    )


def _logging(value: object) -> object:
    if value is True or value is None:
        raise ValueError(
            "allowed are `false`, for no logs at all, and `{pods: {LABEL: VALUE}}`, for those of some pods"
        )
    return value


class KubernetesConfig(TargetsTransport):
    """Objects in a Kubernetes cluster. What Towtank created, and nothing else, is removed at the end.

    Exactly one of `manifests`, `kustomize` and `helm` says what. Without `targets` there is one, `app`: the only
    Service.
    """

    _made_from: ClassVar = "`manifests`, `kustomize` and `helm`"

    platform: Literal["kubernetes"] = Field(description="objects in a Kubernetes cluster")
    context: str = Field(
        min_length=1,
        description="context of the kubeconfig; there is no default, so that no cluster is met by accident",
    )
    kubeconfig: str | None = Field(
        None, min_length=1, description="file with the context; without it $KUBECONFIG, then ~/.kube/config"
    )
    namespace: Annotated[str, Field(pattern=_LABEL_NAME)] | None = Field(
        None, description="a namespace that exists, and is left there; without it one is made, and removed"
    )
    manifests: tuple[LocalPath, ...] = Field((), description="YAML files in the experiment's folder")
    kustomize: LocalPath | None = Field(
        None, description="folder with a kustomization.yaml; needs kubectl or kustomize"
    )
    helm: Helm | None = Field(None, description="a Helm chart; needs helm")
    fields: dict[str, Any] = Field(
        {},
        alias="set",
        description="path of a field → its value, such as `Deployment/shop:spec.replicas`; one that matches nothing "
        "is an error",
    )
    patches: tuple[Patch, ...] = Field(
        (), description="what is merged into objects, for fields that are not there yet"
    )
    copies: tuple[Copies, ...] = Field((), description="objects that are wanted several times")
    nodes: Whole | None = Field(None, ge=1, description="pods may use this many nodes, the first by name")
    cluster_scoped: tuple[ObjectName, ...] = Field(
        (),
        description="objects that belong to no namespace and may be created all the same, such as ClusterRole/reader",
    )
    targets: dict[Slug, AnyTarget] | None = Field(
        None, min_length=1, description="target → Service, or how it is reached"
    )
    headers: Headers = Field(
        default_factory=dict, description="sent with every request; {env.NAME} and {file.PATH} take secrets"
    )
    disturber: Disturber | None = Field(
        None,
        description="helpers on the nodes, for the faults `stop`, `partition` and `disk` (docs/faults.md)",
    )
    edge_proxy: EdgeProxy | None = Field(
        None,
        description="a proxy for the faults `delay`, `drop`, `abort` and `partition` on edges (docs/faults.md)",
    )
    ready: KubernetesReady = Field(KubernetesReady(), description="when the deployment counts as ready")
    logs: Annotated[PodLogging | Literal[False], BeforeValidator(_logging)] = Field(
        PodLogging(),
        description="which pods are listened to; false for none, which spares the right to read logs",
    )
    log_limit: Size = Field(
        DEFAULT_LOG_LIMIT_BYTES, description="bytes of output kept of each container; all are counted"
    )

    @field_validator("fields")
    @classmethod
    def _paths(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for path, value in fields.items():
            parse_path(path)
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"the value of {path!r} cannot stand in a manifest: {error}") from error
        return fields

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("manifests", "kustomize", "helm") if getattr(self, key)]
        if len(given) > 1 or not (given or any(self.made_of())):
            found = " and ".join(f"`{key}`" for key in given) if given else "none of them"
            raise ValueError(f"needs exactly one of {self._made_from}; found {found}")
        for name in self.target_names():
            scheme = "https" if self.transport_of(name).tls is not None else "http"
            self.transport_of(name).check_addresses([f"{scheme}://{name}"])
        return self

    def made_of(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Objects that are written in the experiment file itself: where, and what."""
        yield from ()

    def wanted_targets(self) -> dict[str, KubernetesTarget] | None:
        """Targets by name; None where it is left to what the deployment turns out to have."""
        return self.targets

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        wanted = self.wanted_targets()
        return tuple(wanted) if wanted is not None else (DEFAULT_TARGET,)

    def file_sections(self) -> Iterator[tuple[str | int, ...]]:
        """Key paths of the files and folders that the deployment is made of."""
        for index in range(len(self.manifests)):
            yield "manifests", index
        if self.kustomize is not None:
            yield ("kustomize",)
        if self.helm is not None:
            yield "helm", "chart"

    def file_problems(self, root: Path) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What is wrong with manifests, and with what is set in them: key path and words. Asks no cluster."""
        from towtank.platforms.kubernetes.sources import written_problems  # noqa: PLC0415 - only when there are files

        yield from written_problems(self, root)

    def never_empty(self, root: Path) -> str:
        """See `base.KnowsItIsNeverEmpty`; of what a program renders nothing is known."""
        from towtank.platforms.kubernetes.sources import written_changed  # noqa: PLC0415 - as above
        from towtank.platforms.kubernetes.without_load import kept_pods  # noqa: PLC0415

        return "; ".join(kept_pods([one.thing for one in written_changed(self, root)]))

    def edge_problem(self, edge: Edge, root: Path) -> tuple[str, str, str] | None:
        """Why no proxy can stand on an edge: key of the fault, words, what to do; None where nothing is known."""
        from towtank.platforms.kubernetes.edges import written_problem  # noqa: PLC0415 - as above

        return written_problem(self, edge, root)
