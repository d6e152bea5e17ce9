"""When an instance counts as ready: the `ready` key of local and external deployments."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from towtank.fields import Duration, Model

DEFAULT_TIMEOUT_S = 60.0
"""Long enough for a JVM on a small machine, short enough not to lose an evening to a typing error."""
DEFAULT_INTERVAL_S = 0.1
"""A probe costs the application a connection; ten a second delay a run by 50 ms on average."""


class Ready(Model):
    """Readiness probe of each instance; without a word a TCP connection that is accepted."""

    http: str | None = Field(
        None, description="ready when GET of this path answers 2xx or 3xx", examples=["/health"]
    )
    tcp: bool | None = Field(
        None, description="ready when a TCP connection is accepted; the default without `http`"
    )
    timeout: Duration = Field(
        DEFAULT_TIMEOUT_S, gt=0, description="how long all instances together may take to become ready"
    )
    interval: Duration = Field(
        DEFAULT_INTERVAL_S, gt=0, description="pause between two probes of an instance"
    )

    @field_validator("http")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith("/"):
            raise ValueError(f"{path!r} is not a path; it must begin with /, such as /health")
        return path

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.http is not None and self.tcp:
            raise ValueError("both `http` and `tcp: true` are given; allowed is one of them")
        if self.http is None and self.tcp is False:
            raise ValueError("`tcp: false` leaves no probe; give `http: /path`, or leave both out for TCP")
        return self

    @property
    def probe(self) -> str:
        """What is asked, in words."""
        return f"GET {self.http}" if self.http is not None else "TCP connection"
