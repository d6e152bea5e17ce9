"""What OpenWhisk is given for a deployment: a package with its actions, triggers and rules, each marked as ours."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.ownership import PREFIX, labels
from towtank.platforms.openwhisk.config import BINARY, MIB, MOST_CODE_BYTES, Action, OpenWhiskConfig
from towtank.units import format_bytes

Json = dict[str, Any]
Collection = Literal["packages", "actions", "triggers", "rules"]
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Entity:
    """One thing that is to be created.

    Parameters
    ----------
    collection : str
    name : str
        Below its namespace: an action's with its package.
    body : mapping
        What is sent.
    """

    collection: Collection
    name: str
    body: Json

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.collection.removesuffix('s')} {self.name}"


def package_name(name: str, token: str) -> str:
    """Name of the package that a deployment gets for itself."""
    return f"towtank-{_NOT_NAME.sub('-', name)[:30]}-{_NOT_NAME.sub('-', token)[-24:]}"


def marks(context: DeployContext) -> dict[str, str]:
    """Annotations by which everything of a deployment is known: the same as labels elsewhere."""
    return {key: value for key, value in labels(context).items() if key.startswith(PREFIX)}


def is_ours(thing: Json, token: str) -> bool:
    """Whether an entity carries the token of a deployment."""
    return {"key": f"{PREFIX}/token", "value": token} in (thing.get("annotations") or [])


def entities(config: OpenWhiskConfig, context: DeployContext, namespace: str) -> Iterator[Entity]:
    """Everything in the order of creation: what is referred to comes first.

    Parameters
    ----------
    config : OpenWhiskConfig
    context : DeployContext
    namespace : str
        The real one, which full names need.

    Raises
    ------
    PlatformError
        A file cannot be read.
    """
    ours = marks(context)
    package = package_name(context.name, context.token)
    yield Entity("packages", package, {"annotations": _pairs(ours)})
    for name in config.in_order():
        body = _action(config.actions[name], context.root, f"/{namespace}/{package}")
        body["annotations"] = _pairs(
            {**config.actions[name].annotations, **_web(config.actions[name]), **ours}
        )
        yield Entity("actions", f"{package}/{name}", body)
    for name, trigger in config.triggers.items():
        parts: Json = {"annotations": _pairs(ours), "parameters": _pairs(trigger.parameters)}
        yield Entity("triggers", f"{package}-{name}", parts)
    for name, rule in config.rules.items():
        parts = {
            "annotations": _pairs(ours),
            "trigger": f"/{namespace}/{package}-{rule.trigger}",
            "action": f"/{namespace}/{package}/{rule.action}",
        }
        yield Entity("rules", f"{package}-{name}", parts)


def code_problem(action: Action, root: Path) -> str:
    """What is wrong with an action's file, in words; empty where nothing is."""
    if action.code is None:
        return ""
    try:
        length = len(_code(action, root))
    except PlatformError as error:
        return error.message
    if length > MOST_CODE_BYTES:
        grown = " once it is base64, as it is sent" if Path(action.code).suffix in BINARY else ""
        return (
            f"{action.code!r} has {format_bytes(length)}{grown}; OpenWhisk takes {format_bytes(MOST_CODE_BYTES)} "
            "unless it was set up otherwise"
        )
    return ""


def _action(action: Action, root: Path, package: str) -> Json:
    execution: Json = {"kind": action.exec_kind}
    if action.sequence is not None:
        execution["components"] = [
            one if one.startswith("/") else f"{package}/{one}" for one in action.sequence
        ]
    if action.image is not None:
        execution["image"] = action.image
    if action.code is not None:
        execution["code"] = _code(action, root)
        execution["binary"] = Path(action.code).suffix in BINARY
    if action.main is not None:
        execution["main"] = action.main
    body: Json = {"exec": execution, "parameters": _pairs(action.parameters)}
    limits = {
        "memory": None if action.memory is None else action.memory // MIB,
        "timeout": None if action.timeout is None else round(action.timeout * 1000),
        "logs": None if action.logs is None else action.logs // MIB,
        "concurrency": action.concurrency,
    }
    found = {key: value for key, value in limits.items() if value is not None}
    if found:
        body["limits"] = found
    return body


def _code(action: Action, root: Path) -> str:
    """Text of a file, or base64 of one that is none."""
    path = root / (action.code or "")
    try:
        content = path.read_bytes()
        return base64.b64encode(content).decode() if path.suffix in BINARY else content.decode()
    except OSError as error:
        raise PlatformError(f"{action.code!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PlatformError(
            f"{action.code!r} is no text in UTF-8 ({error.reason} at byte {error.start})",
            hint=f"what is no text is packed: allowed are {', '.join(BINARY)}",
        ) from error


def _web(action: Action) -> Json:
    """What makes a web action of an action, as OpenWhisk's own command line does it."""
    if not action.web:
        return {}
    return {"web-export": True, "raw-http": action.web == "raw", "final": True}


def _pairs(values: Json | dict[str, str]) -> list[Json]:
    """Parameters and annotations as the API has them."""
    return [{"key": key, "value": value} for key, value in values.items()]
