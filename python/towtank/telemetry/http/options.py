"""Options of every source that asks an HTTP server: where it is, and how it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from towtank.fields import Duration, Model, Size
from towtank.platforms import placeholders
from towtank.platforms.external_config import Address
from towtank.platforms.transport import Headers

SHORTEST_TIMEOUT_S = 0.05
LONGEST_TIMEOUT_S = 120.0


class Basic(Model):
    """User and password (RFC 7617)."""

    user: str = Field(min_length=1, pattern=r"^[^:\x00-\x1f\x7f]+$", description="name of the user")
    password: Annotated[str, AfterValidator(placeholders.only_secret)] = Field(
        description="{env.NAME} or {file.PATH}", examples=["{env.PROMETHEUS_PASSWORD}"]
    )


class ServerTls(Model):
    """How the server's certificate is checked. Without `ca` the system's authorities are trusted."""

    ca: str | None = Field(
        None, min_length=1, description="PEM file with the authorities that are trusted; relative to the experiment"
    )  # fmt: skip
    insecure: bool = Field(default=False, description="accept any certificate")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.insecure and self.ca is not None:
            raise ValueError("`insecure` accepts any certificate, so `ca` would do nothing; leave one away")
        return self


class ServerOptions(Model):
    """Where a server is, and how it is asked."""

    url: Address = Field(description="address of the server", examples=["http://127.0.0.1:9090"])
    headers: Headers = Field(
        default_factory=dict,
        description='sent with every question, such as {authorization: "Bearer {env.TOKEN}"}',
    )
    basic: Basic | None = Field(None, description="user and password")
    tls: ServerTls | None = Field(None, description="how its certificate is checked; only with https")
    timeout: Duration = Field(
        10.0, ge=SHORTEST_TIMEOUT_S, le=LONGEST_TIMEOUT_S, description="longest wait for one whole answer"
    )
    most_bytes: Size = Field(64 << 20, ge=1024, le=1 << 30, description="longest answer that is read")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.tls is not None and not self.url.startswith("https:"):
            raise ValueError(f"`tls` is for https only; found {self.url!r}")
        if self.url.startswith("unix:"):
            raise ValueError(f"found {self.url!r}; allowed is http://HOST[:PORT] or https://HOST[:PORT]")
        if self.basic is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("`basic` and a header `authorization` exclude each other")
        return self

    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values are used, and masked in everything written."""
        return placeholders.dotted(self._secrets(), "env")

    def secret_files(self) -> tuple[str, ...]:
        """Files whose texts are used, and masked in everything written."""
        return placeholders.dotted(self._secrets(), "file")

    def _secrets(self) -> Iterator[str]:
        yield from self.headers.values()
        if self.basic is not None:
            yield self.basic.password
