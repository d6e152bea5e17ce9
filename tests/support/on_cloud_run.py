"""A deployment on a fake Cloud Run, for tests of what looks at one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.fake_cloud_run import PROJECT, REGION, Script, fake_cloud_run
from towtank.platforms.base import DeployContext
from towtank.platforms.cloud_run.config import CloudRunConfig
from towtank.platforms.cloud_run.deployment import CloudRunDeployment
from towtank.platforms.cloud_run.platform import CloudRunPlatform

IMAGE = "europe-docker.pkg.dev/p/r/hello"


def config(url: str, /, **keys: Any) -> CloudRunConfig:
    """One service."""
    given = {"platform": "cloud_run", "project": PROJECT, "region": REGION, "endpoint": url}
    return CloudRunConfig.model_validate({**given, "services": {"hello": {"image": IMAGE}}, **keys})


def context(folder: Path, token: str = "tt-0123456789abcdef") -> DeployContext:
    """Surroundings of a deployment `shop`."""
    return DeployContext("shop", token, folder / "data", folder / "logs", folder, experiment="Cold or warm?")


@contextmanager
def on_cloud_run(
    start: Callable[[Any], Any], folder: Path, script: Script | None = None, **keys: Any
) -> Iterator[tuple[CloudRunDeployment, Script, str]]:
    """Deploy, and remove in the end; credentials are the test's matter."""
    url, script = fake_cloud_run(start, script)
    made = CloudRunPlatform().deploy(config(url, **keys), context(folder))
    try:
        yield made, script, url
    finally:
        made.remove()
