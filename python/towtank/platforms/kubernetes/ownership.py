"""Whose an object is: labels on everything that is created, and notes on disk before anything is.

A note says in which cluster and namespace a deployment is to be, and every object by name. Whoever comes after a crash
reads it, and deletes what carries the deployment's token; whatever else has such a name is somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from towtank.clock import machine_id
from towtank.platforms import notes
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.kinds import Kind
from towtank.platforms.kubernetes.parameters import pod_templates
from towtank.platforms.kubernetes.sources import Json

PREFIX = "towtank.dev"
TOKEN = f"{PREFIX}/token"
ROLE = f"{PREFIX}/role"
"""Label of the pods of helpers: which kind they are."""
INSTALLATION = f"{PREFIX}/installation"
_NOT_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_NAME = re.compile(r"[^a-z0-9]+")


def labels(context: DeployContext) -> dict[str, str]:
    """What everything of a deployment is labelled with."""
    found = {
        TOKEN: context.token,
        INSTALLATION: machine_id(),
        f"{PREFIX}/deployment": label_value(context.name),
        "app.kubernetes.io/managed-by": "towtank",
    }
    if context.experiment:
        found[f"{PREFIX}/experiment"] = label_value(context.experiment)
    return found


def namespace_name(name: str, token: str) -> str:
    """Name of the namespace that a deployment gets for itself."""
    middle = _NOT_NAME.sub("-", name.lower()).strip("-")[:30].strip("-")
    end = _NOT_NAME.sub("-", token.lower()).strip("-")[-24:].strip("-")
    return f"towtank-{middle}-{end}"


def label_value(text: str) -> str:
    """Text as a label may have it: 63 letters, digits, `-`, `_` and `.`."""
    return _NOT_LABEL.sub("-", text)[:63].strip("-_.")


def selector(token: str) -> str:
    """What finds everything of a deployment."""
    return f"{TOKEN}={token}"


def is_ours(thing: Json, token: str) -> bool:
    """Whether an object carries the token."""
    return ((thing.get("metadata") or {}).get("labels") or {}).get(TOKEN) == token


def marked(thing: Json, namespace: str | None, marks: dict[str, str]) -> Json:
    """Put labels on an object and its pods, and the namespace; in place.

    `managed-by` stays what its author wrote.
    """
    metadata = thing["metadata"]
    metadata["labels"] = _with(metadata.get("labels"), marks)
    if namespace is not None:
        metadata["namespace"] = namespace
    for template in pod_templates(thing):
        if template is not thing:
            holder = template.setdefault("metadata", {})
            holder["labels"] = _with(holder.get("labels"), marks)
    spec = thing.get("spec")
    claims = spec.get("volumeClaimTemplates") if isinstance(spec, dict) else None
    for claim in claims or []:  # a StatefulSet leaves its claims behind; we do not
        holder = claim.setdefault("metadata", {})
        holder["labels"] = _with(holder.get("labels"), marks)
    return thing


def _with(has: dict[str, str] | None, marks: dict[str, str]) -> dict[str, str]:
    own = {key: value for key, value in marks.items() if key.startswith(PREFIX)}
    return {**marks, **(has or {}), **own}


@dataclass(frozen=True)
class Owned:
    """One object that is to be created."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Where it is in the API."""
        return self.of.path(self.namespace, self.name)

    @property
    def of(self) -> Kind:
        """Its kind."""
        return Kind(self.api_version, self.kind, self.plural, self.namespaced)

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Note(notes.Note):
    """Where a deployment is and what belongs to it; written before anything is created.

    Parameters
    ----------
    token : str
    context, server : str
    kubeconfig : str
        Absolute path of the file that the context came from.
    cluster : str
        Id of the cluster, where it may be known: a context that was bent to another cluster is noticed.
    namespace : str
    own_namespace : bool
        Towtank makes it and removes it.
    things : tuple of Owned
        In the order of their creation.
    """

    FILE: ClassVar[str] = "kubernetes.json"
    BY_HAND: ClassVar[str] = (
        "objects with the label towtank.dev/token may be left in the cluster: "
        "kubectl get all,ns -A -l towtank.dev/token"
    )

    token: str
    context: str
    server: str
    kubeconfig: str
    cluster: str
    namespace: str
    own_namespace: bool
    things: tuple[Owned, ...] = field(default=())

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        things: Sequence[dict[str, Any]] = content.pop("things")
        return cls(**content, things=tuple(Owned(**one) for one in things))
