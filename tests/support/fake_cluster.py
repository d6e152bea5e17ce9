"""An API server in memory, over real HTTP on loopback: what the Kubernetes platform asks of one, and no more.

It is honest about what the platform relies on: creating what exists is 409, a dry run keeps nothing, a namespace that
is not there is 404, deletion checks the UID, watches begin at a version, end when they are told to, and answer 410 for
one that was forgotten. Controllers are a function: Deployments get pods, pods become ready at once unless a test says
otherwise. Addresses of nodes are 127.0.0.1, and the node port of every Service is the port of an application that a
test has.
"""

from __future__ import annotations

import copy
import http.server
import itertools
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from support import fake_forward, fake_knative

Json = dict[str, Any]

KINDS: dict[str, list[tuple[str, str, bool]]] = {
    "v1": [
        ("Namespace", "namespaces", False), ("Node", "nodes", False), ("Pod", "pods", True),
        ("Service", "services", True), ("ConfigMap", "configmaps", True), ("Event", "events", True),
        ("PersistentVolume", "persistentvolumes", False), ("ResourceQuota", "resourcequotas", True),
        ("PersistentVolumeClaim", "persistentvolumeclaims", True), ("ServiceAccount", "serviceaccounts", True),
        ("Secret", "secrets", True),
    ],
    "apps/v1": [
        ("Deployment", "deployments", True), ("ReplicaSet", "replicasets", True), ("StatefulSet", "statefulsets", True),
        ("DaemonSet", "daemonsets", True),
    ],
    "autoscaling/v2": [("HorizontalPodAutoscaler", "horizontalpodautoscalers", True)],
    "coordination.k8s.io/v1": [("Lease", "leases", True)],
    "networking.k8s.io/v1": [("Ingress", "ingresses", True)],
    "batch/v1": [("Job", "jobs", True)],
    "gateway.networking.k8s.io/v1": [("Gateway", "gateways", True), ("HTTPRoute", "httproutes", True)],
    "rbac.authorization.k8s.io/v1": [("ClusterRole", "clusterroles", False)],
    "authorization.k8s.io/v1": [("SelfSubjectAccessReview", "selfsubjectaccessreviews", False)],
    "metrics.k8s.io/v1beta1": [("NodeMetrics", "nodes", False), ("PodMetrics", "pods", True)],
    **fake_knative.KINDS,
}  # fmt: skip


@contextmanager
def listening_port() -> Iterator[int]:
    """A port that accepts connections: what an application behind a node port does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):  # it was shut down
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(1)


SPEC_FIELDS = {
    ("v1", "Service"): {
        "type", "ports", "selector", "clusterIP", "externalTrafficPolicy", "sessionAffinity",
    }
}  # fmt: skip
"""What the server knows in the `spec` of a kind; of others it takes everything."""


class Refusal(Exception):  # noqa: N818
    """What the server answers instead."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class FakeCluster:
    """The cluster: its objects, and knobs for tests.

    Attributes
    ----------
    store : dict
        (plural, namespace, name) → object.
    log : list
        Every request: "POST /api/v1/namespaces dry-run".
    busy : int
        So many creations are answered 429 first.
    denied : set of (verb, plural)
        Rights that are not there.
    pod_status : callable
        Makes the status of a new pod from it; by default it is running and ready.
    node_port : int
        Port that every Service gets.
    forwards : dict
        Port of a pod → port of loopback that a port-forward leads to.
    answers : callable
        Asked first for the answer to a GET of a path: an error to be raised, bytes, or None.
    """

    def __init__(self, node_port: int = 0) -> None:
        self.store: dict[tuple[str, str, str], Json] = {}
        self.log: list[str] = []
        self.denied: set[tuple[str, str]] = set()
        self.refuses: dict[str, Refusal] = {}
        self.busy = 0
        self.node_port = node_port
        self.pod_status: Callable[[Json], Json] = ready_status
        self.logs = "it said something\n"
        self.dates: dict[str, Callable[[], str]] = {}
        self.pod_logs: dict[tuple[str, str], FakeLog] = {}
        self.answers: Callable[[str], bytes | Refusal | None] = lambda _path: None
        self.forwards: dict[int, int] = {}
        self.history: list[tuple[int, str, str, Json]] = []
        self.forgotten_before = 0
        self._numbers = itertools.count(100)
        self._pods = itertools.count(1)
        self.lock = threading.Condition(threading.RLock())
        for name in ("default", "kube-system"):
            self.put("namespaces", "", meta("v1", "Namespace", name))
        node = meta("v1", "Node", "n1", labels={"kubernetes.io/hostname": "n1"})
        node["status"] = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "allocatable": {"cpu": "2", "memory": "4Gi"},
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        }
        self.put("nodes", "", node)

    # --- state -----------------------------------------------------------------------------------------------

    def put(self, plural: str, namespace: str, thing: Json, kind: str = "ADDED") -> Json:
        """Keep an object and tell the watches."""
        with self.lock:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            version = next(self._numbers)
            thing["metadata"].setdefault("uid", str(uuid.uuid4()))
            thing["metadata"].setdefault("creationTimestamp", now)
            thing["metadata"].setdefault("generation", 1)
            thing["metadata"]["resourceVersion"] = str(version)
            key = (plural, namespace, thing["metadata"]["name"])
            kind = "MODIFIED" if key in self.store and kind == "ADDED" else kind
            if kind == "DELETED":
                self.store.pop(key, None)
            else:
                self.store[key] = thing
            self.history.append((version, plural, kind, copy.deepcopy(thing)))
            self.lock.notify_all()
            return thing

    def change(self, plural: str, namespace: str, name: str, edit: Callable[[Json], None]) -> None:
        """Edit an object in place."""
        with self.lock:
            thing = copy.deepcopy(self.store[plural, namespace, name])
            edit(thing)
            self.put(plural, namespace, thing)

    def drop(self, plural: str, namespace: str, name: str) -> None:
        """An object is gone."""
        with self.lock:
            thing = self.store.get((plural, namespace, name))
            if thing is not None:
                self.put(plural, namespace, thing, "DELETED")

    def all(self, plural: str) -> list[Json]:
        """Objects of a kind, of all namespaces."""
        with self.lock:
            return [thing for (kind, _, _), thing in self.store.items() if kind == plural]

    def version(self) -> int:
        """The newest version."""
        return self.history[-1][0]

    # --- controllers -----------------------------------------------------------------------------------------

    def control(self, plural: str, namespace: str, thing: Json) -> None:
        """What controllers do about a new object, at once."""
        spec = thing.get("spec") or {}
        if thing.get("apiVersion", "").startswith(fake_knative.GROUP):
            fake_knative.control(self, namespace, thing)
        elif plural == "services":
            spec.setdefault("type", "ClusterIP")
            spec.setdefault("clusterIP", "127.0.0.1")
            for port in spec.get("ports") or []:
                if spec["type"] == "NodePort":
                    port.setdefault("nodePort", self.node_port)
        elif plural in ("deployments", "statefulsets"):
            spec.setdefault("replicas", 1)
            self.scale(plural, namespace, thing["metadata"]["name"])
        elif plural == "pods" and "status" not in thing:
            thing["status"] = self.pod_status(thing)

    def scale(self, plural: str, namespace: str, name: str) -> None:
        """Make as many pods as a controller wants, and write its status."""
        with self.lock:
            owner = self.store[plural, namespace, name]
            uid = owner["metadata"]["uid"]
            mine = [pod for pod in self.all("pods") if owned_by(pod, uid)]
            template = owner["spec"]["template"]
            for _ in range(owner["spec"]["replicas"] - len(mine)):
                pod = meta(
                    "v1", "Pod", f"{name}-{next(self._pods)}", namespace, template["metadata"].get("labels")
                )
                pod["metadata"]["ownerReferences"] = [{"uid": uid, "kind": owner["kind"], "name": name}]
                pod["spec"] = {**copy.deepcopy(template["spec"]), "nodeName": "n1"}
                pod["status"] = self.pod_status(pod)
                mine.append(self.put("pods", namespace, pod))
            ready = sum(is_ready(pod) for pod in mine)
            owner["status"] = {
                "observedGeneration": 1, "replicas": len(mine), "readyReplicas": ready, "updatedReplicas": len(mine),
            }  # fmt: skip
            self.put(plural, namespace, owner)

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete with everything that hangs on it."""
        with self.lock:
            thing = self.store[plural, namespace, name]
            if thing["metadata"].get("finalizers"):
                thing["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self.put(plural, namespace, thing)
                return
            if plural == "namespaces":
                for kind, place, other in list(self.store):
                    if place == name:
                        self.drop(kind, place, other)
            for pod in self.all("pods"):
                if owned_by(pod, thing["metadata"]["uid"]):
                    self.drop("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            self.drop(plural, namespace, name)


def meta(version: str, kind: str, name: str, namespace: str = "", labels: Any = None) -> Json:
    """The beginning of an object."""
    metadata: Json = {"name": name, "labels": dict(labels or {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def field(thing: Json, path: str) -> str:
    """What a field selector compares; empty where there is nothing."""
    found: Any = thing
    for key in path.split("."):
        found = (found or {}).get(key)
    return str(found or "")


def owned_by(thing: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in thing["metadata"].get("ownerReferences") or [])


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


def ready_status(pod: Json) -> Json:
    """A pod that runs and is ready."""
    names = [container["name"] for container in pod["spec"].get("containers") or []]
    return {
        "phase": "Running",
        "podIP": "198.18.0.9",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": name, "ready": True, "started": True, "restartCount": 0, "image": "registry.testbed/hello:1",
             "imageID": "sha256:1", "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}
            for name in names
        ],
    }  # fmt: skip


def waiting_status(
    reason: str, message: str = "", *, restarts: int = 0, last: Json | None = None
) -> Callable[[Json], Json]:
    """Pods whose only container waits."""

    def status(pod: Json) -> Json:
        found = ready_status(pod)
        found["phase"] = "Pending"
        found["conditions"][1]["status"] = "False"
        for one in found["containerStatuses"]:
            one |= {"ready": False, "started": False, "restartCount": restarts}
            one["state"] = {"waiting": {"reason": reason, "message": message}}
            if last is not None:
                one["lastState"] = {"terminated": last}
        return found

    return status


class Handler(http.server.BaseHTTPRequestHandler):
    """One request to the cluster of the server."""

    protocol_version = "HTTP/1.1"
    server: FakeServer

    def log_message(self, *args: Any) -> None:
        """Quietly."""

    def answer(self) -> None:
        parts = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else {}
        cluster = self.server.cluster
        dry = " dry-run" if self.query.get("dryRun") else ""
        watch = " watch" if self.query.get("watch") else ""
        with cluster.lock:
            cluster.log.append(f"{self.command} {parts.path}{dry}{watch}")
        try:
            self._route(parts.path.strip("/").split("/"))
        except Refusal as refusal:
            self._send(
                {
                    "kind": "Status",
                    "code": refusal.code,
                    "reason": refusal.reason,
                    "message": refusal.message,
                },
                refusal.code,
            )
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that the base class calls

    def _route(self, parts: list[str]) -> None:
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if parts == ["version"]:
            return self._send({"gitVersion": "v1.34.4"})
        dated = self.server.cluster.dates.get("/" + "/".join(parts))
        if dated is not None:
            return self._dated(dated())
        special = self.server.cluster.answers("/" + "/".join(parts)) if self.command == "GET" else None
        if isinstance(special, Refusal):
            raise special
        if special is not None:
            return self._text(special.decode())
        version, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
        if version not in KINDS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        if not rest:
            return self._send(
                {"resources": [{"name": p, "kind": k, "namespaced": n} for k, p, n in KINDS[version]]}
            )
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name = rest[0], rest[1] if len(rest) > 1 else ""
        return self._act(plural, namespace, name, rest[2] if len(rest) > 2 else "")

    def _act(self, plural: str, namespace: str, name: str, part: str) -> None:  # noqa: PLR0911 - one for each verb
        cluster = self.server.cluster
        verb = {"POST": "create", "PUT": "update", "DELETE": "delete"}.get(
            self.command, "get" if name else "list"
        )
        if ("watch" if self.query.get("watch") else verb, plural) in cluster.denied:
            raise Refusal(
                403, "Forbidden", f'{plural} is forbidden: User "dev" cannot {verb} resource "{plural}"'
            )
        if part == "log":
            log = cluster.pod_logs.get((name, self.query.get("container", "")))
            return self._text(cluster.logs) if log is None else self._log(log)
        if part == "portforward":
            port = int(self.query["ports"])
            return fake_forward.carry(self, port, cluster.forwards.get(port))
        if self.query.get("watch"):
            return self._watch(plural, namespace)
        with cluster.lock:
            if self.command == "POST":
                return self._create(plural, namespace)
            if not name:
                return self._list(plural, namespace)
            thing = cluster.store.get((plural, namespace, name))
            if thing is None:
                raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
            if self.command == "PUT":
                if self.body["metadata"]["resourceVersion"] != thing["metadata"]["resourceVersion"]:
                    raise Refusal(409, "Conflict", "the object has been modified")
                return self._send(cluster.put(plural, namespace, self.body))
            if self.command == "DELETE":
                wanted = (self.body.get("preconditions") or {}).get("uid")
                if wanted and wanted != thing["metadata"]["uid"]:
                    raise Refusal(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}")
                cluster.remove(plural, namespace, name)
                return self._send({"kind": "Status", "status": "Success"})
            return self._send(thing)

    def _create(self, plural: str, namespace: str) -> None:
        cluster, thing = self.server.cluster, self.body
        if plural == "selfsubjectaccessreviews":
            asked = thing["spec"]["resourceAttributes"]
            whole = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            allowed = not {(asked["verb"], asked["resource"]), (asked["verb"], whole)} & cluster.denied
            return self._send({**thing, "status": {"allowed": allowed}}, 201)
        if namespace and ("namespaces", "", namespace) not in cluster.store:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if cluster.busy:
            cluster.busy -= 1
            raise Refusal(429, "TooManyRequests", "Too many requests, please try again later.")
        name = thing["metadata"]["name"]
        if (plural, namespace, name) in cluster.store:
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if f"{thing['kind']}/{name}" in cluster.refuses:
            raise cluster.refuses[f"{thing['kind']}/{name}"]
        self._check_fields(thing)
        if self.query.get("dryRun"):
            return self._send(thing, 201)
        kept = cluster.put(plural, namespace, thing)
        cluster.control(plural, namespace, kept)
        return self._send(cluster.store[plural, namespace, name], 201)

    def _check_fields(self, thing: Json) -> None:
        """Like the server: a field that nobody knows is dropped, and only who asked to be strict is told."""
        spec = thing.get("spec") or {}
        for key in set(spec) - SPEC_FIELDS.get((thing["apiVersion"], thing["kind"]), set(spec)):
            del spec[key]
            if self.query.get("fieldValidation") == "Strict":
                kind, version = thing["kind"], thing["apiVersion"].rpartition("/")[2]
                said = f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
                raise Refusal(400, "BadRequest", f'{said}unknown field "spec.{key}"')

    def _chosen(self, thing: Json) -> bool:
        for part in filter(None, self.query.get("labelSelector", "").split(",")):
            key, equals, value = part.partition("=")
            labels = thing["metadata"].get("labels") or {}
            if key not in labels or (equals and labels[key] != value):
                return False
        for part in filter(None, self.query.get("fieldSelector", "").split(",")):
            unlike = "!=" in part
            path, _, value = part.partition("!=" if unlike else "=")
            if (field(thing, path) == value) is unlike:
                return False
        return True

    def _list(self, plural: str, namespace: str) -> None:
        cluster = self.server.cluster
        found = [
            thing for (kind, place, _), thing in cluster.store.items()
            if kind == plural and (not namespace or place == namespace) and self._chosen(thing)
        ]  # fmt: skip
        limit, begin = int(self.query.get("limit", 0)) or len(found), int(self.query.get("continue", 0))
        rest = max(0, len(found) - begin - limit)
        more = {"continue": str(begin + limit), "remainingItemCount": rest} if rest else {}
        self._send(
            {
                "items": found[begin : begin + limit],
                "metadata": {"resourceVersion": str(cluster.version()), **more},
            }
        )

    def _watch(self, plural: str, namespace: str) -> None:
        cluster, at = self.server.cluster, int(self.query["resourceVersion"])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.server.closing.is_set() and self.server.serving.is_set():
            with cluster.lock:
                if at < cluster.forgotten_before:
                    status = {
                        "kind": "Status",
                        "code": 410,
                        "reason": "Expired",
                        "message": "too old resource version",
                    }
                    self._chunk({"type": "ERROR", "object": status})
                    break
                new = [one for one in cluster.history if one[0] > at]
                if not new:
                    cluster.lock.wait(0.05)
            for version, kind, change, thing in new:
                at = version
                if (
                    kind == plural
                    and namespace in ("", thing["metadata"].get("namespace", ""))
                    and self._chosen(thing)
                ):
                    self._chunk({"type": change, "object": thing})
        self.close_connection = True

    def _dated(self, date: str) -> None:
        self.send_response_only(200)
        self.send_header("Date", date)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _log(self, log: FakeLog) -> None:
        """Lines of one life of a container, with their stamps, from a whole second on; broken off when it is to be."""
        if log.refusals:
            raise log.refusals.pop(0)
        life, lives = log.asked(self.query), len(log.lives)
        breaks = log.breaks.pop(0) if log.breaks else None
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent, said = 0, 0
        while not self.server.closing.is_set() and self.server.serving.is_set():
            new = life[sent:]
            sent += len(new)
            data = b"".join(log.shown(line, self.query) for line in new)
            if breaks is not None and said + len(data) >= breaks:
                self._piece(data[: breaks - said])
                self.close_connection = True
                return
            said += len(data)
            if data:
                self._piece(data)
            elif not self.query.get("follow") or log.ended or len(log.lives) > lives:
                self.wfile.write(b"0\r\n\r\n")
                return
            else:
                time.sleep(0.01)
        self.close_connection = True

    def _chunk(self, content: Json) -> None:
        self._piece((json.dumps(content) + "\n").encode())

    def _piece(self, data: bytes) -> None:
        if not data:
            return
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, content: Json, code: int = 200) -> None:
        self._text(json.dumps(content), code, "application/json")

    def _text(self, text: str, code: int = 200, kind: str = "text/plain") -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class FakeLog:
    """What one container writes, over its lives; stamps are of the node's clock.

    Attributes
    ----------
    lives : list of list of (int, bytes)
        Time of day in ns, and a line with its end.
    ended : bool
        The last life is over: whoever follows comes to an end.
    breaks : list of int
        Bytes after which the next streams break off.
    refusals : list of Refusal
        What the next streams are answered instead.
    """

    def __init__(self) -> None:
        self.lives: list[list[tuple[int, bytes]]] = [[]]
        self.ended = False
        self.breaks: list[int] = []
        self.refusals: list[Refusal] = []
        self.requests: list[Json] = []

    def write(self, *lines: bytes, t_ns: int | None = None) -> None:
        """Write lines now, or at a time."""
        for line in lines:
            self.lives[-1].append((time.time_ns() if t_ns is None else t_ns, line))

    def asked(self, query: Json) -> list[tuple[int, bytes]]:
        """Lines of the life that is asked for."""
        self.requests.append(dict(query))
        if not query.get("previous"):
            return self.lives[-1]
        if len(self.lives) < 2:
            raise Refusal(400, "BadRequest", "previous terminated container not found")
        return self.lives[-2]

    def shown(self, line: tuple[int, bytes], query: Json) -> bytes:
        """A line with its stamp; nothing when it is older than was asked for."""
        t_ns, text = line
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t_ns // 10**9))
        if query.get("sinceTime", "")[:19] > second:
            return b""
        return f"{second}.{t_ns % 10**9:09d}Z ".encode() + text


class FakeServer(http.server.ThreadingHTTPServer):
    """Serves a cluster on loopback; `with` starts and ends it. `serving` cleared ends all watches."""

    daemon_threads = True

    def __init__(self, cluster: FakeCluster, token: str = "", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.cluster = cluster
        self.token = token
        self.closing = threading.Event()
        self.serving = threading.Event()
        self.serving.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, once."""
        if not self.closing.is_set():
            self.closing.set()
            self.shutdown()
            self.server_close()

    def write_kubeconfig(self, path: Path, *, context: str = "fake", token: str = "") -> Path:
        """A kubeconfig with one context that leads here."""
        user = {"token": token} if token else {}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "another",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(content))
        return path
