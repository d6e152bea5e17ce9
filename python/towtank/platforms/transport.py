"""How requests reach a target: protocol, TLS, proxy, source addresses. Keys of a deployment on any platform."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from towtank.fields import Model, Whole
from towtank.platforms import placeholders
from towtank.sensitive import mask_values

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def well_formed_headers(headers: dict[str, str]) -> dict[str, str]:
    """Refuse headers that HTTP cannot carry, and placeholders that nobody knows.

    Raises
    ------
    ValueError
        With the header and what is allowed.
    """
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


Headers = Annotated[dict[str, str], AfterValidator(well_formed_headers)]
"""Headers; {env.NAME} and {file.PATH} take secrets."""


class Tls(Model):
    """How TLS is spoken with a target. Without `ca` the system's authorities are trusted."""

    ca: str | None = Field(
        None, min_length=1, description="PEM file with the authorities that are trusted, in the experiment's folder"
    )  # fmt: skip
    cert: str | None = Field(
        None, min_length=1, description="PEM file with our own certificate, in the experiment's folder"
    )
    key: str | None = Field(
        None,
        min_length=1,
        description="PEM file with its private key; never copied into results. In the experiment's folder, an "
        "absolute path, or {env.NAME}",
    )
    server_name: str | None = Field(
        None, min_length=1, description="name that the certificate must have, and that is asked for (SNI)"
    )
    insecure: bool = Field(default=False, description="accept any certificate")
    min_version: Literal["1.2", "1.3"] | None = Field(None, description="oldest version of TLS")
    max_version: Literal["1.2", "1.3"] | None = Field(None, description="newest version of TLS")
    resumption: bool = Field(default=True, description="resume sessions on further connections")

    @field_validator("key")
    @classmethod
    def _known(cls, key: str | None) -> str | None:
        return None if key is None else placeholders.validate(key, placeholders.SECRET_NAMES)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.cert is None) != (self.key is None):
            missing = "key" if self.key is None else "cert"
            raise ValueError(f"`cert` and `key` belong together; `{missing}` is missing")
        if self.insecure and self.ca is not None:
            raise ValueError("`insecure` accepts any certificate, so `ca` would do nothing; leave one away")
        if self.min_version == "1.3" and self.max_version == "1.2":
            raise ValueError("`min_version` 1.3 is above `max_version` 1.2")
        return self


class Proxy(Model):
    """A proxy between the engine and a target."""

    url: str = Field(min_length=1, description="http://HOST:PORT or socks5://HOST:PORT")
    headers: Headers = Field(
        default_factory=dict,
        description="sent to the proxy itself; {env.NAME} takes a secret from the environment",
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        allowed = "allowed is http://HOST:PORT or socks5://HOST:PORT"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{url!r} is not an address: {error}; {allowed}") from error
        if parts.scheme not in ("http", "socks5") or not parts.hostname or not port:
            raise ValueError(f"{url!r} is not the address of a proxy; {allowed}")
        if parts.username or parts.password:
            raise ValueError("the address carries a user or password; send them as a header from {env.NAME}")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than a host and a port; {allowed}")
        return url.rstrip("/")


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address; allowed is one such as 127.0.0.2 or ::1") from None


class Transport(Model):
    """How requests reach a target."""

    protocol: Literal["http1", "http2", "auto"] = Field(
        "http1",
        description="HTTP/1.1; HTTP/2 (over TLS by ALPN, else with prior knowledge); or what ALPN gives (https only)",
    )
    host: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.:\[\]-]+$",
        description="name that requests ask for, instead of that of the address; with https also the server's name",
        examples=["shop.example"],
    )
    tls: Tls | None = Field(None, description="how TLS is spoken; only with https")
    proxy: Proxy | None = Field(None, description="a proxy in between")
    source_addresses: tuple[Annotated[str, AfterValidator(_ip_address)], ...] | None = Field(
        None,
        min_length=1,
        description="own addresses that connections come from, in turns; each brings another range of ports",
    )
    max_streams: Whole | None = Field(
        None, ge=1, le=1000, description="HTTP/2: requests at once on one connection of the pool"
    )

    def templates(self) -> Iterator[str]:
        """Texts in which placeholders of secrets are filled."""
        if self.tls is not None and self.tls.key is not None:
            yield self.tls.key
        if self.proxy is not None:
            yield from self.proxy.headers.values()

    def transport(self) -> Transport:
        """This part of a larger model alone, as far as it says something."""
        fields = Transport.model_fields
        said = {name: getattr(self, name) for name in fields}
        return Transport.model_validate({n: v for n, v in said.items() if v != fields[n].default})

    def shown(self) -> dict[str, Any]:
        """What is given, for run.json: placeholders stand where secrets would."""
        return mask_values(self.transport().model_dump(mode="json", exclude_unset=True))

    def replaced_by(self, own: Transport) -> Transport:
        """This one with everything that another one says instead."""
        given = own.model_fields_set & set(Transport.model_fields)
        return self.model_copy(update={name: getattr(own, name) for name in given})

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """Refuse what cannot go together.

        Raises
        ------
        ValueError
            TLS without https, and the like.
        """
        for address in addresses:
            kind = address.partition(":")[0]
            if self.tls is not None and kind != "https":
                raise ValueError(f"`tls` is for https only; {address!r} is {kind}")
            if self.protocol == "auto" and kind != "https":
                raise ValueError(f"`protocol: auto` is for https only; {address!r} is {kind}")
            if kind == "unix" and (self.proxy is not None or self.source_addresses is not None):
                key = "proxy" if self.proxy is not None else "source_addresses"
                raise ValueError(f"a Unix socket has no `{key}`")

    def filled(self, values: Mapping[str, str]) -> Transport:
        """With secrets in their places.

        Parameters
        ----------
        values : mapping
            Full placeholder, such as ``env.TOKEN``, → value.
        """
        found = self.transport()
        tls, proxy = found.tls, found.proxy
        if tls is not None and tls.key is not None:
            tls = tls.model_copy(update={"key": placeholders.render(tls.key, values)})
        if proxy is not None:
            headers = {name: placeholders.render(value, values) for name, value in proxy.headers.items()}
            proxy = proxy.model_copy(update={"headers": headers})
        return found.model_copy(update={"tls": tls, "proxy": proxy})


PLAIN = Transport()
"""HTTP/1.1, straight to the address."""
