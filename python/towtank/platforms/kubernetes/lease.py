"""A Lease in the cluster marks a deployment that somebody is using; nobody sweeps it while it is renewed."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from towtank.clock import boot_id, machine_id
from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.kinds import LEASE
from towtank.platforms.kubernetes.ownership import PREFIX, TOKEN

DURATION_S = 30
RENEW_EVERY_S = 8.0
HOLDER = f"{PREFIX}/holder"
"""Annotation: machine, boot, pid and start time; on the same machine it tells at once whether the holder lives."""


def lease_name(token: str) -> str:
    """Name of a deployment's Lease."""
    return f"towtank-{token}".lower()


def holder() -> str:
    """This process, so that no other can be taken for it."""
    return f"{machine_id()}/{boot_id()}/{os.getpid()}/{_start_ticks(os.getpid())}"


class LiveLease:
    """A Lease that is renewed by a thread until it is closed.

    Parameters
    ----------
    api : ApiClient
    namespace, token : str
    labels : dict
    """

    def __init__(self, api: ApiClient, namespace: str, token: str, labels: dict[str, str]) -> None:
        self._api = api
        self._namespace = namespace
        self._name = lease_name(token)
        self._token = token
        self._labels = labels
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = ""

    def start(self) -> None:
        """Create it and begin to renew it.

        Raises
        ------
        ApiError, Unreachable
        """
        self._api.create(LEASE.path(self._namespace), self._body())
        self._thread = threading.Thread(target=self._renew, name=f"towtank-lease {self._token}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Ask the server once whether the Lease is there still.

        A watch that is open says nothing of that, nor of the server: one that hangs is as silent as one in whose
        cluster nothing happens.

        Raises
        ------
        PlatformError
            It is gone, or the server is, or it does not let us in any more.
        """
        if not self.lost:
            self._look(self._api.find(LEASE.path(self._namespace, self._name)))
        if self.lost:
            raise PlatformError(self.lost, hint="somebody else cleans up in this namespace")

    def close(self) -> None:
        """Renew it no longer."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(RENEW_EVERY_S)

    def _body(self) -> Json:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": self._labels,
                "annotations": {HOLDER: holder()},
            },
            "spec": {
                "holderIdentity": f"{socket.gethostname()}/{os.getpid()}",
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _renew(self) -> None:
        path = LEASE.path(self._namespace, self._name)
        while not self._ending.wait(RENEW_EVERY_S):
            with contextlib.suppress(PlatformError):  # the next one may get through; it lasts several rounds
                found = self._look(self._api.find(path))
                if found is None:
                    return
                found["spec"]["renewTime"] = self._body()["spec"]["renewTime"]
                self._api.replace(path, found)

    def _look(self, found: Json | None) -> Json | None:
        """The Lease that was found if it is ours; if not, it is lost."""
        if found is not None and (found["metadata"].get("labels") or {}).get(TOKEN) == self._token:
            return found
        self.lost = f"the Lease {self._name} in namespace {self._namespace} was deleted by somebody"
        return None


def live_holder(api: ApiClient, lease: Json, *, sleep: Callable[[float], None] = time.sleep) -> str:
    """Who uses a Lease that was found; empty when nobody does any more.

    On this machine the process is looked for. A holder elsewhere is given the Lease's duration to renew it, by our
    clock alone: nobody's wall clocks are compared.
    """
    spec = lease.get("spec") or {}
    who = str(spec.get("holderIdentity") or "somebody")
    mark = str((lease["metadata"].get("annotations") or {}).get(HOLDER, ""))
    machine, _, rest = mark.partition("/")
    if machine == machine_id():
        boot, pid, ticks = (*rest.split("/"), "", "", "")[:3]
        alive = boot == boot_id() and pid.isdigit() and _start_ticks(int(pid)) == ticks
        return who if alive and mark != holder() else ""
    lasts_s = spec.get("leaseDurationSeconds")
    sleep(float(DURATION_S if lasts_s is None else lasts_s))
    meta = lease["metadata"]
    try:
        again = api.find(LEASE.path(str(meta.get("namespace", "")), str(meta["name"])))
    except ApiError:
        return who
    if again is None or (again.get("spec") or {}).get("renewTime") == spec.get("renewTime"):
        return ""
    return who


def _start_ticks(pid: int) -> str:
    """Start time of a process (field 22 of its stat); empty when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - one read
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
