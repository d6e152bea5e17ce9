"""Configuration files of a node: containerd, its network plug-ins, kubelet, kube-proxy and the registry."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

from testbed.binaries import cni_folder
from testbed.certificates import path
from testbed.components import REGISTRY_ADDRESS
from testbed.settings import (
    CLUSTER_DOMAIN,
    CONTAINERD_SOCKET,
    DNS_SERVICE,
    INSIDE_CONFIG,
    MAX_PODS,
    POD_RANGE,
    REGISTRY,
    Node,
    Options,
)

MIB = 1024 * 1024


def write(folder: Path, node: Node, options: Options) -> None:
    """Write the files of one node to `folder`, which is `/run/testbed/etc` inside."""
    files = {
        "resolv.conf": "",
        "containerd.toml": _containerd(),
        f"certs.d/{REGISTRY}/hosts.toml": _where_the_registry_is(),
        "cni/10-pods.conflist": json.dumps(_pod_network(node), indent=1),
        "kubelet.json": json.dumps(_kubelet(node, options), indent=1),
        "proxy.json": json.dumps(_proxy(node), indent=1),
        "registry.yaml": _registry(),
    }
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def _containerd() -> str:
    # restrict_oom_score_adj and oom_score: a machine without CAP_SYS_RESOURCE may not lower a score.
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{REGISTRY}/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{INSIDE_CONFIG}/certs.d"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni_folder()}"
  conf_dir = "{INSIDE_CONFIG}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def _where_the_registry_is() -> str:
    server = f"http://{REGISTRY_ADDRESS}"
    return f'server = "{server}"\n[host."{server}"]\n  capabilities = ["pull", "resolve"]\n'


def _pod_network(node: Node) -> dict[str, object]:
    """Routed pairs rather than a bridge: a pod's traffic to a service passes conntrack in both directions."""
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(node.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(node: Node, options: Options) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(node.address),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": path("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": path("kubelet.crt"),
        "tlsPrivateKeyFile": path("kubelet.key"),
        "healthzBindAddress": "127.0.0.1",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "protectKernelDefaults": True,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [str(DNS_SERVICE)],
        "resolvConf": path("resolv.conf"),
        "serializeImagePulls": False,
        "registerNode": True,
        "oomScoreAdj": 0,
        "maxOpenFiles": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "maxPods": MAX_PODS,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "2%",
            "imagefs.available": "2%",
            "nodefs.inodesFree": "1%",
        },
        "systemReserved": _share_of_the_others(options.nodes),
    }


def _share_of_the_others(nodes: int) -> dict[str, str]:
    """What this node leaves to the other nodes of the same machine, so that together they offer it once."""
    if nodes == 1:
        return {}
    share = (nodes - 1) / nodes
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": f"{int(cores * share * 1000)}m", "memory": f"{int(memory * share) // MIB}Mi"}


def _proxy(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": path("proxy.kubeconfig")},
        "clusterCIDR": str(POD_RANGE),
        "bindAddress": str(node.address),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        # 0 leaves the machine's own limits as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _registry() -> str:
    return f"""version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: /var/lib/registry}}
  delete: {{enabled: true}}
http:
  addr: {REGISTRY_ADDRESS}
  secret: one-registry-needs-none
"""
