"""What a cluster in memory says of its pods' CPU and memory: kubelets and a metrics API, with counters that go on."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from support.fake_cluster import FakeCluster, Json, Refusal

MIB = 2**20
CORES = 0.25
"""Each pod uses this much CPU."""


class FakeKubelets:
    """Answers for every node and pod of a cluster; its clock can be stopped.

    Attributes
    ----------
    now_s : float, optional
        What the kubelets' clock says; it goes on by itself while this is None.
    refusals : dict
        Part of a path → what is answered there instead.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.now_s: float | None = None
        self.refusals: dict[str, Refusal] = {}
        self.asked: list[str] = []
        cluster.answers = self.answer

    def time_s(self) -> float:
        return time.time() if self.now_s is None else self.now_s

    def answer(self, path: str) -> bytes | Refusal | None:
        for part, refusal in self.refusals.items():
            if part in path:
                return refusal
        if path.endswith("/proxy/metrics/cadvisor"):
            self.asked.append(path)
            return self.cadvisor(path.split("/")[4]).encode()
        if path.endswith("/proxy/stats/summary"):
            return json.dumps(self.summary(path.split("/")[4])).encode()
        if path.startswith("/apis/metrics.k8s.io/v1beta1/"):
            pods = path.endswith("/pods")
            return json.dumps({"items": self.pod_metrics() if pods else self.node_metrics()}).encode()
        return None

    def pods_of(self, node: str) -> list[Json]:
        return [pod for pod in self.cluster.all("pods") if pod["spec"].get("nodeName") == node]

    def cadvisor(self, node: str) -> str:
        """Lines as a kubelet v1.34 writes them."""
        now_s, lines = self.time_s(), ["# TYPE container_cpu_usage_seconds_total counter"]
        at = round(now_s * 1000)

        def line(name: str, labels: str, value: float) -> None:
            lines.append(f"{name}{{{labels}}} {value!r} {at}")

        nothing = 'container="",id="/",image="",name="",namespace="",pod=""'
        line("container_cpu_usage_seconds_total", f'{nothing},cpu="total"', now_s * 1.5)
        line("container_memory_working_set_bytes", nothing, 900.0 * MIB)
        line("container_network_receive_bytes_total", f'{nothing},interface="eth0"', now_s * 7000)
        line("container_network_receive_bytes_total", f'{nothing},interface="veth1"', now_s * 90000)
        for pod in self.pods_of(node):
            name, place = pod["metadata"]["name"], pod["metadata"]["namespace"]
            of_pod = f'namespace="{place}",pod="{name}"'
            group = f"/kubepods/burstable/pod{pod['metadata']['uid']}"
            whole = f'container="",id="{group}",image="",name="",{of_pod}'
            one = f'container="app",id="{group}/c1",image="registry.testbed/hello:1",name="c1",{of_pod}'
            sandbox = f'container="",id="{group}/s1",image="registry.testbed/pause:1",name="s1",{of_pod}'
            line("container_cpu_usage_seconds_total", f'{whole},cpu="total"', now_s * CORES)
            line("container_cpu_usage_seconds_total", f'{one},cpu="total"', now_s * CORES * 0.9)
            line("container_cpu_usage_seconds_total", f'{sandbox},cpu="total"', now_s * 0.001)
            line("container_memory_working_set_bytes", whole, 32.0 * MIB)
            line("container_memory_working_set_bytes", one, 30.0 * MIB)
            line("container_network_receive_bytes_total", f'{sandbox},interface="eth0"', now_s * 1000)
            line("container_network_transmit_bytes_total", f'{sandbox},interface="eth0"', now_s * 2000)
            line("container_fs_writes_bytes_total", f'{whole},device="/dev/vda"', now_s * 500)
            line("container_cpu_cfs_periods_total", one, now_s * 10)
            line("container_cpu_cfs_throttled_periods_total", one, now_s * 4)
            line("container_cpu_cfs_throttled_seconds_total", one, now_s * 0.3)
            line("container_last_seen", one, now_s)
        return "\n".join(lines) + "\n"

    def summary(self, node: str) -> Json:
        at = datetime.fromtimestamp(self.time_s(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "node": {"nodeName": node, "fs": {"time": at, "usedBytes": 5 * MIB, "availableBytes": 50 * MIB}},
            "pods": [
                {
                    "podRef": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
                    "ephemeral-storage": {"time": at, "usedBytes": 2 * MIB},
                }
                for pod in self.pods_of(node)
            ],
        }

    def pod_metrics(self) -> list[Json]:
        usage = {"cpu": f"{round(CORES * 1e9)}n", "memory": "32768Ki"}
        return [
            {
                **self._sampled(pod["metadata"]["name"]),
                "containers": [{"name": "app", "usage": usage}, {"name": "side", "usage": usage}],
            }
            for pod in self.cluster.all("pods")
        ]

    def node_metrics(self) -> list[Json]:
        usage = {"cpu": "1500m", "memory": "900Mi"}
        return [
            {**self._sampled(node["metadata"]["name"]), "usage": usage} for node in self.cluster.all("nodes")
        ]

    def _sampled(self, name: str) -> Json:
        at = datetime.fromtimestamp(self.time_s(), UTC).isoformat().replace("+00:00", "Z")
        return {"metadata": {"name": name}, "timestamp": at, "window": "15.25s"}
