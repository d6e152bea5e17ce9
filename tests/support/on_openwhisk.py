"""A deployment on a fake OpenWhisk, for tests of what looks at one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.fake_openwhisk import fake_openwhisk
from support.openwhisk_script import KEY, Script
from towtank.platforms.base import DeployContext
from towtank.platforms.openwhisk.config import OpenWhiskConfig
from towtank.platforms.openwhisk.deployment import OpenWhiskDeployment
from towtank.platforms.openwhisk.platform import OpenWhiskPlatform

SUPPORT = Path(__file__).parent
HELLO = {"hello": {"code": "action.js", "web": True}}


def config(url: str, folder: Path, /, **keys: Any) -> OpenWhiskConfig:
    """One web action, its key in a file of the folder."""
    for name, text in (("key", KEY), ("action.js", (SUPPORT / "action.js").read_text())):
        if not (folder / name).exists():
            (folder / name).write_text(text)
    given = {"platform": "openwhisk", "url": url, "auth": "{file.key}", "actions": HELLO, **keys}
    return OpenWhiskConfig.model_validate(given)


def context(folder: Path, token: str = "tt-0123456789abcdef") -> DeployContext:
    """Surroundings of a deployment `shop`."""
    return DeployContext("shop", token, folder / "data", folder / "logs", folder, experiment="cold or warm?")


@contextmanager
def on_openwhisk(
    start: Callable[[Any], Any], folder: Path, script: Script | None = None, **keys: Any
) -> Iterator[tuple[OpenWhiskDeployment, Script]]:
    """Deploy, and remove in the end."""
    url, script = fake_openwhisk(start, script)
    made = OpenWhiskPlatform().deploy(config(url, folder, **keys), context(folder))
    try:
        yield made, script
    finally:
        made.remove()
