"""What Towtank itself brings into a cluster beside a deployment (workers, agents, disturbers), made like one."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import creating, ownership
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.creating import Planned
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.lease import LiveLease
from towtank.platforms.kubernetes.ownership import Note, Owned
from towtank.platforms.kubernetes.pods import is_leaving
from towtank.platforms.kubernetes.sources import Source


class HelperObjects:
    """Objects in a namespace of their own, or a given one, with a note about them and a Lease.

    Parameters
    ----------
    connection : Connection
        Closed with them, unless `close` is given another.
    context : DeployContext
        Mark of everything that is created, and the folder for the note about it.
    namespace : str, optional
        A given one, which is left there.
    origin : str
        Where they come from, for messages of the server.
    namespace_labels : mapping, optional
        What a namespace of their own is labelled with besides.

    Attributes
    ----------
    token : str
        What they and their orchestrator know each other by.
    """

    def __init__(
        self,
        connection: Connection,
        context: DeployContext,
        namespace: str | None,
        *,
        origin: str,
        namespace_labels: Mapping[str, str] | None = None,
    ) -> None:
        self.connection = connection
        self.token = secrets.token_hex(32)
        self._context = context
        self._given = namespace is not None
        self.namespace = namespace or ownership.namespace_name(context.name, context.token)
        self._origin = origin
        self._marks = ownership.labels(context)
        self._namespace_labels = dict(namespace_labels or {})
        self._note: Note | None = None
        self._lease: LiveLease | None = None
        self._closed = False

    def create(
        self, things: Sequence[dict[str, Any]], *, before: Callable[[], None] | None = None
    ) -> list[Owned]:
        """Create everything, the server having tried it first; what was created goes with `close`.

        Parameters
        ----------
        things : sequence of dict
        before : callable, optional
            What is to be found out in the namespace before anything is created there; what it raises ends this.

        Raises
        ------
        PlatformError
        """
        api = self.connection.api
        marked = [ownership.marked(thing, self.namespace, self._marks) for thing in things]
        planned = planned_objects(self.connection, marked, self.namespace, origin=self._origin)
        if self._given:
            creating.check_namespace(api, self.namespace, self._context.token)
        note = Note(
            self._context.token, api.context, api.server, self.connection.kubeconfig, self.connection.identity,
            self.namespace, not self._given, tuple(one.owned for one in planned),
        )  # fmt: skip
        note.write(self._context.data_dir)
        self._note = note
        if not self._given:
            creating.create_namespace(api, self.namespace, {**self._marks, **self._namespace_labels})
        self._lease = LiveLease(api, self.namespace, self._context.token, self._marks)
        self._lease.start()
        if before is not None:
            before()
        problems = creating.try_out(api, planned)
        if problems:
            raise PlatformError("\n".join(problems))
        creating.create_all(api, planned)
        return [one.owned for one in planned]

    def pods(self) -> list[Json]:
        """Their pods, as they are now.

        Raises
        ------
        PlatformError
        """
        selector = ownership.selector(self._context.token)
        found, _ = self.connection.api.list(POD.path(self.namespace), labelSelector=selector)
        return found

    def living(self) -> list[Json]:
        """Those that are not about to go.

        Raises
        ------
        PlatformError
        """
        return [pod for pod in self.pods() if not is_leaving(pod)]

    def mask(self, text: str) -> str:
        """Hide the token in a text that is about to be shown."""
        return text.replace(self.token, "***")

    def close(self, api: ApiClient | None = None) -> None:
        """Delete everything that was created, and wait until it is gone; idempotent, and tried again by another call.

        Parameters
        ----------
        api : ApiClient, optional
            Somebody else's, which stays open, as that of the connection then does.

        Raises
        ------
        PlatformError
            Something could not be deleted; the note is still there, so that `towtank clean` can try again.
        """
        if self._closed:
            return
        with contextlib.ExitStack() as each:
            if api is None:
                api = self.connection.api.opened()
                each.callback(api.close)
            if self._lease is not None:  # also where something stays: nobody renews what is given up
                each.callback(self._lease.close)
            if self._note is not None:
                creating.delete_all(api, self._note)
                with contextlib.suppress(OSError):
                    (self._context.data_dir / ownership.Note.FILE).unlink(missing_ok=True)
                self._note = None
        self._closed = True


def planned_objects(
    connection: Connection, things: Sequence[dict[str, Any]], namespace: str, *, origin: str
) -> list[Planned]:
    """Objects with what the cluster calls their kinds, not created yet.

    Parameters
    ----------
    connection : Connection
    things : sequence of dict
        As they are to be created.
    namespace : str
        Where.
    origin : str
        Where they come from, for messages of the server.

    Raises
    ------
    PlatformError
        The cluster does not know a kind.
    """
    planned = []
    for thing in things:
        kind, name = connection.kinds.of(thing), thing["metadata"]["name"]
        owned = Owned(kind.api_version, kind.kind, kind.plural, kind.namespaced, namespace, name)
        planned.append(Planned(Source(thing, origin), owned))
    return planned
