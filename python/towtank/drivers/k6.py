"""k6 as a driver: runs a script, and has k6 write every request as CSV with times of day in µs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from towtank.drivers.base import DriveContext, Launch, address_variables
from towtank.drivers.k6_config import K6Config
from towtank.drivers.programs import find_program, first_line_of, missing

REQUESTS = "k6.csv"
THRESHOLDS_CROSSED = 99
HOW_TO_GET = "install k6 from its packages, or with `go install go.k6.io/k6@latest`; `program:` may name it"


class K6Driver:
    """Starts ``k6 run``."""

    name = "k6"

    def check(self, config: K6Config, root: Path) -> Sequence[str]:  # noqa: ARG002 - the plan has read the script
        """The program must be there."""
        return missing(config.program, HOW_TO_GET)

    def version(self, config: K6Config) -> str:
        """``k6 v1.8.1 (go1.26.8, linux/amd64)``."""
        return first_line_of([str(find_program(config.program, HOW_TO_GET)), "version"])

    def launch(self, config: K6Config, context: DriveContext) -> Launch:
        """Crossed thresholds (exit code 99) are a result like any other."""
        users = (
            []
            if config.users is None
            else ["--vus", str(config.users), "--duration", f"{config.duration!r}s"]
        )
        requests = context.output / REQUESTS
        return Launch(
            argv=[
                str(find_program(config.program, HOW_TO_GET)), "run", "--no-color", "--quiet",
                "--out", f"csv={requests}", *users, *config.args, str(context.root / config.script),
            ],
            env={
                "K6_CSV_TIME_FORMAT": "unix_micro", "K6_NO_USAGE_REPORT": "true",
                **address_variables(context.targets), **config.env,
            },
            requests=requests,
            tool="k6",
            success=frozenset({0, THRESHOLDS_CROSSED}),
        )  # fmt: skip
