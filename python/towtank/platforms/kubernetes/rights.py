"""The rights that Towtank needs in a cluster, whether it has them, and the manifest that grants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.ownership import Owned

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_METRICS = "metrics.k8s.io"
LOGS = "pods/log"
_OWN = ("get", "create", "delete")
FORWARD = "pods/portforward"
_FORWARD_VERBS = ("get", "create")
_FORWARD_WHY = "for orders to helpers to which there is no route from here"


@dataclass(frozen=True)
class Right:
    """Something that has to be allowed.

    Parameters
    ----------
    verb, group, resource : str
        As the API names them; a subresource stands behind a slash, and `joined` verbs are a list for people.
    namespace : str
        Where; empty for the whole cluster.
    why : str
        What does not work without it.
    optional : bool
        Without it something cannot be seen, and all else works.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    why: str
    optional: bool = False

    @property
    def words(self) -> str:
        """For people."""
        thing = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {thing} {where} ({self.why})"


_COMMON: tuple[tuple[str, str, tuple[str, ...], str, bool], ...] = (
    ("", "pods", ("get", "list", "watch", "delete"), "to see what becomes of pods", False),
    ("", LOGS, ("get",), "to keep and count what pods write; not needed with `logs: false`", False),
    ("", "pods/resize", ("update",), "for the fault `cpu`", True),
    ("", FORWARD, _FORWARD_VERBS, _FORWARD_WHY, True),
    ("", "events", ("list", "watch"), "to say why a pod does not start", False),
    ("", "services", ("get",), "to find the way to a target", False),
    (
        "",
        "persistentvolumeclaims",
        ("get", "list", "delete"),
        "to remove what a StatefulSet leaves behind",
        False,
    ),
    (
        "coordination.k8s.io",
        "leases",
        ("get", "list", "create", "update", "delete"),
        "to mark what is in use",
        False,
    ),
    ("apps", "replicasets", ("list", "watch"), "to follow rollouts", True),
    ("autoscaling", "horizontalpodautoscalers", ("list", "watch"), "to follow autoscalers", True),
)
"""Group, resource, verbs, what for, optional; in the namespace of the deployment."""
_CLUSTER: tuple[tuple[str, str, tuple[str, ...], str, bool], ...] = (
    ("", "namespaces", ("get",), "to tell clusters apart, and to see whether a namespace is there", False),
    ("", "nodes", ("list", "watch"), "to find addresses of nodes and notice lost ones", True),
    (_METRICS, "nodes", ("get", "list"), "for `settle: {until: {cpu_below: …}}`", True),
)
_SOURCES: dict[str, tuple[tuple[str, str, tuple[str, ...], bool], ...]] = {
    "metrics-server": ((_METRICS, "pods", ("list",), False), (_METRICS, "nodes", ("list",), False)),
    "kubelet": (("", "nodes/proxy", ("get",), False),),
    "kubernetes": (
        ("apps", "deployments", ("list", "watch"), True),
        ("apps", "statefulsets", ("list", "watch"), True),
        ("apps", "daemonsets", ("list", "watch"), True),
    ),
    "knative": (("", "pods", ("list",), False),),
    "agent": (
        ("apps", "daemonsets", ("get", "create", "delete"), True),
        ("", "secrets", ("get", "create", "delete"), True),
        ("", "nodes", ("list",), False),
    ),
}
"""Telemetry source → group, resource, verbs, whether it is in the namespace of the deployment."""
_OWN_NAMESPACE: tuple[str, ...] = ("create", "delete")
USUAL: tuple[tuple[str, str], ...] = (
    ("", "services"), ("", "configmaps"), ("", "secrets"), ("", "serviceaccounts"), ("", "pods"),
    ("", "persistentvolumeclaims"), ("apps", "deployments"), ("apps", "statefulsets"), ("apps", "daemonsets"),
    ("batch", "jobs"), ("autoscaling", "horizontalpodautoscalers"), ("networking.k8s.io", "ingresses"),
)  # fmt: skip
"""What deployments are made of as a rule; the manifest in the docs grants these, and others are added by hand."""


def needed(namespace: str | None, things: Iterable[Owned] | None = None, *, logs: bool = True) -> list[Right]:
    """Rights that a deployment needs.

    Parameters
    ----------
    namespace : str, optional
        A given one; without it the right to make and remove namespaces is needed, and the rest everywhere.
    things : iterable of Owned, optional
        What is created; without it what deployments usually are made of.
    logs : bool
        Logs are kept; else reading them only helps to say why a pod does not start.
    """
    where = namespace or ""
    found = [
        Right(verb, group, resource, where, why, optional or (resource == LOGS and not logs))
        for group, resource, verbs, why, optional in _COMMON
        for verb in verbs
    ]
    found += [
        Right(verb, group, resource, "", why, optional)
        for group, resource, verbs, why, optional in _CLUSTER
        for verb in verbs
    ]
    found += [right for source in _SOURCES for right in of_source(source, namespace)]
    if namespace is None:
        found += [
            Right(verb, "", "namespaces", "", "to make a namespace for each deployment")
            for verb in _OWN_NAMESPACE
        ]
    if things is None:
        kinds = [(group, resource, where) for group, resource in USUAL]
    else:
        kinds = [(one.of.group, one.plural, where if one.namespaced else "") for one in things]
    for group, resource, place in dict.fromkeys(kinds):
        found += [Right(verb, group, resource, place, "the deployment has such objects") for verb in _OWN]
    return list(dict.fromkeys(found))


def of_source(source: str, namespace: str | None) -> list[Right]:
    """Rights that a telemetry source needs; all else works without them.

    Parameters
    ----------
    source : str
        As in `observe`; other sources than those that look into clusters need none.
    namespace : str, optional
        As in `needed`.
    """
    return [
        Right(
            verb, group, resource, (namespace or "") if inside else "", f"for `observe: [{source}]`", optional=True
        )
        for group, resource, verbs, inside in _SOURCES.get(source, ())
        for verb in verbs
    ]  # fmt: skip


def of_forwarding(namespace: str | None, *, optional: bool) -> list[Right]:
    """Rights that orders to helpers need where they go through the API server.

    Parameters
    ----------
    namespace : str, optional
        As in `needed`.
    optional : bool
        They may go directly.
    """
    return [Right(verb, "", FORWARD, namespace or "", _FORWARD_WHY, optional) for verb in _FORWARD_VERBS]


def of_disturbers(namespace: str | None) -> list[Right]:
    """Rights that helpers on the nodes need besides those of a deployment: to stand in a namespace.

    Parameters
    ----------
    namespace : str, optional
        A given one; without it one is made.
    """
    kinds = (("", "secrets", _OWN), ("apps", "daemonsets", _OWN), ("", "pods", ("create", "list", "delete")))
    return _of_helpers(namespace, kinds, "for the deployment's `disturber`")


def of_edge_proxy(namespace: str | None) -> list[Right]:
    """Rights that the proxy of edges needs besides those of a deployment; see `of_disturbers`."""
    made = (("", "secrets"), ("", "configmaps"), ("", "services"), ("apps", "deployments"))
    kinds = (*((group, name, _OWN) for group, name in made), ("", "pods", ("list", "watch", "delete")))
    return _of_helpers(namespace, kinds, "for the deployment's `edge_proxy`")


def _of_helpers(
    namespace: str | None, kinds: Sequence[tuple[str, str, tuple[str, ...]]], why: str
) -> list[Right]:
    found = [Right(verb, group, name, namespace or "", why) for group, name, verbs in kinds for verb in verbs]
    if namespace is None:
        found += [Right(verb, "", "namespaces", "", why) for verb in _OWN_NAMESPACE]
    return found


def missing(api: ApiClient, wanted: Sequence[Right], *, optional: bool = False) -> list[Right]:
    """Rights that the API server does not grant; the optional ones only when asked for.

    Raises
    ------
    ApiError, Unreachable
    """
    return [right for right in wanted if (optional or not right.optional) and not allowed(api, right)]


def allowed(api: ApiClient, right: Right) -> bool:
    """Ask the API server whether we may."""
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": part}
    if right.namespace:
        attributes["namespace"] = right.namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool((api.create(REVIEWS, body).get("status") or {}).get("allowed"))


def joined(lacking: Iterable[Right]) -> list[Right]:
    """Rights to the same thing for the same reason as one, with all of their verbs."""
    found: dict[Right, list[str]] = {}
    for right in lacking:
        verbs = found.setdefault(replace(right, verb=""), [])
        verbs += [right.verb] if right.verb not in verbs else []
    return [replace(right, verb=", ".join(verbs)) for right, verbs in found.items()]


def told(lacking: Iterable[Right], where: str) -> list[str]:
    """Missing rights as problems, one for each thing; `where` ends the sentence."""
    return [f"the right to {one.words} is missing{where}" for one in joined(lacking)]


def manifest(namespace: str | None = None) -> str:
    """YAML that grants all of it to the ServiceAccount `towtank`, for an administrator to apply.

    Parameters
    ----------
    namespace : str, optional
        For deployments in this namespace only.
    """
    place = namespace or "towtank"
    inside = [right for right in needed(namespace) if right.namespace]
    outside = [right for right in needed(namespace) if not right.namespace]
    parts = [
        f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: towtank, namespace: {place}}}",
        _role("ClusterRole", "", outside),
        _binding("ClusterRole", "", place),
    ]
    if inside:
        parts += [_role("Role", place, inside), _binding("Role", place, place)]
    return "\n---\n".join(parts) + "\n"


def _role(kind: str, namespace: str, granted: Sequence[Right]) -> str:
    rules: dict[tuple[str, str], list[str]] = {}
    for right in granted:
        verbs = rules.setdefault((right.group, right.resource), [])
        verbs += [right.verb] if right.verb not in verbs else []
    empty = '""'
    lines = [
        f"  - {{apiGroups: [{group or empty}], resources: [{resource}], verbs: [{', '.join(verbs)}]}}"
        for (group, resource), verbs in rules.items()
    ]
    where = f", namespace: {namespace}" if namespace else ""
    head = (
        f"apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: towtank{where}}}\nrules:"
    )
    return "\n".join([head, *lines])


def _binding(kind: str, namespace: str, account_in: str) -> str:
    where = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\nmetadata: {{name: towtank{where}}}\n"
        f"roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: towtank}}\n"
        f"subjects: [{{kind: ServiceAccount, name: towtank, namespace: {account_in}}}]"
    )
