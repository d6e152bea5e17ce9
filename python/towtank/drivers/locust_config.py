"""The part of an experiment file that Locust has."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from towtank.drivers.base import ScriptConfig
from towtank.fields import Rate

_OURS = ("--processes", "--worker", "--master", "--autostart", "-t", "--run-time", "-f", "--locustfile", "-w")


class LocustConfig(ScriptConfig):
    """A locustfile as the load; `host` of its users is the address of the first target.

    It runs as ``locust --headless --run-time DURATION`` (and a second more, to start), in one process, which can use
    one core.
    """

    driver: Literal["locust"] = Field(description="Locust drives the load")
    program: str = Field("locust", min_length=1, description="Locust: a name in PATH, or a path")
    spawn_per_s: Rate | None = Field(None, description="users started per second; without it, as Locust does")

    @field_validator("args")
    @classmethod
    def _not_ours(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for word in args:
            if word.partition("=")[0] in _OURS:
                raise ValueError(
                    f"{word!r} is Towtank's to say: Locust runs in one process, for `duration`, with `script`"
                )
        return args
