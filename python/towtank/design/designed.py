"""What checks of a design go by: levels, and how treatments are deployed. Loads and journeys play no part in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from towtank.design.model import Deploy, Scalar


class DeployedSpec(Protocol):
    """How a treatment is deployed; `TreatmentSpec` fits."""

    @property
    def deployment_name(self) -> str:
        """Name of the deployment in the file."""

    @property
    def deployment(self) -> Any:  # noqa: ANN401 - any platform's own model
        """The platform's own model."""

    @property
    def deploy(self) -> Deploy:
        """How long it lives."""


class Designed(Protocol):
    """A treatment as far as a design is concerned; `Treatment` fits."""

    @property
    def id(self) -> str:
        """Slug of the levels."""

    @property
    def levels(self) -> Mapping[str, Scalar]:
        """Factor → level."""

    @property
    def spec(self) -> DeployedSpec:
        """How it is deployed."""


@dataclass(frozen=True)
class OutlineSpec:
    """How a treatment is deployed, where more of it is wrong or not yet read."""

    deployment_name: str
    deployment: Any
    deploy: Deploy


@dataclass(frozen=True)
class Outline:
    """A treatment of which only that is known."""

    id: str
    levels: Mapping[str, Scalar]
    spec: OutlineSpec
