"""What a cluster offers to experiments, and which rights are missing there: `towtank doctor --context`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from towtank.campaign.machine_checks import Finding, State
from towtank.errors import PlatformError
from towtank.load.workers.outlook import room_of
from towtank.platforms.kubernetes import rights
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.connection import Connection, connect
from towtank.platforms.kubernetes.creating import check_namespace
from towtank.platforms.kubernetes.kinds import METRICS_API
from towtank.telemetry.kubelet import kubelet_problems


def check_cluster(context: str, kubeconfig: str | None = None, namespace: str | None = None) -> list[Finding]:
    """All checks of one context; nothing is created.

    Parameters
    ----------
    context : str
    kubeconfig : str, optional
        File that has it; see `platforms.kubernetes.kubeconfig.find_context`.
    namespace : str, optional
        Check the rights for deployments in this namespace, instead of those for namespaces of their own.

    Raises
    ------
    PlatformError
        There is no such context.
    """
    try:
        connection = connect(context, kubeconfig, Path())
    except PlatformError as error:
        return [Finding("cluster", "missing", f"cluster of {context}", error.message, error.hint or "")]
    try:
        return [
            _cluster(connection),
            _nodes(connection),
            _metrics(connection.api),
            _kubelets(connection),
            _workers(connection),
            *_namespace(connection.api, namespace),
            *_rights(connection.api, namespace),
        ]
    finally:
        connection.api.close()


def _cluster(connection: Connection) -> Finding:
    cluster = connection.cluster
    found = f"{cluster['distribution']} {cluster['version']}, provider {cluster['provider']}"
    what = f"cluster of {connection.api.context}"
    if "id" not in cluster:
        return Finding(
            "cluster",
            "limited",
            what,
            found,
            "its id may not be read: a context that is bent elsewhere is not noticed",
        )
    return Finding("cluster", "ok", what, found, f"answers at {connection.api.server}; id {cluster['id']}")


def _nodes(connection: Connection) -> Finding:
    nodes = connection.cluster["nodes"]
    if not nodes:
        return Finding(
            "nodes",
            "limited",
            "nodes",
            "may not be read",
            "node ports need an `address`, lost nodes are not noticed",
        )
    shown = ", ".join(f"{node['name']} ({node['cpu']} CPU)" for node in nodes[:5])
    return Finding("nodes", "ok", "nodes", f"{len(nodes)}: {shown}", "what pods can be placed on")


def _metrics(api: ApiClient) -> Finding:
    try:
        there = api.find(METRICS_API) is not None
    except PlatformError:
        there = False
    if there:
        return Finding(
            "metrics",
            "ok",
            "metrics API",
            "there",
            "`cpu_below`, autoscalers on CPU and the telemetry source `metrics-server` work",
        )
    return Finding(
        "metrics",
        "limited",
        "metrics API",
        "not there",
        "no `cpu_below`, no autoscaling on CPU, no telemetry source `metrics-server`: install metrics-server",
    )


def _kubelets(connection: Connection) -> Finding:
    """Whether the telemetry source `kubelet` would see anything."""
    if problems := kubelet_problems(connection, None):
        return Finding(
            "kubelets", "limited", "kubelets", problems[0], "the telemetry source `kubelet` sees nothing"
        )
    return Finding("kubelets", "ok", "kubelets", "answer", "the telemetry source `kubelet` works")


def _workers(connection: Connection) -> Finding:
    """How much load could come from inside; what deployments take is not known here."""
    what = "room for workers"
    try:
        room = room_of(connection.api, cpu=1.0, memory_bytes=0.0)
    except PlatformError as error:
        return Finding("workers", "limited", what, error.message, "a run says whether workers come up")
    if not room:
        return Finding(
            "workers",
            "limited",
            what,
            "not known: nodes may not be read",
            "a run says whether workers come up",
        )
    shown = ", ".join(f"{name}: {count}" for name, count in sorted(room.items())[:5])
    state: State = "ok" if sum(room.values()) else "limited"
    means = "workers of one thread that `generator: {where: cluster}` could have now, deployments not counted"
    return Finding("workers", state, what, f"{sum(room.values())} ({shown})", means)


def _namespace(api: ApiClient, namespace: str | None) -> Iterator[Finding]:
    """What speaks against deployments in a given namespace; rights are granted for one that is not there, too."""
    if namespace is None:
        return
    what = f"namespace {namespace}"
    try:
        check_namespace(api, namespace, token="")
    except PlatformError as error:
        yield Finding("namespace", "missing", what, error.message, error.hint or "")
    else:
        yield Finding("namespace", "ok", what, "there, and not in use", "deployments can go into it")


def _rights(api: ApiClient, namespace: str | None) -> Iterator[Finding]:
    """One line for all that is granted, one for each thing to which some are not."""
    wanted = rights.needed(namespace)
    lacking = rights.missing(api, wanted, optional=True)
    where = f"in namespace {namespace}" if namespace else "for namespaces of their own"
    state: State = "ok" if not lacking else "limited" if all(one.optional for one in lacking) else "missing"
    yield Finding(
        "rights", state, f"rights {where}", f"{len(wanted) - len(lacking)} of {len(wanted)}",
        "all that deployments usually need" if not lacking else "docs/kubernetes.md has a manifest that grants them",
    )  # fmt: skip
    for one in rights.joined(lacking):
        means = "something will not be seen" if one.optional else "deployments that need it fail"
        yield Finding("right", "limited" if one.optional else "missing", "  right", one.words, means)
