"""The Admin API v2 of Cloud Run and its long-running operations (run.googleapis.com, discovery document run:v2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx

from towtank.errors import PlatformError, RemovalTimeout
from towtank.platforms.cloud_run.credentials import GoogleAuth
from towtank.platforms.rest import TIMEOUT_S, RestClient
from towtank.units import format_duration

Json = dict[str, Any]
POLLED_EVERY_S = 1.0
REMOVED_WITHIN_S = 300.0
_HINTS = {
    400: "Cloud Run does not take what it was sent: its reason names the field",
    401: "the credentials are not taken; are they of this project?",
    403: "does the project exist, is the Cloud Run Admin API on (`gcloud services enable run.googleapis.com`), does "
    "the region exist, and may this account do it (roles/run.developer, and iam.serviceAccountUser of the service's "
    "identity)?",
    404: "does the region exist? `gcloud run regions list` names them",
    409: "nothing that is there already is changed or removed",
    429: "the project's quota is used up; wait, or have it raised",
}


class CloudRunApi:
    """Services of one project and region; holds connections until `close`.

    Parameters
    ----------
    endpoint, project, region : str
    auth : GoogleAuth
    """

    def __init__(self, endpoint: str, project: str, region: str, auth: GoogleAuth) -> None:
        self.auth = auth
        self._project = f"projects/{quote(project)}"
        self.parent = f"projects/{quote(project)}/locations/{quote(region)}"
        client = httpx.Client(auth=auth, timeout=TIMEOUT_S, trust_env=False)
        self.rest = RestClient("Cloud Run", endpoint, client, mask=auth.mask, reason=reason, hints=_HINTS)

    def close(self) -> None:
        """Let go of the connections."""
        self.rest.close()
        self.auth.close()

    def regions(self) -> list[str]:
        """Regions that the project may use (v1 of the API: v2 does not tell them).

        Raises
        ------
        PlatformError
            Also where the project is not there, or the API is not on.
        """
        found: list[str] = []
        query: dict[str, str | int] = {"pageSize": 200}
        while True:
            page = self.rest.must(
                "GET", f"/v1/{self._project}/locations", what="asking for the regions", query=query
            )
            found += [str(one["locationId"]) for one in page.get("locations") or () if one.get("locationId")]
            if not page.get("nextPageToken"):
                return found
            query["pageToken"] = str(page["nextPageToken"])

    def try_out(self, service_id: str, body: Json) -> None:
        """Let Cloud Run check a service without creating it.

        Raises
        ------
        Refused
            With its reason.
        PlatformError
        """
        query = {"serviceId": service_id, "validateOnly": "true"}
        self.rest.must(
            "POST", f"/v2/{self.parent}/services", what=f"checking {service_id}", query=query, body=body
        )

    def create(self, service_id: str, body: Json) -> str:
        """Begin to create a service: the name of the operation.

        Raises
        ------
        Refused
            With status 409 where there is one of that name.
        PlatformError
        """
        made = self.rest.must(
            "POST", f"/v2/{self.parent}/services", what=f"creating the service {service_id}",
            query={"serviceId": service_id}, body=body,
        )  # fmt: skip
        return str(made.get("name", ""))

    def find(self, service_id: str) -> Json | None:
        """A service; None where there is none."""
        what = f"looking for the service {service_id}"
        reply = self.rest.ask("GET", f"/v2/{self.parent}/services/{service_id}", what=what)
        if reply.status == 404:
            return None
        if not reply.ok:
            raise self.rest.refused(reply, what)
        return dict(reply.content)

    def failed(self, operation: str) -> str:
        """Why an operation has failed; empty while it goes on, and when it did well."""
        found = self.rest.must("GET", f"/v2/{operation}", what="asking for the operation")
        error = found.get("error") if found.get("done") else None
        return str(error.get("message") or error) if error else ""

    def delete(self, service_id: str, etag: str) -> str:
        """Begin to delete a service, as it was seen: the name of the operation."""
        query = {"etag": etag} if etag else None
        made = self.rest.must(
            "DELETE",
            f"/v2/{self.parent}/services/{service_id}",
            what=f"deleting the service {service_id}",
            query=query,
        )
        return str(made.get("name", ""))

    def wait_gone(self, service_id: str, *, within_s: float = REMOVED_WITHIN_S) -> None:
        """Wait until a service is no longer there.

        Raises
        ------
        RemovalTimeout
        """
        self._poll(
            lambda: self.find(service_id) is None,
            within_s,
            lambda: RemovalTimeout(
                f"the service {service_id} is still there {format_duration(within_s)} after it was deleted",
                hint="look at it in the console, then try `towtank clean`",
            ),
        )

    def _poll(
        self, is_over: Callable[[], bool], within_s: float, give_up: Callable[[], PlatformError]
    ) -> None:
        until_s = time.monotonic() + within_s
        while not is_over():
            if time.monotonic() >= until_s:
                raise give_up()
            time.sleep(POLLED_EVERY_S)


def reason(content: object) -> str:
    """Google's own words: status and message, with what its details name."""
    error = content.get("error") if isinstance(content, dict) else None
    if not isinstance(error, dict):
        return " ".join(str(content or "").split())
    words = " ".join(str(error.get(key)) for key in ("status", "message") if error.get(key))
    named = [
        f"{one.get('field')}: {one.get('description')}"
        for detail in error.get("details") or ()
        if isinstance(detail, dict)
        for one in detail.get("fieldViolations") or ()
    ]
    return "; ".join([words, *named])


def condition(service: Json) -> tuple[str, str]:
    """State of a service (CONDITION_SUCCEEDED …), and its reasons in words: those of the parts that failed, too."""
    last = service.get("terminalCondition") or {}
    state = str(last.get("state", "STATE_UNSPECIFIED"))
    parts = [
        last,
        *(one for one in service.get("conditions") or () if one.get("state") == "CONDITION_FAILED"),
    ]
    found = dict.fromkeys(words for part in parts if (words := _words(part)))
    return state, "; ".join(found)


def _words(part: Json) -> str:
    names = [part[key] for key in ("reason", "revisionReason", "executionReason") if part.get(key)]
    return ": ".join([*names, *([part["message"]] if part.get("message") else [])])
