"""Headers of an ad-hoc load as hey sends them: its own, those of options, authorization, and those of a proxy."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import unquote

import towtank
from towtank.load.adhoc_url import AdhocError

_HOST = re.compile(r"[A-Za-z0-9_.:\[\]-]+")


def headers_from(
    lines: list[str], *, accept: str | None, content_type: str | None, basic: str | None, host: str | None,
    compression: bool, has_body: bool, user_agent: str | None = None,
) -> dict[str, str]:  # fmt: skip
    """Headers as hey sends them: an option of its own wins over -H, but for -T; of a repeated name the last counts.

    Raises
    ------
    AdhocError
        A line is not ``Name: value``, or a name of a host is none.
    """
    headers = {"user-agent": f"towtank/{towtank.__version__}"}
    if compression:
        headers["accept-encoding"] = "gzip"
    if has_body or content_type:
        headers["content-type"] = content_type or "text/html"
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise AdhocError(f'-H {line!r} is not a header; allowed is -H "Name: value"')
        headers[name.strip().lower()] = value.strip()
    own = {"accept": accept, "host": host, "user-agent": user_agent, **_basic(basic)}
    headers |= {name: value for name, value in own.items() if value}  # as in hey, an empty one is none
    if "host" in headers and not _HOST.fullmatch(headers["host"]):
        raise AdhocError(
            f"-host {headers['host']!r}: this is no name of a host; allowed is HOST or HOST:PORT, "
            "of letters, digits and . - _ : [ ]"
        )
    return headers


def proxy_of(given: str) -> dict[str, Any]:
    """Where -x leads to; a user in it is told to an HTTP proxy, as hey does."""
    url = given if "://" in given else f"http://{given}"
    scheme, _, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    if scheme != "http" or not at:
        return {"url": url}
    name, _, password = user.partition(":")
    told = authorization(f"{unquote(name)}:{unquote(password)}")["authorization"]
    return {"url": f"{scheme}://{place}", "headers": {"proxy-authorization": told}}


def _basic(given: str | None) -> dict[str, str]:
    """What -a asks for."""
    if given and ":" not in given:
        raise AdhocError("-a wants user:password")
    return authorization(given)


def authorization(user: str | None) -> dict[str, str]:
    """Header of basic authentication."""
    return {"authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
