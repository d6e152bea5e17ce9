"""Helpers on the nodes that make faults where the API cannot: there before the load, each reached at its own address.

They live beside the deployment, with a note, a Lease and a mark of their own, so that no pod of theirs is taken for one
of the deployment. docs/faults.md says what they do, and how everything is undone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from towtank.errors import EngineError, PlatformError
from towtank.platforms.base import Cancelled, DeployContext, Undo
from towtank.platforms.kubernetes import disturber_objects, grip
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import Disturber
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.control import Control
from towtank.platforms.kubernetes.grip import Grip
from towtank.platforms.kubernetes.helper import HelperObjects
from towtank.platforms.kubernetes.helper_objects import token_secret
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.readiness import Waiter
from towtank.platforms.kubernetes.workloads import Workload

MARK = "-faults"
"""Ends the token of what belongs to the disturbers of a deployment."""
_TRY_EVERY_S = 0.3
_ACCOUNT_WITHIN_S = 15.0
"""A new namespace has its service account a moment later, and no pod before."""


class Disturbers:
    """A DaemonSet in a namespace of its own, or a given one.

    Parameters
    ----------
    connection : Connection
        The deployment's.
    config : Disturber
    context : DeployContext
        The deployment's.
    """

    def __init__(self, connection: Connection, config: Disturber, context: DeployContext) -> None:
        self._api = connection.api
        self._config = config
        self._mark = context.token + MARK
        self._made = HelperObjects(
            connection,
            replace(context, token=self._mark, data_dir=context.data_dir / MARK.strip("-")),
            config.namespace,
            origin="disturber",
            namespace_labels=disturber_objects.PRIVILEGED,
        )
        self._control = Control(self._api, self._made.namespace, disturber_objects.PORT, config.control)
        self._workloads: tuple[Workload, ...] = ()
        self._standing: dict[str, Json] = {}

    # --- coming up -------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Create everything; what was created goes with `close`, whatever happens.

        Raises
        ------
        PlatformError
            Privileged pods may not be made there, in the server's own words.
        """

        def are_let_in() -> None:
            try_pod(self._api, self._config, self._made.namespace, within_s=_ACCOUNT_WITHIN_S)

        things = [
            token_secret(disturber_objects.NAME, self._made.token),
            disturber_objects.daemon_set(self._config, self._mark),
        ]
        self._workloads = (Workload(self._made.create(things, before=are_let_in)[-1]),)

    def wait_ready(self, timeout_s: float, cancelled: Cancelled) -> None:
        """Block until one stands, and answers, on every node that shall have one.

        Raises
        ------
        ReadinessTimeout, PlatformError
        """
        made = self._made
        waiter = Waiter(self._api, "disturber", made.namespace, self._workloads, made.living, made.mask)
        waiter.wait(timeout_s, first_instance="disturber", cancelled=cancelled)
        standing = made.living()
        if not standing:
            raise PlatformError(
                f"no node has a disturber: none has the labels {self._config.node_selector}",
                hint="let `disturber.node_selector` choose the nodes of the deployment",
            )
        for pod in standing:
            self._reach(pod, cancelled).close()
        self._standing = {str(pod["spec"].get("nodeName")): pod for pod in standing}

    def _reach(self, pod: Json, cancelled: Cancelled) -> Grip:
        return grip.reach(self._control, pod, self._made.token, _who(pod), cancelled)

    def _take(self, pod: Json) -> Grip:
        return grip.take(self._control, pod, self._made.token, _who(pod))

    # --- at work ---------------------------------------------------------------------------------------------------

    def begin(
        self, pod: Json, fault: dict[str, Any], lasts_s: float | None, *, alone: bool = False
    ) -> tuple[dict[str, Any], Undo]:
        """Make a fault on the node of a pod.

        Parameters
        ----------
        pod : mapping
        fault : mapping
            As `towtank-engine disturb` takes it.
        lasts_s : float, optional
            It undoes it by itself soon after this.
        alone : bool
            It cannot be told anything meanwhile, and undoes it exactly then.

        Returns
        -------
        tuple
            What it says of it, and what undoes it.

        Raises
        ------
        PlatformError
        """
        held = self._grip(str((pod.get("spec") or {}).get("nodeName")), str(pod["metadata"]["name"]))
        if alone:
            fault = {**fault, "towards": held.own_address}
        return held.begin(fault, lasts_s, alone=alone), held.undo

    def _grip(self, node: str, pod: str) -> Grip:
        """Reach the disturber of a node; the API is only asked where it is not where it was."""
        known = self._standing.get(node)
        if known is not None:
            with contextlib.suppress(EngineError):
                return self._take(known)
        self._standing = {str(one["spec"].get("nodeName")): one for one in self._made.living()}
        if node not in self._standing:
            raise PlatformError(f"no disturber stands on node {node}, where pod {pod} is")
        return self._reach(self._standing[node], lambda: None)

    # --- going -----------------------------------------------------------------------------------------------------

    def close(self, api: ApiClient) -> None:
        """Delete everything that was created, and wait until it is gone; idempotent. What is on is undone by that.

        Parameters
        ----------
        api : ApiClient
            That of the connection, or another where an attempt that failed has closed it.

        Raises
        ------
        PlatformError
        """
        self._made.close(api)


def _who(pod: Json) -> str:
    return f"the disturber on node {pod['spec'].get('nodeName')}"


def try_pod(api: ApiClient, config: Disturber, namespace: str, *, within_s: float = 0.0) -> None:
    """Let the server try a single disturber: what a DaemonSet's controller is refused is only told in events.

    Raises
    ------
    PlatformError
        Privileged pods may not be made there, in the server's own words.
    """
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": disturber_objects.NAME, "namespace": namespace},
        "spec": disturber_objects.pod_spec(config),
    }
    until = time.monotonic() + within_s
    while True:
        try:
            api.create(POD.path(namespace), pod, dry_run=True)
        except ApiError as error:
            if "serviceaccount" in error.said and time.monotonic() < until:
                time.sleep(_TRY_EVERY_S)
                continue
            raise PlatformError(
                f"disturbers may not stand in namespace {namespace}: {error.said}",
                hint="they are privileged: name a namespace whose pod security lets them in "
                "(`disturber: {namespace: …}`), or leave these faults out; docs/faults.md says what they do",
            ) from error
        return


def container_ids(pod: Json) -> Sequence[str]:
    """Ids of a pod's running containers, as their runtime has them.

    Raises
    ------
    PlatformError
        None of them runs.
    """
    status = pod.get("status") or {}
    every = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    running = [one for one in every if (one.get("state") or {}).get("running") is not None]
    found = [str(one.get("containerID") or "").rpartition("/")[2] for one in running]
    if not found or not all(found):
        raise PlatformError(f"pod {pod['metadata']['name']} has no container that runs")
    return found
