"""The `external` platform: addresses that are already there. Nothing is created and nothing is removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from towtank.platforms.addressed import AddressedDeployment, rendered
from towtank.platforms.base import DeployContext, Instance, Target
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.masking import Secrets, missing_secrets


class ExternalPlatform:
    """Looks at what somebody else has deployed."""

    name = "external"

    def check(self, config: ExternalConfig, root: Path | None = None) -> Sequence[str]:
        """Secrets that are not there; nothing is asked over the network, since a plan must touch nothing."""
        return missing_secrets(config.secret_names(), config.secret_files(), root)

    def deploy(self, config: ExternalConfig, context: DeployContext) -> ExternalDeployment:
        """Look up the secrets; create nothing."""
        secrets = Secrets(config.secret_names(), files=config.secret_files(), root=context.root)
        return ExternalDeployment(config, context, secrets)

    def sweep(self, token: str) -> int:  # noqa: ARG002
        """Nothing was created, so nothing can be left."""
        return 0


class ExternalDeployment(AddressedDeployment):
    """Somebody else's instances.

    Parameters
    ----------
    config : ExternalConfig
    context : DeployContext
    secrets : Secrets
    """

    def __init__(self, config: ExternalConfig, context: DeployContext, secrets: Secrets) -> None:
        targets = {
            target: Target(
                target,
                tuple(Instance(name, url) for name, url in instances.items()),
                rendered(config.headers_of(target), secrets),
                config.transport_of(target).filled(secrets.placeholders),
            )
            for target, instances in config.resolved().items()
        }
        super().__init__(context.name, targets, config.ready, secrets, context.root)
        self._config = config

    def describe(self) -> dict[str, Any]:
        """Facts for run.json; header values that hold a secret are masked."""
        return {
            "platform": "external",
            "instances": [
                {"name": instance.name, "target": target.name, "url": instance.url}
                for target in self._targets.values()
                for instance in target.instances
            ],
            "headers": self.shown_headers(self._config.headers),
            "transport": {
                name: shown for name in self._targets if (shown := self._config.transport_of(name).shown())
            },
        }
