"""Options of the source `otlp`, as an experiment file gives them."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from towtank.fields import Duration, Model, Size, Whole

_ADDRESS = re.compile(r"^(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})$")


class OtlpOptions(Model):
    """Options of the source `otlp`."""

    listen: str = Field(
        "127.0.0.1:4318",
        description="address and port at which spans are received (OTLP/HTTP, path /v1/traces); anybody who reaches it "
        "can send some",
    )
    max_spans: Whole = Field(
        200_000, ge=1, le=5_000_000, description="spans kept of one run; more are refused, and a finding"
    )
    most_bytes: Size = Field(
        128 << 20,
        ge=1 << 20,
        le=4 << 30,
        description="memory for what is received in one run, before it is decoded",
    )
    most_body: Size = Field(
        8 << 20, ge=1 << 10, le=1 << 30, description="largest body of one export, also after decompression"
    )
    linger: Duration = Field(
        6.0,
        ge=0,
        le=300,
        description="how long spans are waited for after the load, at most: exporters send every 5 s by default",
    )

    @field_validator("listen")
    @classmethod
    def _an_address(cls, value: str) -> str:
        match = _ADDRESS.match(value)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise ValueError(f"{value!r} is not an address with a port, such as 127.0.0.1:4318 or [::1]:4318")
        return value

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        match = _ADDRESS.match(self.listen)
        assert match is not None  # noqa: S101 - validated
        return match["six"] or match["host"], int(match["port"])
