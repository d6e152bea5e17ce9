"""What Cloud Run is given for a service (google.cloud.run.v2.Service), and what of it is for people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from towtank.platforms.base import DeployContext
from towtank.platforms.cloud_run.config import DEFAULT_MAX_INSTANCES, CloudRunConfig, Service
from towtank.platforms.kubernetes import ownership
from towtank.units import format_bytes, format_number

Json = dict[str, Any]
TOKEN = "towtank-token"  # noqa: S105 - the name of a label
_NOT_LABEL = re.compile(r"[^a-z0-9_-]+")
_EGRESS = {"all": "ALL_TRAFFIC", "private": "PRIVATE_RANGES_ONLY"}


def labels(context: DeployContext) -> dict[str, str]:
    """What a service is labelled with: the marks of every platform, as Google allows labels (no dots, no capitals)."""
    marks = ownership.labels(context)
    found = {
        f"towtank-{key.removeprefix(ownership.PREFIX + '/')}": label(value)
        for key, value in marks.items()
        if key.startswith(ownership.PREFIX)
    }
    return {"managed-by": "towtank", **found}


def label(text: str) -> str:
    """Text as a label may have it: 63 small letters, digits, `-` and `_`."""
    return _NOT_LABEL.sub("-", text.lower())[:63]


def service_id(name: str, token: str) -> str:
    """Name of a service that nobody else has: at most 49 letters, digits and dashes."""
    return f"towtank-{name[:28].rstrip('-')}-{hashlib.sha256(f'{token} {name}'.encode()).hexdigest()[:10]}"


def body(service: Service, marks: dict[str, str]) -> Json:
    """A service as it is created."""
    template: Json = {"containers": [_container(service)], "labels": marks}
    scaling = {"minInstanceCount": service.min_instances, "maxInstanceCount": service.max_instances}
    optional: Json = {
        "maxInstanceRequestConcurrency": service.concurrency,
        "timeout": None if service.timeout is None else f"{service.timeout:.0f}s",
        "serviceAccount": service.service_account,
        "executionEnvironment": None
        if service.generation is None
        else f"EXECUTION_ENVIRONMENT_GEN{service.generation}",
        "scaling": {key: value for key, value in scaling.items() if value is not None} or None,
        "vpcAccess": None
        if service.vpc is None
        else {"connector": service.vpc.connector, "egress": _EGRESS[service.vpc.egress]},
    }
    template |= {key: value for key, value in optional.items() if value is not None}
    return {
        "labels": marks,
        "ingress": "INGRESS_TRAFFIC_ALL",
        "invokerIamDisabled": service.public,
        "template": template,
    }


def _container(service: Service) -> Json:
    found: Json = {"image": service.image}
    for key in ("command", "args"):
        if words := getattr(service, key):
            found[key] = list(words)
    if service.env:
        found["env"] = [{"name": name, "value": value} for name, value in service.env.items()]
    if service.port is not None or service.http2:
        port: Json = {"name": "h2c"} if service.http2 else {}
        found["ports"] = [port | ({} if service.port is None else {"containerPort": service.port})]
    limits = {"cpu": service.cpu, "memory": service.memory}
    resources: Json = {"limits": {key: value for key, value in limits.items() if value is not None}}
    if service.cpu_always is not None:
        resources["cpuIdle"] = not service.cpu_always
    if service.startup_boost is not None:
        resources["startupCpuBoost"] = service.startup_boost
    resources = {key: value for key, value in resources.items() if value != {}}
    return found | ({"resources": resources} if resources else {})


def in_words(config: CloudRunConfig) -> Iterator[str]:
    """What would be created, one line a service."""
    for name, one in config.services.items():
        high = one.max_instances or DEFAULT_MAX_INSTANCES
        yield (
            f"service towtank-{name}-… in {config.project}, {config.region}: image {one.image}, "
            f"{format_number(one.vcpu)} CPU {'always' if one.cpu_always else 'during requests'}, "
            f"{format_bytes(int(one.memory_bytes))}, {one.min_instances or 0} to {high} instances of "
            f"{one.concurrency or 'as many as Cloud Run takes'} requests at a time, "
            f"{'open to anybody' if one.public else 'for callers with a token'}"
        )
