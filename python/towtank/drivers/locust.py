"""Locust as a driver: runs a locustfile beside a small one of ours that logs every request."""

from __future__ import annotations

import math
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from towtank.drivers.base import DriveContext, Launch, address_variables
from towtank.drivers.locust_config import LocustConfig
from towtank.drivers.programs import find_program, first_line_of, missing

REQUESTS = "locust.csv"
LOG = Path(__file__).with_name("locust_log.py")
LOG_VARIABLE = "TOWTANK_LOCUST_LOG"
START_S = 1
"""Locust counts the time that it takes to start its users; what comes after `duration` is outside of the window."""
HOW_TO_GET = (
    "install it with `pip install locust` (into Towtank's environment or any other); `program:` may name it"
)


class LocustDriver:
    """Starts ``locust --headless``."""

    name = "locust"

    def check(self, config: LocustConfig, root: Path) -> Sequence[str]:  # noqa: ARG002 - the plan has read the script
        """The program must be there."""
        return missing(config.program, HOW_TO_GET, _beside_python())

    def version(self, config: LocustConfig) -> str:
        """``locust 2.47.0``."""
        said = first_line_of([str(find_program(config.program, HOW_TO_GET, _beside_python())), "--version"])
        return said.partition(" from ")[0]

    def launch(self, config: LocustConfig, context: DriveContext) -> Launch:
        """Failed requests are a result: they do not decide the exit code."""
        requests = context.output / REQUESTS
        users = [] if config.users is None else ["--users", str(config.users)]
        spawn = [] if config.spawn_per_s is None else ["--spawn-rate", f"{config.spawn_per_s!r}"]
        addresses = address_variables(context.targets)
        host = next(iter(addresses.values()), None)
        return Launch(
            argv=[
                str(find_program(config.program, HOW_TO_GET, _beside_python())), "--headless", "--only-summary",
                "--exit-code-on-error", "0", "--run-time", f"{math.ceil(config.duration) + START_S}s", *users, *spawn,
                *(["--host", host] if host else []),
                *config.args, "--locustfile", f"{context.root / config.script},{LOG}",
            ],
            env={LOG_VARIABLE: str(requests), **addresses, **config.env},
            requests=requests,
            tool="locust",
            cores=1,
            silenced=frozenset({"times_in_10_us"}),
        )  # fmt: skip


def _beside_python() -> Path:
    """Where pip puts programs of this environment: it need not be in PATH."""
    return Path(sysconfig.get_path("scripts"))
