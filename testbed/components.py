"""Command lines of every component: what runs on each node, in which order, and with which files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.certificates import path
from testbed.settings import (
    API_PORT,
    FAKE_POD_RANGE,
    INSIDE_PROGRAMS,
    POD_RANGE,
    REGISTRY_PORT,
    SERVICE_RANGE,
    Node,
    Options,
)
from testbed.shell import SEARCH_PATH, find

ETCD = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"
FOR_OLD_ETCD = "--feature-gates=SizeBasedListCostEstimate=false"
"""Debian's etcd 3.4 does not answer what it asks."""
ENVIRONMENT = {
    "PATH": f"{INSIDE_PROGRAMS}:{SEARCH_PATH}",
    "HOME": "/run/tmp",
    "TMPDIR": "/run/tmp",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Component:
    """A daemon of a node."""

    name: str
    command: Sequence[str]


def of_node(node: Node, options: Options) -> list[Component]:
    """Every component of a node, in the order of starting."""
    control = [_etcd(), _registry(), _apiserver(node), _controller_manager(options), _scheduler()]
    if options.kwok:
        control.append(_kubernetes("kwok", *kwok_flags(path("kwok.kubeconfig"))))
    worker = [_containerd(), _kubelet(node), _proxy()]
    return [*control, *worker] if node.number == 1 else worker


def _kubernetes(name: str, *flags: str) -> Component:
    return Component(name, [str(INSIDE_PROGRAMS / name), *flags])


def _etcd() -> Component:
    return Component(
        "etcd",
        [
            find("etcd"), "--data-dir=/var/lib/etcd", f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}", f"--listen-peer-urls={ETCD_PEERS}",
            f"--initial-advertise-peer-urls={ETCD_PEERS}", f"--initial-cluster=default={ETCD_PEERS}",
            "--log-level=warn",
        ],
    )  # fmt: skip


def _registry() -> Component:
    return Component("registry", [find("docker-registry"), "serve", path("registry.yaml")])


def _apiserver(node: Node) -> Component:
    headers = (
        "extra-headers-prefix=X-Remote-Extra-",
        "group-headers=X-Remote-Group",
        "username-headers=X-Remote-User",
    )
    return _kubernetes(
        "kube-apiserver",
        f"--etcd-servers={ETCD}",
        f"--bind-address={node.address}", f"--advertise-address={node.address}", f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
        f"--token-auth-file={path('tokens.csv')}", f"--client-ca-file={path('ca.crt')}",
        f"--tls-cert-file={path('apiserver.crt')}", f"--tls-private-key-file={path('apiserver.key')}",
        f"--kubelet-certificate-authority={path('ca.crt')}",
        f"--kubelet-client-certificate={path('kubelet-client.crt')}",
        f"--kubelet-client-key={path('kubelet-client.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={path('service-accounts.pub')}",
        f"--service-account-signing-key-file={path('service-accounts.key')}",
        f"--requestheader-client-ca-file={path('front-proxy-ca.crt')}",
        "--requestheader-allowed-names=front-proxy-client",
        *(f"--requestheader-{header}" for header in headers),
        f"--proxy-client-cert-file={path('front-proxy-client.crt')}",
        f"--proxy-client-key-file={path('front-proxy-client.key')}",
        "--enable-aggregator-routing=true",
        FOR_OLD_ETCD,
    )  # fmt: skip


def _controller_manager(options: Options) -> Component:
    return _kubernetes(
        "kube-controller-manager",
        f"--kubeconfig={path('controller-manager.kubeconfig')}",
        "--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=true",
        f"--service-account-private-key-file={path('service-accounts.key')}", f"--root-ca-file={path('ca.crt')}",
        f"--cluster-signing-cert-file={path('ca.crt')}", f"--cluster-signing-key-file={path('ca.key')}",
        f"--cluster-cidr={POD_RANGE}", "--allocate-node-cidrs=false",
        "--flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins",
        f"--horizontal-pod-autoscaler-sync-period={options.hpa_sync_s}s",
        # Kubernetes' 30 s and 5 min, shortened with the period: else young pods count as idle for a whole short run.
        f"--horizontal-pod-autoscaler-initial-readiness-delay={2 * options.hpa_sync_s}s",
        f"--horizontal-pod-autoscaler-cpu-initialization-period={20 * options.hpa_sync_s}s",
    )  # fmt: skip


def _scheduler() -> Component:
    return _kubernetes(
        "kube-scheduler", f"--kubeconfig={path('scheduler.kubeconfig')}", "--bind-address=127.0.0.1",
        "--leader-elect=false",
    )  # fmt: skip


def kwok_flags(kubeconfig: str) -> list[str]:
    """How KWOK is called; what it does is in ``go/cmd/kwok``."""
    return [f"--kubeconfig={kubeconfig}", f"--cidr={FAKE_POD_RANGE[1]}/{FAKE_POD_RANGE.prefixlen}"]


def _containerd() -> Component:
    return Component("containerd", [find("containerd"), "--config", path("containerd.toml")])


def _kubelet(node: Node) -> Component:
    return _kubernetes(
        "kubelet",
        f"--kubeconfig={path('kubelet.kubeconfig')}", f"--config={path('kubelet.json')}",
        "--root-dir=/var/lib/kubelet", f"--hostname-override={node.name}", f"--node-ip={node.address}",
    )  # fmt: skip


def _proxy() -> Component:
    return _kubernetes("kube-proxy", f"--config={path('proxy.json')}")


REGISTRY_ADDRESS = f"{Node(1).address}:{REGISTRY_PORT}"
