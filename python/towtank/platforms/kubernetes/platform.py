"""The `kubernetes` platform: objects in the cluster of one named context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import (
    creating,
    disturbers,
    edge_proxies,
    ownership,
    reach,
    rights,
    sources,
)
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.config import Disturber, EdgeProxy, KubernetesConfig
from towtank.platforms.kubernetes.connection import Connection, connect, usable_nodes
from towtank.platforms.kubernetes.control import FORWARDED
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.kinds import LEASE, NAMESPACE
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.lease import lease_name, live_holder
from towtank.platforms.kubernetes.parameters import Change, changed
from towtank.platforms.masking import Secrets, missing_secrets
from towtank.platforms.rest import said

_CHECKED_IN = creating.TRY_IN
_HELPERS = (disturbers.MARK, edge_proxies.MARK)


class KubernetesPlatform:
    """Creates objects in a cluster, and removes what it created.

    The context has to be named: nothing happens to a cluster because a shell happened to point at it.
    """

    name = "kubernetes"
    deployment: ClassVar[type[KubernetesDeployment]] = KubernetesDeployment

    def check(self, config: KubernetesConfig, root: Path | None = None) -> Sequence[str]:
        """Everything that can be known before: files, context, kinds, rights, and what the server says to a trial."""
        found = list(missing_secrets(config.secret_names(), config.secret_files(), root))
        try:
            connection = connect(config.context, config.kubeconfig, root)
        except PlatformError as error:
            return [*found, said(error)]
        try:
            if root is not None:
                found += _problems(connection, config, root)
        except PlatformError as error:
            found.append(said(error))
        finally:
            connection.api.close()
        return found

    def deploy(self, config: KubernetesConfig, context: DeployContext) -> KubernetesDeployment:
        """Create everything; see `Platform.deploy`."""
        secrets = Secrets(config.secret_names(), files=config.secret_files(), root=context.root)
        connection = connect(config.context, config.kubeconfig, context.root)
        try:
            namespace = config.namespace or ownership.namespace_name(context.name, context.token)
            planned, changes = _planned(connection, config, context.root, namespace)
            deployment = self.deployment(
                connection, config, context, secrets, planned=planned, changes=changes
            )
            deployment.create()
        except BaseException:
            connection.api.close()
            raise
        return deployment

    def place(self, config: KubernetesConfig, root: Path) -> tuple[str, str]:
        """The context, and which cluster it is; see `base.HasPlace`."""
        connection = connect(config.context, config.kubeconfig, root)
        connection.api.close()
        cluster = connection.cluster
        return config.context, f"{connection.identity} ({cluster['distribution']} {cluster['version']})"

    def sweep(self, token: str) -> int:
        """Nothing: where a deployment was is known from its note only; see `sweep_noted`."""
        del token
        return 0

    def sweep_noted(self, token: str, folder: Path) -> int:
        """Delete what a dead Towtank left of the deployment with this token; see `base.SweepsFromNotes`.

        Raises
        ------
        PlatformError
            The cluster cannot be reached or is another one than then, or somebody still uses the deployment.
        """
        notes = [found for path in _note_folders(folder) if (found := ownership.Note.read(path))]
        ours = [note for note in notes if note.token in {token, *(token + mark for mark in _HELPERS)}]
        # Helpers first: as long as they are there they still hold what they do to the deployment.
        return sum(_sweep(note) for note in sorted(ours, key=lambda note: note.token == token))


def _sweep(note: ownership.Note) -> int:
    api = ApiClient(find_context(note.context, note.kubeconfig or None))
    try:
        _check_same_cluster(api, note)
        lease = api.find(LEASE.path(note.namespace, lease_name(note.token)))
        who = live_holder(api, lease) if lease is not None and ownership.is_ours(lease, note.token) else ""
        if who:
            raise PlatformError(
                f"the deployment {note.token} in namespace {note.namespace} is still used by {who}",
                hint="wait until that towtank has ended",
            )
        return creating.delete_all(api, note)
    finally:
        api.close()


def _note_folders(folder: Path) -> list[Path]:
    """Where notes may be: helpers have theirs in a folder of the deployment's."""
    found = [*folder.glob(f"*/{ownership.Note.FILE}"), *folder.glob(f"*/*/{ownership.Note.FILE}")]
    return [folder, *(path.parent for path in sorted(found))]


def _check_same_cluster(api: ApiClient, note: ownership.Note) -> None:
    found = api.find(NAMESPACE.path(name="kube-system")) or {}
    uid = (found.get("metadata") or {}).get("uid", "")
    if uid and note.cluster not in (uid, note.server):
        raise PlatformError(
            f"the context {note.context!r} points to another cluster than when the deployment {note.token} was made: "
            f"then {note.cluster}, now {uid}",
            hint="point it back, or delete by hand: kubectl get ns,all -A -l towtank.dev/token",
        )


def _planned(
    connection: Connection, config: KubernetesConfig, root: Path, namespace: str
) -> tuple[list[creating.Planned], list[Change]]:
    read = sources.read(config, root)
    things, changes = changed(read, config, usable_nodes(connection.api, config.nodes))
    return creating.plan_objects(things, connection.kinds, config, namespace), changes


def _problems(connection: Connection, config: KubernetesConfig, root: Path) -> list[str]:
    """Problems of one deployment in a cluster that answers."""
    place = config.namespace or _CHECKED_IN
    planned, _ = _planned(connection, config, root, place)
    reach.find_routes(config, [one.owned for one in planned])
    api = connection.api
    owned = [one.owned for one in planned]
    wanted = rights.needed(config.namespace, owned, logs=config.logs is not False)
    found = _lacking(api, wanted)
    if config.disturber is not None:
        found += _disturber_problems(api, config.disturber)
    if config.edge_proxy is not None:
        found += _lacking(api, rights.of_edge_proxy(config.edge_proxy.namespace), config.edge_proxy)
    if config.namespace is not None and not found:
        creating.check_namespace(api, config.namespace, token="")
    if not found:
        found += creating.try_out(api, planned, instead=place if config.namespace is None else None)
    if found and any("the right to" in one for one in found):
        found.append(
            f"`towtank doctor --context {api.context}` checks rights; docs/kubernetes.md grants them"
        )
    return found


def _disturber_problems(api: ApiClient, config: Disturber) -> list[str]:
    """What keeps disturbers away; a namespace that is not there yet cannot be asked."""
    found = _lacking(api, rights.of_disturbers(config.namespace), config)
    if config.namespace is not None and not found:
        disturbers.try_pod(api, config, config.namespace)
    return found


def _lacking(
    api: ApiClient, wanted: Sequence[rights.Right], helper: Disturber | EdgeProxy | None = None
) -> list[str]:
    """Rights that are missing, and for a helper that is only reached through the API server the right to that."""
    if helper is not None and helper.control == FORWARDED:
        wanted = [*wanted, *rights.of_forwarding(helper.namespace, optional=False)]
    return rights.told(rights.missing(api, wanted), f" in context {api.context!r}")
