"""The `external` platform's part of an experiment file: something that is already there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from towtank.fields import Model, Slug
from towtank.platforms import placeholders
from towtank.platforms.readiness import Ready

DEFAULT_TARGET = "app"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def base_url(value: object) -> str:
    """Read the base address of an instance: ``http://host:port``, perhaps with a path before all steps' paths.

    Raises
    ------
    ValueError
        No http(s) address, or one with user, query or fragment.
    """
    allowed = "allowed is http://HOST[:PORT] or https://HOST[:PORT], perhaps with a path"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not an address; {allowed}")
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{value!r} is not an address: {error}; {allowed}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{value!r} is not an address that requests can go to; {allowed}")
    if parts.username or parts.password:
        raise ValueError("the address carries a user or password; send them as a header from {env.NAME}")
    if parts.query or parts.fragment or re.search(r"\s", value.strip()):
        raise ValueError(f"{value!r} has a query, a fragment or a blank; those belong to a step's path")
    return value.strip().rstrip("/")


def _addresses(value: object) -> tuple[str, ...]:
    """One address or a list of them."""
    found = tuple(base_url(v) for v in (value if isinstance(value, list | tuple) else [value]))
    if not found:
        raise ValueError("the list of addresses is empty")
    if len(set(found)) != len(found):
        raise ValueError(f"{list(found)} names an address twice")
    return found


Address = Annotated[str, BeforeValidator(base_url)]
Addresses = Annotated[tuple[str, ...], BeforeValidator(_addresses, json_schema_input_type=str | list[str])]


class ExternalConfig(Model):
    """Addresses that are already there; nothing is created and nothing is removed.

    Exactly one of `url`, `instances` and `targets` says where requests go. The first two make one target, `app`.
    """

    platform: Literal["external"] = Field(description="something that is already there")
    url: Address | None = Field(
        None, description="address of the only target, `app`", examples=["http://127.0.0.1:8080"]
    )
    instances: dict[Slug, Address] | None = Field(
        None, min_length=1, description="addresses of the replicas of the only target, `app`, by name"
    )
    targets: dict[Slug, Addresses] | None = Field(
        None, min_length=1, description="target → its address, or the addresses of its replicas"
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="sent with every request; {env.NAME} takes a secret from the environment",
    )
    ready: Ready = Field(Ready(), description="when an instance counts as reachable")

    @field_validator("headers")
    @classmethod
    def _well_formed(cls, headers: dict[str, str]) -> dict[str, str]:
        seen: set[str] = set()
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name that an HTTP header can have")
            if name.lower() in seen:
                raise ValueError(f"the header {name!r} is given twice; case does not tell headers apart")
            seen.add(name.lower())
            if _CONTROL.search(value):
                raise ValueError(f"the value of header {name!r} holds a control character")
            placeholders.validate(value, placeholders.SECRET_NAMES)
        return headers

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [key for key in ("url", "instances", "targets") if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(f"`{key}`" for key in given) if given else "none of them"
            raise ValueError(f"needs exactly one of `url`, `instances` and `targets`; found {found}")
        return self

    def resolved(self) -> Mapping[str, Mapping[str, str]]:
        """Target → instance → address, of any of the three forms."""
        if self.targets is not None:
            return {
                name: {f"{name}-{index}": url for index, url in enumerate(urls)}
                for name, urls in self.targets.items()
            }
        if self.instances is not None:
            return {DEFAULT_TARGET: dict(self.instances)}
        return {DEFAULT_TARGET: {f"{DEFAULT_TARGET}-0": self.url or ""}}

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        return tuple(self.resolved())

    def fixture_names(self) -> tuple[str, ...]:
        """None: an external deployment uses no folder of ours."""
        return ()

    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values are used, and masked in everything written."""
        return placeholders.dotted(self.headers.values(), "env")
