"""A Cloud Run in memory with Google's token service and Cloud Monitoring, written from their published descriptions.

It serves tests only; docs/cloud-run.md, section 7 lists what it does otherwise than the real ones.
"""

from __future__ import annotations

import functools
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support import servers

Json = dict[str, Any]
PROJECT, REGION = "towtank-tests", "europe-west1"
GIB = 1 << 30


@dataclass
class Script:
    """What there is, and how it behaves."""

    app: str = "http://127.0.0.1:9"
    """Address that services get."""
    looks: int = 1
    """Looks at a service before its revision is ready."""
    fails: dict[str, Json] = field(default_factory=dict)
    """Image → condition with which its revision fails."""
    refused: str = ""
    """Why no token is given."""
    token: str = field(default_factory=lambda: f"ya29.{uuid.uuid4().hex}")
    quota: int = 1000
    """Services that may be created."""
    later: int = 0
    """Requests that are answered 429 first."""
    broken: set[str] = field(default_factory=set)
    """Methods that are answered 500."""
    fails_later: str = ""
    """Why a creation that was begun came to nothing."""
    disabled: bool = False
    """The API was never turned on in the project."""
    forbidden: str = ""
    """Why services may not be created."""
    blind: bool = False
    """Metrics may not be read."""
    lost: bool = False
    """The answer to a creation is an error although it was done."""
    services: dict[str, Json] = field(default_factory=dict)
    series: list[Json] = field(default_factory=list)
    page: int = 1000
    asked: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Answer(Exception):  # noqa: N818 - it ends the work on a request
    """What is answered."""

    def __init__(self, status: int, content: Any) -> None:
        self.status, self.content = status, content


def refusal(code: int, status: str, message: str, *details: Json) -> Answer:
    """An error as Google's APIs have it (google.rpc.Status)."""
    error = {
        "code": code,
        "status": status,
        "message": message,
        **({"details": list(details)} if details else {}),
    }
    return Answer(code, {"error": error})


class Handler(servers.Quiet):
    """Answers by the script of its server."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        script: Script = self.server.script  # type: ignore[attr-defined]
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        script.asked.append((self.command, self.path))
        try:
            with script.lock:
                work(script, self.command, url.path, asked, content, self.headers.get("authorization"))
        except Answer as given:
            body = json.dumps(given.content).encode()
            self.send_response(given.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_POST = do_DELETE = lambda self: self.answer()  # noqa: N815


def work(script: Script, *request: Any) -> None:
    """Answer a request, by raising an `Answer`."""
    method, path, asked, content, authorization = request
    let_in(script, method, path, content, authorization)
    parts = path.strip("/").split("/")
    if parts[0] == "v3":
        time_series(script, parts[2], asked)
    if parts[0] == "v1":
        locations(script, parts[2])
    _, _, project, _, region, kind, *rest = parts
    if project != PROJECT:
        raise refusal(
            403, "PERMISSION_DENIED", f"Permission 'run.services.create' denied on resource '{project}'."
        )
    if region != REGION:
        raise refusal(
            403, "PERMISSION_DENIED", f"Permission denied on 'locations/{region}' (or it may not exist)."
        )
    if kind == "operations":
        error = {"error": {"code": 3, "message": script.fails_later}} if script.fails_later else {}
        raise Answer(200, {"name": path.removeprefix("/v2/"), "done": True, **error})
    name = f"projects/{project}/locations/{region}/services/{rest[0] if rest else asked.get('serviceId')}"
    if method == "POST":
        create(script, name, json.loads(content), validate=asked.get("validateOnly") == "true")
    found = script.services.get(name)
    if found is None:
        raise refusal(
            404, "NOT_FOUND", f"Resource '{name.rpartition('/')[2]}' of kind 'SERVICE' does not exist."
        )
    if method == "DELETE":
        if asked.get("etag") not in (None, found["etag"]):
            raise refusal(409, "ABORTED", "The etag does not match.")
        del script.services[name]
        raise Answer(200, operation(name))
    raise Answer(200, looked_at(script, found))


def locations(script: Script, project: str) -> None:
    """Locations.List of v1."""
    if script.disabled:
        words = f"Cloud Run Admin API has not been used in project {project} before or it is disabled."
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "SERVICE_DISABLED",
            "domain": "googleapis.com",
        }
        raise refusal(403, "PERMISSION_DENIED", words, info)
    if project != PROJECT:
        raise refusal(403, "PERMISSION_DENIED", f"Permission denied on resource project {project}.")
    raise Answer(200, {"locations": [{"locationId": one} for one in (REGION, "us-central1")]})


def let_in(script: Script, *request: Any) -> None:
    """Give tokens, and refuse who has none or comes too often."""
    method, path, content, authorization = request
    if path == "/token":
        give_token(script, content)
    if authorization != f"Bearer {script.token}":
        raise refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
    if script.later:
        script.later -= 1
        raise refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Read requests'.")
    if method in script.broken:
        raise refusal(500, "INTERNAL", "Internal error encountered.")


def give_token(script: Script, content: bytes) -> None:
    grant = parse_qs(content.decode())
    if script.refused:
        raise Answer(400, {"error": "invalid_grant", "error_description": script.refused})
    if grant["grant_type"] != ["urn:ietf:params:oauth:grant-type:jwt-bearer"] or "assertion" not in grant:
        raise Answer(400, {"error": "unsupported_grant_type"})
    raise Answer(200, {"access_token": script.token, "expires_in": 3600, "token_type": "Bearer"})


def operation(name: str) -> Json:
    """A long-running operation."""
    parent = name.partition("/services/")[0]
    return {"name": f"{parent}/operations/{uuid.uuid4()}", "done": False}


def create(script: Script, name: str, sent: Json, *, validate: bool) -> None:
    """Check a service as the API does, and create it."""
    if script.forbidden:
        raise refusal(403, "PERMISSION_DENIED", script.forbidden)
    container = sent["template"]["containers"][0]
    limits = container.get("resources", {}).get("limits", {})
    cpu = limits.get("cpu", "1")
    cores = float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)
    if cores > 8:
        words = f"Invalid value specified for cpu. For the specified value, maximum 8 is allowed, got {cpu}."
        violation = {"field": "template.containers[0].resources.limits.cpu", "description": words}
        raise refusal(
            400, "INVALID_ARGUMENT", "Violation in CreateServiceRequest.service.",
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]},
        )  # fmt: skip
    if len(name.rpartition("/")[2]) > 49:
        raise refusal(400, "INVALID_ARGUMENT", "service_id must be at most 49 characters.")
    if validate:
        raise Answer(200, operation(name) | {"done": True})
    if name in script.services:
        raise refusal(409, "ALREADY_EXISTS", f"Resource '{name.rpartition('/')[2]}' already exists.")
    if len(script.services) >= script.quota:
        raise refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for services in the project.")
    script.services[name] = {
        "name": name, "uid": str(uuid.uuid4()), "generation": "1", "etag": f'"{uuid.uuid4().hex[:8]}"', **sent,
        "createTime": "2026-11-22T12:00:00Z", "reconciling": True, "looks": script.looks,
        "terminalCondition": {"type": "Ready", "state": "CONDITION_RECONCILING", "message": "Deploying Revision."},
        "latestCreatedRevision": f"{name}/revisions/{name.rpartition('/')[2]}-00001-abc",
    }  # fmt: skip
    if script.fails_later:
        del script.services[name]
    if script.lost:
        script.lost = False
        raise refusal(409, "ALREADY_EXISTS", "Resource already exists.")
    raise Answer(200, operation(name))


def looked_at(script: Script, service: Json) -> Json:
    """A service, which goes on with every look."""
    service["looks"] -= 1
    if service["looks"] < 0 and service["reconciling"]:
        service["reconciling"] = False
        image = service["template"]["containers"][0]["image"]
        if image in script.fails:
            why = {"state": "CONDITION_FAILED", **script.fails[image]}
            service["terminalCondition"] = {
                "type": "Ready",
                "state": "CONDITION_FAILED",
                "reason": "REVISION_FAILED",
            }
            service["conditions"] = [{"type": "ConfigurationsReady", **why}]
        else:
            service["terminalCondition"] = {"type": "Ready", "state": "CONDITION_SUCCEEDED"}
            service["latestReadyRevision"] = service["latestCreatedRevision"]
            service["uri"] = script.app
    return {key: value for key, value in service.items() if key != "looks"}


def time_series(script: Script, project: str, asked: dict[str, str]) -> None:
    """timeSeries.list: the series of the metric that the filter names, page by page."""
    if project != PROJECT or script.blind:
        raise refusal(
            403,
            "PERMISSION_DENIED",
            "Permission monitoring.timeSeries.list denied.",
        )
    found = [one for one in script.series if f'metric.type = "{one["metric"]["type"]}"' in asked["filter"]]
    begin = int(asked.get("pageToken") or 0)
    page: Json = {"timeSeries": found[begin : begin + script.page]}
    if begin + script.page < len(found):
        page["nextPageToken"] = str(begin + script.page)
    raise Answer(200, page)


@functools.cache
def _private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def write_credentials(path: Path, url: str) -> Path:
    """A service account whose tokens the fake gives out."""
    content = {
        "type": "service_account", "project_id": PROJECT, "private_key_id": "1", "private_key": _private_key(),
        "client_email": f"tests@{PROJECT}.iam.gserviceaccount.com", "client_id": "1", "token_uri": f"{url}/token",
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def fake_cloud_run(start: Callable[[Any], Any], script: Script | None = None) -> tuple[str, Script]:
    """Start one (`start` is from `servers.serving`); its address and its script."""
    server = servers.on_loopback(Handler)
    server.script = script or Script()
    start(server)
    return f"http://127.0.0.1:{server.server_address[1]}", server.script
