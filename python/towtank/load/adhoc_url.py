"""The URL of an ad-hoc load: whom it names, what it asks for, and who asks."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from towtank.errors import ExitCode, TowtankError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUMBERS_ONLY = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+))*\.?")
_USER = re.compile(r"^((?:[^/?#]*://)?)[^/?#]*@")


class AdhocError(TowtankError):
    """The options of an ad-hoc load contradict each other or cannot be carried out."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class Address:
    """A URL in its parts.

    Parameters
    ----------
    base : str
        Scheme, host and port, such as ``http://[::1]:8080``.
    path : str
        What the request asks for: path and query, at least a slash.
    user : str, optional
        ``user:password`` that the URL carries.
    """

    base: str
    path: str
    user: str | None = None


def shown(url: str) -> str:
    """The URL for messages: nobody reads a password there."""
    return repr(_USER.sub(r"\1***@", url))


def read_address(url: str) -> Address:
    """Split a URL; ``http://`` may be left away.

    Raises
    ------
    AdhocError
        It is none, or one that nothing can be sent to.
    """
    control = _CONTROL.search(url)
    if control is not None:  # urlsplit would drop some of them without a word
        raise AdhocError(f"{shown(url)} is not a URL: it holds the control character {control[0]!r}")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise AdhocError(f"{shown(url)} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AdhocError(
            f"{shown(url)} is not a URL that can be loaded; allowed are http and https://host[:port]/path",
            hint="write the URL last, after all options",
        )
    if port == 0:
        raise AdhocError(f"{shown(url)} has the port 0; allowed are ports from 1 to 65535")
    _check_number(url, parts.hostname)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    return Address(base, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), _user(parts))


def _user(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def _check_number(url: str, host: str) -> None:
    """Refuse short forms of addresses, such as 127.1: the system's resolver knows them, the engine's does not."""
    if not _NUMBERS_ONLY.fullmatch(host):
        return
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise AdhocError(
            f"{shown(url)}: the host {host!r} is neither a name nor an address",
            hint="write an address in full, such as 127.0.0.1",
        ) from error
