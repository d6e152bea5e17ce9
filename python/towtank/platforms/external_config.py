"""The `external` platform's part of an experiment file: something that is already there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from towtank.fields import Slug
from towtank.platforms.readiness import Ready
from towtank.platforms.target_transport import DEFAULT_TARGET, OwnTransport, TargetsTransport
from towtank.platforms.transport import Headers


def base_url(value: object) -> str:
    """Read the base address of an instance: ``http://host:port``, perhaps with a path before all steps' paths.

    Raises
    ------
    ValueError
        No http(s) or unix address, or one with user, query or fragment.
    """
    allowed = (
        "allowed is http://HOST[:PORT] or https://HOST[:PORT], perhaps with a path, or unix:/PATH/OF/SOCKET"
    )
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not an address; {allowed}")
    text = value.strip()
    if text.startswith("unix:"):
        path, _, prefix = text.removeprefix("unix:").partition(":")
        if not path.startswith("/") or (prefix and not prefix.startswith("/")) or re.search(r"\s|[?#]", text):
            raise ValueError(f"{value!r} is not the address of a Unix socket; {allowed}")
        return text.rstrip("/")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{value!r} is not an address: {error}; {allowed}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{value!r} is not an address that requests can go to; {allowed}")
    if parts.username or parts.password:
        raise ValueError("the address carries a user or password; send them as a header from {env.NAME}")
    if parts.query or parts.fragment or re.search(r"\s", text):
        raise ValueError(f"{value!r} has a query, a fragment or a blank; those belong to a step's path")
    return text.rstrip("/")


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


class ExternalTarget(OwnTransport):
    """One of several targets, with what holds for it alone; what it does not say is as for the deployment."""

    url: Addresses = Field(description="its address, or the addresses of its replicas")
    headers: Headers | None = Field(None, description="sent with every request, instead of the deployment's")


def _as_target(value: object) -> object:
    return {"url": value} if isinstance(value, str | list | tuple) else value


AnyTarget = Annotated[
    ExternalTarget, BeforeValidator(_as_target, json_schema_input_type=str | list[str] | ExternalTarget)
]


class ExternalConfig(TargetsTransport):
    """Addresses that are already there; nothing is created and nothing is removed.

    Exactly one of `url`, `instances` and `targets` says where requests go. The first two make one target, `app`.
    """

    platform: Literal["external"] = Field(description="something that is already there")
    url: Address | None = Field(
        None,
        description="address of the only target, `app`: http, https, or unix:/path/to.sock",
        examples=["http://127.0.0.1:8080"],
    )
    instances: dict[Slug, Address] | None = Field(
        None, min_length=1, description="addresses of the replicas of the only target, `app`, by name"
    )
    targets: dict[Slug, AnyTarget] | None = Field(
        None,
        min_length=1,
        description="target → its address, the addresses of its replicas, or `url` with how it is reached",
    )
    headers: Headers = Field(
        default_factory=dict,
        description="sent with every request; {env.NAME} takes a secret from the environment, {file.PATH} from a file",
    )
    ready: Ready = Field(Ready(), description="when an instance counts as reachable")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [key for key in ("url", "instances", "targets") if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(f"`{key}`" for key in given) if given else "none of them"
            raise ValueError(f"needs exactly one of `url`, `instances` and `targets`; found {found}")
        for name, instances in self.resolved().items():
            self.transport_of(name).check_addresses(instances.values())
        return self

    def resolved(self) -> Mapping[str, Mapping[str, str]]:
        """Target → instance → address, of any of the three forms."""
        if self.targets is not None:
            return {
                name: {f"{name}-{index}": url for index, url in enumerate(target.url)}
                for name, target in self.targets.items()
            }
        if self.instances is not None:
            return {DEFAULT_TARGET: dict(self.instances)}
        return {DEFAULT_TARGET: {f"{DEFAULT_TARGET}-0": self.url or ""}}

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        return tuple(self.resolved())
