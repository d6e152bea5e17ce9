"""What the tests of Cloud Run share: credentials of a service account, and no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.fake_cloud_run import fake_cloud_run, write_credentials
from towtank.platforms import rest
from towtank.platforms.cloud_run import api, deployment


@pytest.fixture
def start() -> Iterator[Callable[[Any], Any]]:
    with servers.serving() as begin:
        yield begin


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((rest, "FIRST_PAUSE_S"), (rest, "LONGEST_PAUSE_S")):
        monkeypatch.setattr(module, name, 0.0)
    for module in (api, deployment):
        monkeypatch.setattr(module, "POLLED_EVERY_S", 0.005)
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.fixture
def cloud(
    start: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, Any]]:
    """Starts a fake Cloud Run whose token service the environment's credentials lead to."""

    def make(script: Any = None) -> tuple[str, Any]:
        url, made = fake_cloud_run(start, script)
        path = write_credentials(tmp_path / "credentials.json", url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        return url, made

    return make
