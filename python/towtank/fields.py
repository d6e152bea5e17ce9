"""Field types shared by every config model: units are read where a value is validated.

Below both `design` and the plug-ins, so that a platform's config model needs nothing of the experiment file.
A duration is written with its unit in JSON (``"3s"``), so that a stored plan can be read by eye and by the same
models. A union carries a discriminator whose tags are ``@`` and the alternative's name: an error then says which
alternative it is about, and nothing about the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
)

from towtank.units import parse_bytes, parse_cores, parse_duration, parse_rate, parse_ratio

__all__ = [
    "Command",
    "ControlWay",
    "Cores",
    "Duration",
    "Model",
    "Number",
    "Rate",
    "Ratio",
    "Scalar",
    "Size",
    "Slug",
    "SshAddress",
    "Whole",
    "read_ssh_address",
]

Scalar = bool | int | float | str


def _shown(value: object) -> str:
    """Write what was found in YAML's words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else repr(value)[:60]


def _read(parse: Callable[..., object], kind: str) -> Callable[[object], object]:
    """Read a value with a unit; what is neither text nor number is refused in the same words."""

    def read(value: object) -> object:
        if isinstance(value, str | int | float):
            return parse(value)
        raise ValueError(f"{_shown(value)} is not {kind}")

    return read


def _whole(value: object) -> object:
    """Let whole numbers pass, also those that a calculation left as 2.0; true is not 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{_shown(value)} is not a whole number")


def _number(value: object) -> object:
    """Let numbers pass; true is not 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ValueError(f"{_shown(value)} is not a number")


def _duration_text(seconds: float) -> str:
    return f"{int(seconds) if seconds.is_integer() else repr(seconds)}s"


def _written(title: str, pattern: str, *numbers: dict[str, object]) -> WithJsonSchema:
    """JSON Schema of a value with a unit: text of a form, or some plain numbers. `unit` is for `design.schema`."""
    return WithJsonSchema(
        {"unit": title, "anyOf": [{"type": "string", "pattern": pattern}, *numbers]}, mode="validation"
    )


_NUMBER = r"[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"

Duration = Annotated[
    float,
    BeforeValidator(_read(parse_duration, "a duration such as 15m or 300ms")),
    PlainSerializer(_duration_text, return_type=str, when_used="json"),
    _written("duration", rf"^\s*({_NUMBER}\s*(ns|us|µs|ms|s|min|m|h|d)\s*)+$|^\s*0\s*$", {"const": 0}),
]
"""Seconds, ≥ 0; written ``15m`` or ``300ms``."""
Size = Annotated[
    int,
    BeforeValidator(_read(parse_bytes, "a size such as 64MiB")),
    _written("size", rf"^\s*{_NUMBER}\s*(B|[kKMGT]B|[KMGT]iB?)?\s*$", {"type": "integer", "minimum": 0}),
]
"""Bytes, ≥ 0; written ``64MiB``."""
Ratio = Annotated[
    float,
    BeforeValidator(_read(parse_ratio, "a share such as 5%")),
    _written("share", rf"^\s*{_NUMBER}\s*%?\s*$", {"type": "number", "minimum": 0, "maximum": 1}),
]
"""0–1; written ``5%``."""
Cores = Annotated[
    float,
    BeforeValidator(_read(parse_cores, "a CPU amount such as 1.5 or 500m")),
    _written("CPU cores", rf"^\s*{_NUMBER}\s*m?\s*$", {"type": "number", "exclusiveMinimum": 0}),
]
"""CPU cores, > 0; written ``1.5`` or ``500m``."""
Rate = Annotated[
    float,
    BeforeValidator(_read(parse_rate, "a rate such as 100/s")),
    _written("rate", rf"^\s*{_NUMBER}\s*(/\s*(s|m|min|h))?\s*$", {"type": "number", "minimum": 0}),
]
"""Per second, ≥ 0; written ``100/s`` or ``6/min``."""
Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number; true is not one."""
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_number)]
"""A finite number; true is not one."""
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
"""A name that may stand in a folder's name: letters, digits, ``_ . -``; at most 63."""


def read_ssh_address(value: object) -> str:
    """Read the address of a machine that ssh reaches.

    Raises
    ------
    ValueError
    """
    text = value if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_good = urlsplit(""), False
    host = parts.hostname or ""
    beyond = parts.path.strip("/") or parts.query or parts.fragment or parts.password
    if parts.scheme != "ssh" or not host or host.startswith("-") or beyond or not port_is_good:
        raise ValueError(f"{value!r} is no address; allowed is ssh://[user@]host[:port]")
    if (parts.username or "").startswith("-"):
        raise ValueError(f"{value!r}: a user's name does not begin with `-`")
    return text


SshAddress = Annotated[str, BeforeValidator(read_ssh_address)]

ControlWay = Annotated[
    Literal["direct", "port_forward"] | None,
    Field(
        description="how orders and records travel (load never does): to the pods' own addresses, or through the API "
        "server; without it directly, and through the API server where there is no route to pods"
    ),
]
"""The way between Towtank and its helpers in a cluster."""
"""``ssh://[user@]host[:port]``"""


def _command_kind(value: object) -> str:
    return "@Line" if isinstance(value, str) else "@Words"


Command = Annotated[
    Annotated[Annotated[str, Field(min_length=1)], Tag("@Line")]
    | Annotated[Annotated[tuple[str, ...], Field(min_length=1)], Tag("@Words")],
    Discriminator(_command_kind),
]
"""A program with its arguments as a list, or one line for the shell."""


class Model(BaseModel):
    """Strict and frozen: an unknown key is an error, a plan never changes under a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)
