"""A deployment on Cloud Run: services that are created together, become ready or say why not, and are removed."""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms.addressed import CreatedDeployment, rendered
from towtank.platforms.base import Cancelled, DeployContext, Instance, Target
from towtank.platforms.cloud_run import services as payloads
from towtank.platforms.cloud_run.api import POLLED_EVERY_S, CloudRunApi, condition
from towtank.platforms.cloud_run.config import CloudRunConfig
from towtank.platforms.cloud_run.note import Note
from towtank.platforms.masking import Secrets
from towtank.platforms.rest import Refused
from towtank.platforms.undoing import undone_on_failure
from towtank.units import format_duration

Json = dict[str, Any]


@runtime_checkable
class SeenInCloudRun(Protocol):
    """A deployment whose metrics Cloud Monitoring has."""

    def api(self) -> CloudRunApi:
        """Its API, for credentials; still open when the load has ended."""

    @property
    def place(self) -> tuple[str, str]:
        """Project and region."""

    @property
    def service_ids(self) -> dict[str, str]:
        """Service as Cloud Run calls it → its name in the experiment file."""


class CloudRunDeployment(CreatedDeployment):
    """Services of one project and region.

    Parameters
    ----------
    config : CloudRunConfig
    context : DeployContext
    secrets : Secrets
    api : CloudRunApi
    """

    def __init__(
        self, config: CloudRunConfig, context: DeployContext, secrets: Secrets, api: CloudRunApi
    ) -> None:
        self._config = config
        self._context = context
        self._api = api
        self._ids = {name: payloads.service_id(name, context.token) for name in config.services}
        self._seen: dict[str, Json] = {}
        self._operations: dict[str, str] = {}
        super().__init__(context.name, {}, config.ready, secrets, context.root)
        self._targets = self._made_targets()

    def mask(self, text: str) -> str:
        """Replace every secret value, the access token too."""
        return self._api.auth.mask(super().mask(text))

    def api(self) -> CloudRunApi:
        """See `SeenInCloudRun`."""
        return self._api

    @property
    def place(self) -> tuple[str, str]:
        """See `SeenInCloudRun`."""
        return self._config.project, self._config.region

    @property
    def service_ids(self) -> dict[str, str]:
        """See `SeenInCloudRun`."""
        return {own: name for name, own in self._ids.items()}

    def create(self) -> None:
        """Write down what is about to exist, then create it; what was created is removed if that fails.

        Raises
        ------
        PlatformError
        """
        config, context = self._config, self._context
        note = Note(context.token, config.endpoint, config.project, config.region, tuple(self._ids.values()))
        note.write(context.data_dir)
        marks = payloads.labels(context)
        with undone_on_failure(lambda: remove_all(self._api, note)):
            for name, service in config.services.items():
                self._create(name, payloads.body(service, marks))

    def _create(self, name: str, body: Json) -> None:
        own = self._ids[name]
        try:
            self._operations[name] = self._api.create(own, body)
        except Refused as error:
            found = self._api.find(own) if error.status == 409 else None
            if found is None or not is_ours(found, self._context.token):
                raise
            # Ours: only the answer was lost.

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Wait for every revision, then for the probes; see `Deployment.wait_ready`.

        Raises
        ------
        ReadinessTimeout
        PlatformError
            A revision failed, with Cloud Run's reasons.
        """
        until_s = time.monotonic() + self._config.ready.timeout
        waiting = dict(self._ids)
        while waiting:
            for name, own in list(waiting.items()):
                cancelled()
                if self._is_ready(name, own):
                    del waiting[name]
            if waiting and time.monotonic() >= until_s:
                raise self._too_late(waiting)
            if waiting:
                time.sleep(POLLED_EVERY_S)
        self._targets = self._made_targets()
        super().wait_ready(cancelled=cancelled)

    def _is_ready(self, name: str, own: str) -> bool:
        """Whether its revision serves."""
        found = self._api.find(own)
        if (
            found is None
        ):  # an operation that failed leaves nothing behind; one that has just begun has nothing yet
            operation = self._operations.get(name)
            words = self._api.failed(operation) if operation else "it is not there any more"
            if words:
                raise PlatformError(
                    f"deployment {self._name!r}: the service {own} was not created: {self.mask(words)}",
                    hint="what Cloud Run says names what to change",
                )
            return False
        self._seen[name] = found
        state, words = condition(found)
        if state == "CONDITION_FAILED":
            revision = str(found.get("latestCreatedRevision") or own).rpartition("/")[2]
            raise PlatformError(
                f"deployment {self._name!r}: the revision {revision} of the service {own} failed: {self.mask(words)}",
                hint=f"its own output: gcloud run services logs read {own} --region {self._config.region}",
            )
        return state == "CONDITION_SUCCEEDED" and not found.get("reconciling")

    def _too_late(self, waiting: dict[str, str]) -> ReadinessTimeout:
        name, own = next(iter(waiting.items()))
        _, words = condition(self._seen.get(name) or {})
        target = next((t for t, one in self._config.resolved().items() if one.service == name), name)
        return ReadinessTimeout(
            f"deployment {self._name!r}: {target}-0 (service {own}) was not ready within "
            f"{format_duration(self._config.ready.timeout)}; Cloud Run says: {self.mask(words) or 'nothing yet'}",
            hint="raise `ready.timeout`, or look at the revision in the console",
        )

    def describe(self) -> Json:
        """Facts for run.json; header values that hold a secret are masked."""
        return {
            "platform": "cloud_run",
            "project": self._config.project,
            "region": self._config.region,
            "services": {
                name: {"id": own, **_facts(self._seen.get(name, {}))} for name, own in self._ids.items()
            },
            "headers": self.shown_headers(self._config.headers),
        }

    def _delete(self) -> None:
        note = Note.read(self._context.data_dir)
        if note is not None:
            remove_all(self._api, note)
        self._api.close()

    def _made_targets(self) -> dict[str, Target]:
        """Targets of the services whose addresses are known."""
        found = {}
        for name, target in self._config.resolved().items():
            uri = str(self._seen.get(target.service, {}).get("uri") or "").rstrip("/")
            headers = rendered(self._config.headers_of(name), self._secrets)
            transport = self._config.transport_of(name).filled(self._secrets.placeholders)
            instances = (Instance(f"{name}-0", uri),) if uri else ()
            found[name] = Target(name, instances, headers, transport)
        return found


def _facts(service: Json) -> Json:
    """What run.json keeps of a service as Cloud Run shows it."""
    keys = ("uid", "uri", "createTime", "latestReadyRevision", "generation")
    made_of = (service.get("template") or {}).get("containers", ())
    return {key: service[key] for key in keys if key in service} | {
        "images": [one.get("image") for one in made_of]
    }


def is_ours(service: Json, token: str) -> bool:
    """Whether a service carries the token of a deployment."""
    return (service.get("labels") or {}).get(payloads.TOKEN) == payloads.label(token)


def remove_all(api: CloudRunApi, note: Note) -> int:
    """Delete what is ours of a note, and wait until it is gone; the number of services deleted.

    Raises
    ------
    PlatformError
        Something could not be deleted: everything else was.
    """
    gone, failed = [], []
    for own in note.services:
        try:
            found = api.find(own)
            if found is not None and is_ours(found, note.token):
                api.delete(own, str(found.get("etag") or ""))
                gone.append(own)
        except PlatformError as error:
            failed.append(error.message)
    for own in gone:
        api.wait_gone(own)
    if failed:
        raise PlatformError(
            f"{len(failed)} of {len(note.services)} services of {note.token} in {note.project}, {note.region} "
            f"could not be removed: {failed[0]}",
            hint="`towtank clean` tries again",
        )
    return len(gone)
