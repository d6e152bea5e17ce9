"""The part of an experiment file that k6 has."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from towtank.drivers.base import ScriptConfig

_OURS = ("--config", "-c", "--out=csv", "--linger", "--paused")


class K6Config(ScriptConfig):
    """A script of k6 as the load; addresses come in `__ENV.TOWTANK_URL` and `__ENV.TOWTANK_URL_<TARGET>`.

    With `users` it runs as ``k6 run --vus USERS --duration DURATION``; without, as the script's own options
    say, which must then last for `duration`.
    """

    driver: Literal["k6"] = Field(description="k6 drives the load")
    program: str = Field("k6", min_length=1, description="the k6 binary: a name in PATH, or a path")

    @field_validator("args")
    @classmethod
    def _not_ours(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for word in args:
            if word.startswith(_OURS):
                raise ValueError(f"{word!r} would keep k6 from being run and recorded; leave it away")
        return args
