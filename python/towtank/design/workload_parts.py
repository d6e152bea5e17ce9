"""What a workload may have beside its load and its journey: connections, rotation, cold starts, feeds."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from towtank.design.request_model import AsWritten, FileName
from towtank.fields import Duration, Model, Scalar, Whole


class Connections(Model):
    """When a connection is opened, shared and closed."""

    policy: Literal["per-user", "pool", "new"] | None = Field(
        None,
        description="one for each user, a pool for all arrivals, or a new one for each request; without it `per-user` "
        "in closed load, `pool` in open load",
    )
    max_age: Duration | None = Field(
        None, gt=0, description="an older one is closed as soon as nothing is under way on it"
    )
    max_requests: Whole | None = Field(None, ge=1, description="closed after so many requests")


def _as_connections(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


AnyConnections = Annotated[
    Connections,
    BeforeValidator(_as_connections, json_schema_input_type=Connections | Literal["per-user", "pool", "new"]),
]


class ColdHeader(Model):
    """A header that tells a cold start."""

    name: str = Field(min_length=1, description="name of the header")
    equals: str = Field("true", description="its value when the start was cold")


class ColdField(Model):
    """A field of a JSON body that tells a cold start."""

    path: str = Field(min_length=1, description="JSONPath (RFC 9535), such as $.cold")
    equals: Scalar = Field(default=True, description="its value when the start was cold")


class Cold(Model):
    """How an answer tells a cold start; the first that is given and found decides."""

    header: ColdHeader | None = Field(None, description="a header of the answer")
    json_: ColdField | None = Field(None, alias="json", description="a field of its JSON body")
    above: Duration | None = Field(
        None, gt=0, description="an answer that took longer, from its start, was cold"
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.header is None and self.json_ is None and self.above is None:
            raise ValueError("needs at least one of `header`, `json`, `above`")
        return self


class Feed(Model):
    """Rows for templates: `{{ FEED.COLUMN }}`; an iteration or arrival has one row of each feed."""

    file: FileName = Field(description="CSV with a header row, or JSON Lines, inside the experiment's folder")
    format: Literal["csv", "jsonl"] | None = Field(
        None, description="without it, as the file's name ends: .csv, .jsonl or .ndjson"
    )
    order: Literal["sequential", "random", "unique-per-user"] = Field(
        "sequential",
        description="row k for iteration k; drawn by seed; or row k for user k, who keeps it (closed load only)",
    )
    delimiter: AsWritten = Field(
        ",", min_length=1, max_length=1, description="between the fields of a CSV row"
    )
    secret: bool = Field(
        default=False,
        description="not copied into the results, such as a list of passwords; its SHA-256 is kept",
    )

    @property
    def kind(self) -> Literal["csv", "jsonl"] | None:
        """Format, stated or by the file's name; None when neither says it."""
        if self.format is not None:
            return self.format
        name = self.file.lower()
        if name.endswith((".jsonl", ".ndjson")):
            return "jsonl"
        return "csv" if name.endswith(".csv") else None


def _as_feed(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


AnyFeed = Annotated[Feed, BeforeValidator(_as_feed, json_schema_input_type=str | Feed)]
"""A feed; a text alone is its file."""
