"""The `external` platform: addresses that are already there. Nothing is created and nothing is removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import placeholders
from towtank.platforms.base import Cancelled, DeployContext, Instance, LogFile, SystemEvent, Target
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.masking import Secrets, missing_secrets
from towtank.platforms.probe import Prober, Waiting, wait_until_ready
from towtank.sensitive import mask_values
from towtank.units import format_duration


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


class ExternalDeployment:
    """Somebody else's instances.

    Parameters
    ----------
    config : ExternalConfig
    context : DeployContext
    secrets : Secrets
    """

    def __init__(self, config: ExternalConfig, context: DeployContext, secrets: Secrets) -> None:
        self._config = config
        self._name = context.name
        self._secrets = secrets
        self._root = context.root
        self._targets = {
            target: Target(
                target,
                tuple(Instance(name, url) for name, url in instances.items()),
                {
                    name: placeholders.render(value, secrets.placeholders)
                    for name, value in config.headers_of(target).items()
                },
                config.transport_of(target).filled(secrets.placeholders),
            )
            for target, instances in config.resolved().items()
        }
        self._lock = threading.Lock()
        self._events: list[SystemEvent] = []
        self._was_ready = False
        self._probed = False

    @property
    def targets(self) -> Mapping[str, Target]:
        """As the experiment file names them; headers carry the secrets."""
        return self._targets

    def mask(self, text: str) -> str:
        """Replace every secret value in a text that is about to be written somewhere."""
        return self._secrets.mask(text)

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Block until every instance answers its probe; see `Deployment.wait_ready`."""
        ready = self._config.ready
        waiting = [Waiting(i, ready, target) for target in self._targets.values() for i in target.instances]
        with Prober(self._root) as prober:
            wait_until_ready(
                waiting, prober=prober, cancelled=cancelled, watch=lambda: None, give_up=self._not_ready
            )
        self._was_ready = True

    def probe(self) -> None:
        """Ask every instance once, after the load; what does not answer becomes an event."""
        with Prober(self._root) as prober:
            for target in self._targets.values():
                for instance in target.instances:
                    seen = prober.probe(instance.url, self._config.ready, target)
                    if seen is not None:
                        self._note_unreachable(instance, self._secrets.mask(seen))
        self._probed = True

    def events(self) -> Sequence[SystemEvent]:
        """What a probe after the load has noticed; what happens unseen in between nobody can say."""
        with self._lock:
            return list(self._events)

    def describe(self) -> dict[str, Any]:
        """Facts for run.json; header values that hold a secret are masked."""
        return {
            "platform": "external",
            "instances": [
                {"name": instance.name, "target": target.name, "url": instance.url}
                for target in self._targets.values()
                for instance in target.instances
            ],
            "headers": {
                name: placeholders.render(value, self._secrets.masked_placeholders)
                for name, value in mask_values(self._config.headers).items()
            },
            "transport": {
                name: shown for name in self._targets if (shown := self._config.transport_of(name).shown())
            },
        }

    def remove(self) -> Sequence[LogFile]:
        """Nothing to remove; asks once more whether all answer, if nobody has since they were ready."""
        if self._was_ready and not self._probed:
            self.probe()
        return ()

    def _note_unreachable(self, instance: Instance, seen: str) -> None:
        message = f"{instance.name} at {instance.url} no longer answers {self._config.ready.probe}: {seen}"
        event = SystemEvent(time.monotonic_ns(), "unreachable", instance.name, message, {"seen": seen})
        with self._lock:
            self._events.append(event)

    def _not_ready(self, item: Waiting) -> PlatformError:
        return ReadinessTimeout(
            f"deployment {self._name!r}: {item.instance.name} at {item.instance.url} was not ready within "
            f"{format_duration(item.ready.timeout)}; {item.ready.probe} saw last: {self._secrets.mask(item.seen)}",
            hint="is it up, and reachable from here? try the address with curl",
        )
