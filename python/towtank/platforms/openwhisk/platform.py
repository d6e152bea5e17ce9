"""The `openwhisk` platform: actions of one namespace, created and removed again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from towtank.errors import PlatformError
from towtank.platforms import placeholders
from towtank.platforms.base import DeployContext
from towtank.platforms.masking import Secrets, missing_secrets
from towtank.platforms.openwhisk.api import Api, Credentials
from towtank.platforms.openwhisk.checks import bounds, problems
from towtank.platforms.openwhisk.config import OpenWhiskConfig
from towtank.platforms.openwhisk.deployment import OpenWhiskDeployment, remove_all
from towtank.platforms.openwhisk.note import Note
from towtank.platforms.rest import said
from towtank.platforms.swept import SweptByNotes
from towtank.platforms.transport import Tls


class OpenWhiskPlatform(SweptByNotes[Note]):
    """Creates actions in a package of their own, and removes what it created."""

    name = "openwhisk"

    def check(self, config: OpenWhiskConfig, root: Path | None = None) -> Sequence[str]:
        """Secrets, reach, key, namespace, files, and limits that this OpenWhisk says it has."""
        missing = missing_secrets(config.secret_names(), config.secret_files(), root)
        if missing:
            return missing
        if root is None and config.secret_files():
            return []
        found = [] if root is None else [words for _, words in config.file_problems(root)]
        try:
            api = connect(config, root or Path())
        except PlatformError as error:
            return [*found, said(error)]
        try:
            api.real_namespace()
            found += problems(config, bounds(api))
        except PlatformError as error:
            found.append(said(error))
        finally:
            api.close()
        return found

    def deploy(self, config: OpenWhiskConfig, context: DeployContext) -> OpenWhiskDeployment:
        """Create everything; see `Platform.deploy`."""
        secrets = _secrets(config, context.root)
        api = connect(config, context.root)
        try:
            namespace = api.real_namespace()
            deployment = OpenWhiskDeployment(config, context, secrets, api, namespace)
            deployment.create()
        except BaseException:
            api.close()
            raise
        return deployment

    def place(self, config: OpenWhiskConfig, root: Path) -> tuple[str, str]:
        """The API host, and which namespace of it; see `base.HasPlace`."""
        api = connect(config, root)
        try:
            return config.url, f"namespace {api.real_namespace()} at {config.url}"
        finally:
            api.close()

    def _read(self, folder: Path) -> Note | None:
        return Note.read(folder)

    def _sweep(self, note: Note) -> int:
        return _sweep(note)


def connect(config: OpenWhiskConfig, root: Path) -> Api:
    """The API of a deployment's host, with its key.

    Raises
    ------
    PlatformError
    """
    secrets = _secrets(config, root)
    credentials = Credentials(placeholders.render(config.auth, secrets.placeholders), secrets)
    tls = config.transport().filled(secrets.placeholders).tls
    return Api(config.url, credentials, config.namespace, tls=tls, root=root)


def _secrets(config: OpenWhiskConfig, root: Path) -> Secrets:
    return Secrets(config.secret_names(), files=config.secret_files(), root=root)


def _sweep(note: Note) -> int:
    root = Path(note.root)
    tls = Tls.model_validate(note.tls) if note.tls else None
    named = [note.auth, *([tls.key] if tls is not None and tls.key is not None else ())]
    env, files = placeholders.dotted(named, "env"), placeholders.dotted(named, "file")
    secrets = Secrets(env, files=files, root=root)
    if tls is not None and tls.key is not None:
        tls = tls.model_copy(update={"key": placeholders.render(tls.key, secrets.placeholders)})
    credentials = Credentials(placeholders.render(note.auth, secrets.placeholders), secrets)
    api = Api(note.url, credentials, note.namespace, tls=tls, root=root)
    try:
        return remove_all(api, note)
    finally:
        api.close()
