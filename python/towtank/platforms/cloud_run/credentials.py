"""Credentials as Google's own libraries find them, for httpx: `google-auth`, the extra `cloud-run`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from towtank.errors import PlatformError
from towtank.platforms.masking import MASK

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_HINT = (
    "allowed are GOOGLE_APPLICATION_CREDENTIALS=FILE (a service account, or workload identity), what "
    "`gcloud auth application-default login` leaves, or a machine of Google's; docs/cloud-run.md, section 3"
)


@dataclass(frozen=True)
class _Answer:
    """As google.auth.transport.Response has it."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Transport:
    """What google-auth asks for tokens with: a google.auth.transport.Request over httpx."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> _Answer:
        from google.auth.exceptions import TransportError  # noqa: PLC0415 - an extra

        try:
            answer = self._client.request(
                method, url, content=body, headers=dict(headers or {}), timeout=timeout or 30.0
            )
        except httpx.HTTPError as error:
            raise TransportError(str(error) or type(error).__name__) from error
        return _Answer(answer.status_code, dict(answer.headers), answer.content)


class GoogleAuth(httpx.Auth):
    """Puts an access token on every request, and gets a new one before it expires.

    Raises
    ------
    PlatformError
        google-auth is not installed, nothing is found, or what is found is no longer taken.
    """

    def __init__(self) -> None:
        try:
            import google.auth  # noqa: PLC0415 - an extra
            from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        except ImportError as error:
            raise PlatformError(
                "credentials for Google cannot be looked for: google-auth is not installed",
                hint="pip install 'towtank[cloud-run]'",
            ) from error
        self._error = GoogleAuthError
        self._client = httpx.Client(trust_env=False)
        try:
            self._credentials, _ = google.auth.default(scopes=SCOPES)
        except (GoogleAuthError, OSError, ValueError) as error:
            self._client.close()
            raise PlatformError(f"no credentials for Google: {_in_line(error)}", hint=_HINT) from error

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See httpx: one request; refused tokens are not asked for again, since they were fresh."""
        request.headers["authorization"] = f"Bearer {self.token()}"
        yield request

    def token(self) -> str:
        """An access token that is good for some minutes more.

        Raises
        ------
        PlatformError
        """
        if not self._credentials.valid:
            try:
                self._credentials.refresh(_Transport(self._client))
            except (self._error, OSError, ValueError) as error:
                raise PlatformError(
                    f"the credentials for Google are not taken: {self.mask(_in_line(error))}",
                    hint=f"they may have expired or been revoked; {_HINT}",
                ) from error
        return str(self._credentials.token)

    def mask(self, text: str) -> str:
        """Replace the token."""
        token = self._credentials.token
        return text.replace(token, MASK) if token else text

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()


def _in_line(error: Any) -> str:  # noqa: ANN401 - google-auth's errors hold texts and answers
    parts = error.args[:1] if error.args else (error,)
    return " ".join(str(parts[0]).split())[:400]
