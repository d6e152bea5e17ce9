"""An OpenWhisk in memory, written from its published API description, texts and limits; it serves tests only.

docs/openwhisk.md, section 8 lists what it does otherwise than a real one. Times of a run are slept, so that blocking
calls and limits of time behave; nothing of an action's code is carried out but what `Script.runs` says.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support import servers
from support.openwhisk_script import MIB, Json, Ran, Script, answers, record_of
from towtank.autoscaling.openwhisk.throttle import Throttle


class Answer(Exception):  # noqa: N818 - it ends the work on a request
    """What is answered."""

    def __init__(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        self.status, self.content, self.headers = status, content, headers or {}


def refusal(status: int, words: str) -> Answer:
    """An error as OpenWhisk has it (ErrorResponse.scala)."""
    return Answer(status, {"error": words, "code": "tid-" + uuid.uuid4().hex[:8]})


class Handler(servers.Quiet):
    """Answers by the script of its server."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        script: Script = self.server.script  # type: ignore[attr-defined]
        length = int(self.headers.get("content-length") or 0)
        content = self.rfile.read(length)
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        script.asked.append((self.command, self.path))
        try:
            Work(script, self.command, self.headers.get("authorization"), asked, content).on(
                unquote(url.path)
            )
        except Answer as given:
            body = given.content if isinstance(given.content, bytes) else json.dumps(given.content).encode()
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = lambda self: self.answer()  # noqa: N815

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Its own clock."""
        script: Script = self.server.script  # type: ignore[attr-defined]
        return formatdate(time.time() + script.ahead_s, usegmt=True)


@dataclass
class Work:
    """One request."""

    script: Script
    method: str
    authorization: str | None
    asked: dict[str, str]
    content: bytes

    def on(self, path: str) -> None:
        """Answer it, by raising an `Answer`."""
        if self.script.later:
            self.script.later -= 1
            raise Answer(429, {"error": "slow down", "code": "edge"}, {"Retry-After": "0"})
        if path == "/":
            raise Answer(200, host(self.script)) if self.script.tells_itself else refusal(404, NO_SUCH)
        parts = path.removeprefix("/api/v1/").split("/")
        if parts[0] == "web" and len(parts) >= 4:
            self.web(parts[1], parts[2], parts[3], "/" + "/".join(parts[4:]) if parts[4:] else "")
        if parts[0] != "namespaces":
            raise refusal(404, NO_SUCH)
        own = self.authenticated()
        if parts == ["namespaces"]:
            raise Answer(200, [own])
        namespace = own if parts[1] == "_" else parts[1]
        if namespace != own:
            raise refusal(403, "The supplied authentication is not authorized to access this resource.")
        collection, name = parts[2] if len(parts) > 2 else "", "/".join(parts[3:])
        if f"{self.method} {collection}" in self.script.broken:
            raise refusal(500, "There was an internal server error.")
        with self.script.lock:
            self.dispatch(namespace, collection, name)
        self.run_or_fire(namespace, collection, name)

    def authenticated(self) -> str:
        kind, _, encoded = (self.authorization or "").partition(" ")
        if kind != "Basic":
            raise refusal(
                401, "The resource requires authentication, which was not supplied with the request"
            )
        key = base64.b64decode(encoded).decode()
        if key not in self.script.keys:
            raise refusal(401, "The supplied authentication is invalid")
        return self.script.keys[key]

    def dispatch(self, namespace: str, collection: str, name: str) -> None:
        script = self.script
        if collection == "limits":
            raise Answer(
                200,
                {
                    "invocationsPerMinute": script.per_minute or 120,
                    "concurrentInvocations": 100,
                    **script.own_limits,
                },
            )
        if collection == "activations":
            self.records(namespace, name)
        if self.method == "POST":
            return
        if collection not in ("packages", "actions", "triggers", "rules") or not name:
            raise refusal(404, NO_SUCH)
        key = (namespace, collection, name)
        there = script.entities.get(key)
        if self.method == "PUT":
            if there is not None and self.asked.get("overwrite") != "true":
                raise refusal(409, "resource already exists")
            raise Answer(200, self.put(key, json.loads(self.content or b"{}")))
        if there is None:
            raise refusal(404, NO_SUCH)
        if self.method == "DELETE":
            inner = [
                n
                for ns, c, n in script.entities
                if (ns, c) == (namespace, "actions") and n.startswith(f"{name}/")
            ]
            if collection == "packages" and inner:
                raise refusal(
                    409,
                    f"Package not empty (contains {len(inner)} entities). Set force param or delete package contents.",
                )
            del script.entities[key]
        raise Answer(200, there)

    def put(self, key: tuple[str, str, str], sent: Json) -> Json:
        namespace, collection, name = key
        script = self.script
        if collection == "actions":
            package, slash, _ = name.rpartition("/")
            if slash and (namespace, "packages", package) not in script.entities:
                raise refusal(404, NO_SUCH)
            self.check_action(namespace, sent)
        if collection == "rules":
            for kind in ("trigger", "action"):
                _, there, inner = sent[kind].split("/", 2)
                if (there, f"{kind}s", inner) not in script.entities:
                    raise refusal(404, NO_SUCH)
        made = {
            "namespace": namespace,
            "name": name.rpartition("/")[2],
            "version": "0.0.1",
            "publish": False,
            **sent,
        }
        script.entities[key] = made
        return made

    def check_action(self, namespace: str, sent: Json) -> None:
        script = self.script
        execution, limits = sent["exec"], sent.get("limits", {})
        size = len(execution.get("code", ""))
        if size > script.code_bytes:
            raise refusal(413, f"exec larger than allowed: {size} > {script.code_bytes} bytes.")
        malformed = "The request content was malformed:\n"
        memory = limits.get("memory", 256)
        least, most = script.memory_mib
        if memory > most:
            raise refusal(400, f"{malformed}memory {memory} MB exceeds allowed threshold of {most} MB")
        if memory < least:
            raise refusal(400, f"{malformed}memory {memory} MB below allowed threshold of {least} MB")
        timeout, (least, most) = limits.get("timeout", 60_000), script.timeout_ms
        if timeout > most:
            raise refusal(
                400,
                f"{malformed}duration {timeout} milliseconds exceeds allowed threshold of {most} milliseconds",
            )
        concurrency, (least, most) = limits.get("concurrency", 1), script.concurrency
        if concurrency > most:
            raise refusal(400, f"{malformed}concurrency {concurrency} exceeds allowed threshold of {most}")
        kind = execution["kind"]
        families = {one.partition(":")[0] for one in script.kinds}
        known = {*script.kinds, *(f"{one}:default" for one in families), "blackbox", "sequence"}
        if kind not in known:
            raise refusal(400, f"{malformed}kind '{kind}' not in Set({', '.join(sorted(known))})")
        for component in execution.get("components", ()):
            _, there, inner = component.split("/", 2)
            if (there, "actions", inner) not in script.entities:
                raise refusal(400, "Sequence component does not exist.")

    def records(self, namespace: str, name: str) -> None:
        now_ms = (time.time() + self.script.ahead_s) * 1000
        readable = [
            one for one in self.script.activations
            if one["namespace"] == namespace and one["end"] + self.script.record_delay_s * 1000 <= now_ms
        ]  # fmt: skip
        if name:
            found = [one for one in readable if one["activationId"] == name]
            raise Answer(200, found[0]) if found else refusal(404, NO_SUCH)
        since, upto = int(self.asked.get("since", 0)), int(self.asked.get("upto", 1 << 60))
        limit, skip = int(self.asked.get("limit", 30)), int(self.asked.get("skip", 0))
        if not 0 <= limit <= 200:
            raise refusal(400, f"The value '{limit}' is not in the range of 0 to 200 for activations.")
        found = sorted(
            (one for one in readable if since <= one["start"] <= upto),
            key=lambda one: one["start"],
            reverse=True,
        )[skip : skip + (limit or 200)]
        if self.asked.get("docs") != "true":
            found = [
                {key: one[key] for key in ("namespace", "name", "activationId", "annotations")}
                for one in found
            ]
        raise Answer(200, found)

    def web(self, namespace: str, package: str, last: str, rest: str) -> None:
        name, _, extension = last.partition(".")
        full = name if package == "default" else f"{package}/{name}"
        action = self.script.entities.get((namespace, "actions", full))
        if action is None or {"key": "web-export", "value": True} not in action.get("annotations", []):
            raise refusal(404, NO_SUCH)
        parameters = {**self.asked, "__ow_method": self.method.lower(), "__ow_path": rest}
        record = self.run(namespace, full, action, parameters)
        marks = {"X-OpenWhisk-Activation-Id": record["activationId"]}
        response = record["response"]
        result = response["result"]
        if response["status"] in ("action developer error", "whisk internal error"):
            status = 502 if response["status"] == "action developer error" else 500
            error = refusal(status, "There was an error processing your request.")
            raise Answer(status, error.content, marks)
        if (extension or "http") == "http" and isinstance(result, dict):
            body = result.get("body", "")
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            raise Answer(
                result.get("statusCode", 200 if body else 204), raw, {**marks, **result.get("headers", {})}
            )
        raise Answer(200, result, marks)

    def run_or_fire(self, namespace: str, collection: str, name: str) -> None:
        there = self.script.entities.get((namespace, collection, name))
        if there is None or collection not in ("actions", "triggers"):
            raise refusal(404, NO_SUCH)
        parameters = json.loads(self.content or b"{}")
        if collection == "triggers":
            runs = [
                one["action"].split("/", 2)[2] for (_, kind, _), one in list(self.script.entities.items())
                if kind == "rules" and one["trigger"] == f"/{namespace}/{name}"
            ]  # fmt: skip
            for action in runs:
                self.run(namespace, action, self.script.entities[namespace, "actions", action], parameters)
            raise Answer(202, {"activationId": uuid.uuid4().hex}) if runs else Answer(204, b"")
        begun = time.monotonic()
        blocking = self.asked.get("blocking") == "true"
        record = self.run(namespace, name, there, parameters)
        marks = {"X-OpenWhisk-Activation-Id": record["activationId"]}
        if not blocking or time.monotonic() - begun > self.script.blocking_wait_s:
            raise Answer(202, {"activationId": record["activationId"]}, marks)
        status = {"success": 200, "whisk internal error": 500}.get(record["response"]["status"], 502)
        raise Answer(
            status, record["response"]["result"] if self.asked.get("result") == "true" else record, marks
        )

    def run(self, namespace: str, name: str, action: Json, parameters: Json) -> Json:
        """Carry an action out; its record."""
        script = self.script
        with script.lock:
            script.throttle = script.throttle or Throttle(script.per_minute, script.at_a_time)
            words = script.throttle.refused(time.time(), script.running)
            if words:
                raise refusal(429, words)
            script.running += 1
            cold = script.warm.get(name, 0) == 0
            if not cold:
                script.warm[name] -= 1
        try:
            return self.carried_out(namespace, name, action, parameters, cold=cold)
        finally:
            with script.lock:
                script.running -= 1
                script.warm[name] = script.warm.get(name, 0) + 1

    def carried_out(self, namespace: str, name: str, action: Json, parameters: Json, *, cold: bool) -> Json:
        script = self.script
        simple = name.rpartition("/")[2]
        given = {one["key"]: one["value"] for one in action.get("parameters", [])}
        start_ms = round((time.time() + script.ahead_s) * 1000)
        init_ms = round(script.init_s * 1000) if cold else 0
        time.sleep(init_ms / 1000)
        ran = script.runs.get(simple, answers)({**given, **parameters})
        limit_ms = action.get("limits", {}).get("timeout", 60_000)
        took_s = min(ran.seconds, limit_ms / 1000)
        if ran.seconds > took_s:
            words = f"The action exceeded its time limits of {limit_ms} milliseconds."
            ran = Ran({"error": words}, took_s, "action developer error")
        time.sleep(took_s)
        init = {"initTime": init_ms} if cold else {}
        limits = {"memory": 256, "timeout": limit_ms, "logs": 10}
        kind = action["exec"]["kind"]
        marks: Json = {"kind": kind, "waitTime": 7, "limits": limits, **init}
        took_ms = init_ms + round(took_s * 1000)
        record = record_of(f"{namespace}/{name}", ran, start_ms=start_ms, duration_ms=took_ms, marks=marks)
        with script.lock:
            script.activations.append(record)
        return record


NO_SUCH = "The requested resource does not exist."


def host(script: Script) -> Json:
    """What `GET /` says (core/controller/…/Controller.scala)."""
    families: dict[str, list[Json]] = {}
    for kind in script.kinds:
        families.setdefault(kind.partition(":")[0], []).append(
            {"kind": kind, "default": True, "deprecated": False}
        )
    return {
        "description": "OpenWhisk", "api_paths": ["/api/v1"], "runtimes": families,
        "limits": {
            "actions_per_minute": script.per_minute or 60, "concurrent_actions": script.at_a_time or 30,
            "triggers_per_minute": 60, "sequence_length": 50,
            "min_action_memory": script.memory_mib[0] * MIB, "max_action_memory": script.memory_mib[1] * MIB,
            "min_action_duration": script.timeout_ms[0], "max_action_duration": script.timeout_ms[1],
        },
    }  # fmt: skip


def fake_openwhisk(start: Callable[[Any], Any], script: Script | None = None) -> tuple[str, Script]:
    """Start one (`start` is from `servers.serving`); its address and its script."""
    server = servers.on_loopback(Handler)
    server.script = script or Script()
    start(server)
    return f"http://127.0.0.1:{server.server_address[1]}", server.script
