"""What Knative's parts publish, in a cluster in memory: texts as docs/testbed.md has them, behind a port-forward."""

from __future__ import annotations

import http.server
import threading
from types import TracebackType
from typing import Any, Self

from support.fake_cluster import FakeCluster, meta, ready_status

Json = dict[str, Any]
AUTOSCALER, QUEUE_PROXY, ENVOY = 9090, 9091, 8002
REVISION = "fn-00001"


class KnativeParts:
    """Autoscaler, activator and Envoy as pods, and one server for each port of theirs.

    Attributes
    ----------
    texts : dict
        Port → what is answered there, at any path; an integer is a status without a text.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.texts: dict[int, str | int] = dict.fromkeys((AUTOSCALER, QUEUE_PROXY, ENVOY), "")
        self._servers = [self._server(port) for port in self.texts]

    def __enter__(self) -> Self:
        for namespace, label in (
            ("knative-serving", "autoscaler"),
            ("knative-serving", "activator"),
            ("projectcontour", "envoy"),
        ):
            self.add_pod(namespace, f"{label}-1", {"app": label})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add_pod(self, namespace: str, name: str, labels: dict[str, str]) -> Json:
        """One more pod that runs."""
        pod = meta("v1", "Pod", name, namespace, labels)
        pod["spec"] = {"containers": [{"name": "main"}], "nodeName": "n1"}
        pod["status"] = ready_status(pod)
        return self.cluster.put("pods", namespace, pod)

    def say_something(self, namespace: str) -> None:
        """Numbers of one revision."""
        self.texts[AUTOSCALER] = autoscaler(namespace, desired_pods=2, stable_request_concurrency=1.5)

    def _server(self, port: int) -> http.server.ThreadingHTTPServer:
        texts = self.texts

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = texts[port]
                body = said.encode() if isinstance(said, str) else b""
                self.send_response(200 if isinstance(said, str) else said)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.daemon_threads = True
        self.cluster.forwards[port] = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def labels(namespace: str, **more: str) -> str:
    """Of every number about the revision."""
    own = {
        "namespace_name": namespace,
        "service_name": "fn",
        "configuration_name": "fn",
        "revision_name": REVISION,
    }
    return ",".join(f'{name}="{value}"' for name, value in {**own, **more}.items())


def autoscaler(namespace: str, **numbers: float) -> str:
    """Lines of the autoscaler, with the names of releases up to 1.18."""
    lines = ["# TYPE autoscaler_desired_pods gauge"]
    lines += [f"autoscaler_{name}{{{labels(namespace)}}} {value:g}" for name, value in numbers.items()]
    return "\n".join(
        [*lines, f"autoscaler_scrape_time_count{{{labels(namespace)}}} 17", "go_goroutines 90", ""]
    )


def activator(namespace: str, concurrency: float = 0.0, **by_status: int) -> str:
    """Lines of an activator; statuses as ``s503=2``."""
    lines = [f"activator_request_concurrency{{{labels(namespace)}}} {concurrency:g}"]
    lines += [
        f"activator_request_count{{{labels(namespace, response_code=status[1:])}}} {count}"
        for status, count in by_status.items()
    ]
    return "\n".join([*lines, ""])


def queue_proxy(namespace: str, pod: str, *, depth: int = 0, all: str = "", own: str = "") -> str:  # noqa: A002 - the word
    """Lines of a queue-proxy; answers as ``200:5 503:1``: all of them, and those of the function behind it."""
    lines = [f"revision_queue_depth{{{labels(namespace, pod_name=pod)}}} {depth}"]
    for name, said in (("revision_request_count", all), ("revision_app_request_count", own)):
        for one in said.split():
            status, _, count = one.partition(":")
            lines.append(f"{name}{{{labels(namespace, pod_name=pod, response_code=status)}}} {count}")
    return "\n".join([*lines, ""])


def envoy(namespace: str, *, overflow: int = 0, held: int = 0, **by_status: int) -> str:
    """Lines of Envoy, of the revision and of another cluster."""
    lines = ["# TYPE envoy_cluster_upstream_rq counter"]
    for cluster, factor in ((f"{namespace}_{REVISION}_80", 1), ("other_fn-00001_80", 100)):
        name = f'envoy_cluster_name="{cluster}"'
        lines += [
            f"envoy_cluster_upstream_rq_pending_overflow{{{name}}} {overflow * factor}",
            f"envoy_cluster_upstream_rq_pending_active{{{name}}} {held * factor}",
            *(
                f'envoy_cluster_upstream_rq{{envoy_response_code="{status[1:]}",{name}}} {count * factor}'
                for status, count in by_status.items()
            ),
        ]
    return "\n".join([*lines, ""])
