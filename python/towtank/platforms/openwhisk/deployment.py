"""A deployment on OpenWhisk: created and removed as a whole, and reached by web actions or by its API."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms.addressed import CreatedDeployment, rendered
from towtank.platforms.base import Cancelled, DeployContext, Instance, Target
from towtank.platforms.masking import Secrets
from towtank.platforms.openwhisk.api import Api, api_path, web_path
from towtank.platforms.openwhisk.config import OpenWhiskConfig
from towtank.platforms.openwhisk.entities import Collection, Entity, entities, is_ours, package_name
from towtank.platforms.openwhisk.note import Note
from towtank.platforms.probe import Waiting
from towtank.platforms.rest import Refused
from towtank.platforms.undoing import undone_on_failure
from towtank.units import format_duration

_RECORD_POLLED_EVERY_S = 0.2
_ON_PURPOSE = "application error"
"""Status of a run that answered with an error: it did start, and may have missed its parameters."""
_ORDER_OF_REMOVAL: tuple[Collection, ...] = ("rules", "triggers", "actions", "packages")


@runtime_checkable
class SeenInOpenWhisk(Protocol):
    """A deployment whose activations can be asked for."""

    def activations_api(self) -> Api:
        """The API; still open when the load has ended."""

    @property
    def package(self) -> str:
        """Name of the package that its actions are in, with its namespace."""


class OpenWhiskDeployment(CreatedDeployment):
    """Actions in a package of their own.

    Parameters
    ----------
    config : OpenWhiskConfig
    context : DeployContext
    secrets : Secrets
    api : Api
    namespace : str
        The real one.
    """

    def __init__(
        self, config: OpenWhiskConfig, context: DeployContext, secrets: Secrets, api: Api, namespace: str
    ) -> None:
        self._api = api
        self._config = config
        self._context = context
        self._namespace = namespace
        self._in_package = package_name(context.name, context.token)
        self._entities: tuple[Entity, ...] = tuple(entities(config, context, namespace))
        self._versions: dict[str, str] = {}
        super().__init__(context.name, self._made_targets(secrets), config.ready, secrets, context.root)

    def mask(self, text: str) -> str:
        """Replace every secret value, the key also in the form in which it is sent."""
        return self._api.credentials.mask(text)

    def activations_api(self) -> Api:
        """See `SeenInOpenWhisk`."""
        return self._api

    @property
    def package(self) -> str:
        """See `SeenInOpenWhisk`."""
        return f"{self._namespace}/{self._in_package}"

    def create(self) -> None:
        """Write down what is about to exist, then create it; what was created is removed if that fails.

        Raises
        ------
        PlatformError
        """
        tls = self._config.tls
        note = Note(
            self._context.token,
            self._config.url,
            self._namespace,
            self._config.auth,
            str(self._context.root.resolve()),
            {} if tls is None else tls.model_dump(mode="json", exclude_defaults=True),
            tuple((one.collection, one.name) for one in self._entities),
        )
        note.write(self._context.data_dir)
        with undone_on_failure(lambda: remove_all(self._api, note)):
            for entity in self._entities:
                self._create(entity)

    def _create(self, entity: Entity) -> None:
        try:
            made = self._api.create(entity.collection, entity.name, entity.body)
        except Refused as error:
            made = self._made_before(entity, error)
        self._versions[entity.shown] = str(made.get("version", ""))

    def _made_before(self, entity: Entity, error: Refused) -> dict[str, Any]:
        """What is there already: ours where only the answer was lost, else somebody else's."""
        found = self._api.find(entity.collection, entity.name) if error.status == 409 else None
        if found is not None and is_ours(found, self._context.token):
            return found
        raise error

    def describe(self) -> dict[str, Any]:
        """Facts for run.json; header values that hold a secret are masked."""
        return {
            "platform": "openwhisk",
            "url": self._config.url,
            "namespace": self._namespace,
            "package": self._in_package,
            "created": dict(self._versions),
            "instances": [
                {"name": instance.name, "target": target.name, "url": instance.url}
                for target in self._targets.values()
                for instance in target.instances
            ],
            "headers": self.shown_headers(self._config.headers),
        }

    def _delete(self) -> None:
        note = Note.read(self._context.data_dir)
        if note is not None:
            remove_all(self._api, note)
        self._api.close()

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Wait for the probes, then run every action once where that is wanted; see `Deployment.wait_ready`.

        Raises
        ------
        ReadinessTimeout
        PlatformError
            An action did not start, with the reason of its activation.
        """
        super().wait_ready(cancelled=cancelled)
        until_s = time.monotonic() + self._config.ready.timeout
        for name in self._config.in_order() if self._config.ready.invoke else ():
            cancelled()
            self._run_once(name, until_s, cancelled)

    def _run_once(self, name: str, until_s: float, cancelled: Cancelled) -> None:
        """One run of an action; its record comes with the answer, or late."""
        activation, record = self._api.invoke(f"{self._in_package}/{name}", {})
        while record is None:
            cancelled()
            if time.monotonic() >= until_s:
                raise ReadinessTimeout(
                    f"deployment {self._name!r}: the action {name} was not ready within "
                    f"{format_duration(self._config.ready.timeout)}: activation {activation} has no record yet",
                    hint="raise `ready.timeout`; `wsk activation get` shows it when it is there",
                )
            time.sleep(_RECORD_POLLED_EVERY_S)
            record = self._api.activation(activation)
        words = failure(record)
        if words and not words.startswith(_ON_PURPOSE):
            raise PlatformError(
                f"deployment {self._name!r}: the action {name} does not run: {self.mask(words)}",
                hint=f"its own output: wsk activation logs {activation}",
            )

    def _made_targets(self, secrets: Secrets) -> dict[str, Target]:
        found = {}
        for name, target in self._config.resolved().items():
            headers = rendered(self._config.headers_of(name), secrets)
            if target.web is not None:
                path = web_path(self._namespace, f"{self._in_package}/{target.web}", target.extension)
            else:
                in_package = f"/{self._in_package}" if target.api == "actions" else ""
                path = api_path(self._namespace, target.api or "actions") + in_package
                headers["authorization"] = self._api.credentials.header
            transport = self._config.transport_of(name).filled(secrets.placeholders)
            instance = Instance(f"{name}-0", self._config.url + path)
            found[name] = Target(name, (instance,), headers, transport)
        return found

    def _more_of(self, item: Waiting) -> str:  # noqa: ARG002 - an activation does not say which target it came by
        """Reason of the last activation, which an answer to a web action does not have."""
        with contextlib.suppress(PlatformError):
            now_ms = round(time.time() * 1000)
            for record in self._api.activations(since_ms=now_ms - 3_600_000, upto_ms=now_ms + 3_600_000):
                if in_package(record, self.package):
                    words = failure(record)
                    return f"; the last activation says: {self.mask(words)}" if words else ""
        return ""


def in_package(record: Mapping[str, Any], package: str) -> bool:
    """Whether an activation is of an action in a package (`NAMESPACE/PACKAGE`)."""
    path = annotation(record, "path")
    return isinstance(path, str) and path.startswith(f"{package}/")


def annotation(record: Mapping[str, Any], key: str) -> object:
    """Value of an annotation; None where there is none."""
    found = (
        one for one in record.get("annotations") or () if isinstance(one, dict) and one.get("key") == key
    )
    return next((one.get("value") for one in found), None)


def failure(record: Mapping[str, Any]) -> str:
    """Why an activation failed, in OpenWhisk's words; empty where it did not."""
    response = record.get("response") or {}
    if response.get("success", True):
        return ""
    result = response.get("result")
    words = result.get("error") if isinstance(result, dict) else result
    return f"{response.get('status', 'failed')}: {words}"


def remove_all(api: Api, note: Note) -> int:
    """Delete what is ours of a note, what was made last first; the number of things deleted.

    Raises
    ------
    PlatformError
        Something could not be deleted: everything else was.
    """
    count, failed = 0, []
    for collection in _ORDER_OF_REMOVAL:
        for kind, name in reversed(note.things):
            if kind != collection:
                continue
            try:
                count += _remove(api, collection, name, note.token)
            except PlatformError as error:
                failed.append(error.message)
    if failed:
        raise PlatformError(
            f"{len(failed)} of {len(note.things)} things of {note.token} at {note.url} could not be removed: "
            f"{failed[0]}",
            hint="`towtank clean` tries again",
        )
    return count


def _remove(api: Api, collection: Collection, name: str, token: str) -> bool:
    found = api.find(collection, name)
    return found is not None and is_ours(found, token) and api.delete(collection, name)
