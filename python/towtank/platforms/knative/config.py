"""The `knative` platform's part of an experiment file: functions, and what else a Kubernetes deployment may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from towtank.platforms.knative.functions import Function, Name
from towtank.platforms.knative.services import manifests
from towtank.platforms.kubernetes.config import KubernetesConfig, KubernetesTarget
from towtank.platforms.target_transport import DEFAULT_TARGET


class KnativeConfig(KubernetesConfig):
    """Knative Services in a cluster that has Knative Serving, from a few fields or from manifests.

    Without `targets` each function is one by its name; the only one is `app`, too. All else is as for `kubernetes`.
    """

    _made_from: ClassVar = "`manifests`, `kustomize` and `helm`, or `functions`"

    platform: Literal["knative"] = Field(description="functions and Services on Knative Serving")  # type: ignore[assignment]  # the name is all that differs
    functions: dict[Name, Function] = Field(
        {}, description="Knative Services by name; Services may stand in manifests, too"
    )

    def made_of(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Objects of all functions."""
        for name, function in self.functions.items():
            for thing in manifests(name, function):
                yield f"functions.{name}", thing

    def wanted_targets(self) -> dict[str, KubernetesTarget] | None:
        """Targets as they are written, or else one for each function."""
        if self.targets is not None or not self.functions:
            return self.targets
        found = {name: KubernetesTarget(knative=name) for name in self.functions}
        return {DEFAULT_TARGET: next(iter(found.values()))} if len(found) == 1 else found
