"""The `cloud_run` platform: services of one project and region, created and removed again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.cloud_run import services as payloads
from towtank.platforms.cloud_run.api import CloudRunApi
from towtank.platforms.cloud_run.config import CloudRunConfig
from towtank.platforms.cloud_run.credentials import GoogleAuth
from towtank.platforms.cloud_run.deployment import CloudRunDeployment, remove_all
from towtank.platforms.cloud_run.note import Note
from towtank.platforms.masking import Secrets, missing_secrets
from towtank.platforms.rest import said
from towtank.platforms.swept import SweptByNotes

_TRIED_AS = "plan"


class CloudRunPlatform(SweptByNotes[Note]):
    """Creates services, and removes what it created."""

    name = "cloud_run"

    def check(self, config: CloudRunConfig, root: Path | None = None) -> Sequence[str]:
        """Secrets, credentials, and what Cloud Run says to a trial (`validateOnly`) of every service."""
        found = list(missing_secrets(config.secret_names(), config.secret_files(), root))
        try:
            api = open_api(config)
        except PlatformError as error:
            return [*found, said(error)]
        try:
            for name, service in config.services.items():
                try:
                    api.try_out(payloads.service_id(name, _TRIED_AS), payloads.body(service, {}))
                except PlatformError as error:
                    found.append(f"services.{name}: {said(error)}")
        finally:
            api.close()
        return found

    def would_create(self, config: CloudRunConfig) -> Sequence[str]:
        """See `base.TellsWhatItCreates`."""
        return list(payloads.in_words(config))

    def deploy(self, config: CloudRunConfig, context: DeployContext) -> CloudRunDeployment:
        """Create everything; see `Platform.deploy`."""
        secrets = Secrets(config.secret_names(), files=config.secret_files(), root=context.root)
        api = open_api(config)
        try:
            deployment = CloudRunDeployment(config, context, secrets, api)
            deployment.create()
        except BaseException:
            api.close()
            raise
        return deployment

    def place(self, config: CloudRunConfig, root: Path) -> tuple[str, str]:
        """Project and region; see `base.HasPlace`."""
        del root
        return config.project, f"{config.project} in {config.region}, by {config.endpoint}"

    def _read(self, folder: Path) -> Note | None:
        return Note.read(folder)

    def _sweep(self, note: Note) -> int:
        return _sweep(note)


def open_api(config: CloudRunConfig) -> CloudRunApi:
    """The API of a deployment's project and region, with credentials that are known to be taken.

    Raises
    ------
    PlatformError
    """
    return _open(config.endpoint, config.project, config.region)


def _open(endpoint: str, project: str, region: str) -> CloudRunApi:
    """An API whose credentials are known to be taken."""
    auth = GoogleAuth()
    try:
        auth.token()
    except PlatformError:
        auth.close()
        raise
    return CloudRunApi(endpoint, project, region, auth)


def _sweep(note: Note) -> int:
    api = _open(note.endpoint, note.project, note.region)
    try:
        return remove_all(api, note)
    finally:
        api.close()
