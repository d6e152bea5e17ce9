"""Deployments that are known by their addresses alone: probed before and after the load, seen no further."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import placeholders
from towtank.platforms.base import Cancelled, Instance, LogFile, SystemEvent, Target
from towtank.platforms.masking import Secrets
from towtank.platforms.probe import Prober, Waiting, wait_until_ready
from towtank.platforms.readiness import Ready
from towtank.sensitive import mask_values
from towtank.units import format_duration


def rendered(headers: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    """Headers with secrets in their places."""
    return {name: placeholders.render(value, secrets.placeholders) for name, value in headers.items()}


class AddressedDeployment:
    """Addresses that requests go to, and what probes of them saw.

    Parameters
    ----------
    name : str
        Of the deployment in the experiment file.
    targets : mapping
    ready : Ready
    secrets : Secrets
    root : Path
        Folder of the experiment file.
    """

    def __init__(
        self, name: str, targets: Mapping[str, Target], ready: Ready, secrets: Secrets, root: Path
    ) -> None:
        self._name = name
        self._targets = targets
        self._ready = ready
        self._secrets = secrets
        self._root = root
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
        waiting = [
            Waiting(i, self._ready, target) for target in self._targets.values() for i in target.instances
        ]
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
                    seen = prober.probe(instance.url, self._ready, target)
                    if seen is not None:
                        self._note_unreachable(instance, self.mask(seen))
        self._probed = True

    def events(self) -> Sequence[SystemEvent]:
        """What a probe after the load has noticed; what happens unseen in between nobody can say."""
        with self._lock:
            return list(self._events)

    def shown_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Headers for run.json: those that hold a secret are masked."""
        return {
            name: placeholders.render(value, self._secrets.masked_placeholders)
            for name, value in mask_values(dict(headers)).items()
        }

    def remove(self) -> Sequence[LogFile]:
        """Nothing to remove; asks once more whether all answer, if nobody has since they were ready."""
        if self._was_ready and not self._probed:
            self.probe()
        return ()

    def _note_unreachable(self, instance: Instance, seen: str) -> None:
        message = f"{instance.name} at {instance.url} no longer answers {self._ready.probe}: {seen}"
        event = SystemEvent(time.monotonic_ns(), "unreachable", instance.name, message, {"seen": seen})
        with self._lock:
            self._events.append(event)

    def _not_ready(self, item: Waiting) -> PlatformError:
        return ReadinessTimeout(
            f"deployment {self._name!r}: {item.instance.name} at {item.instance.url} was not ready within "
            f"{format_duration(item.ready.timeout)}; {item.ready.probe} saw last: {self.mask(item.seen)}"
            f"{self._more_of(item)}",
            hint="is it up, and reachable from here? try the address with curl",
        )

    def _more_of(self, item: Waiting) -> str:  # noqa: ARG002 - of those that know more
        """What else is known of an instance that is not ready, after what the probe saw."""
        return ""


class CreatedDeployment(AddressedDeployment, ABC):
    """Addresses of what Towtank created elsewhere: it goes with the deployment, once."""

    _removed = False

    @abstractmethod
    def _delete(self) -> None:
        """Delete everything, then let go of connections."""

    def remove(self) -> Sequence[LogFile]:
        """Delete what was created, however often it is called."""
        if not self._removed:
            super().remove()
            self._delete()
            self._removed = True
        return ()
