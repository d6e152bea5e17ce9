"""What a way into a cluster is, once it is found."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from towtank.errors import PlatformError


class NotYet(PlatformError):  # noqa: N818 - not an error for as long as it may still come
    """The way is not there yet, such as the address of a load balancer."""


@dataclass(frozen=True)
class Route:
    """How requests reach a target.

    Parameters
    ----------
    url : str
    host : str, optional
        What has to be asked for there.
    facts : dict
        For run.json: which way, through what.
    """

    url: str
    host: str | None
    facts: dict[str, Any]


def url_of(scheme: str, address: str, port: int) -> str:
    """Address of a target; an IPv6 address gets its brackets."""
    try:
        shown = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        shown = address
    return f"{scheme}://{shown}:{port}"
