"""`towtank doctor --openwhisk`: what is found, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from support import servers
from support.fake_openwhisk import fake_openwhisk
from support.openwhisk_script import KEY, Script
from towtank.campaign.openwhisk_checks import check_openwhisk


@pytest.mark.parametrize(
    ("script", "key", "namespace", "expected"),
    [
        (Script(per_minute=6000, at_a_time=9), KEY, None, {"openwhisk": "ok", "openwhisk-rate": "ok",
         "openwhisk-action": "ok", "openwhisk-kinds": "ok"}),
        (Script(), KEY, "guest", {"openwhisk": "ok", "openwhisk-rate": "limited", "openwhisk-action": "ok",
         "openwhisk-kinds": "ok"}),
        (Script(), KEY, "elsewhere", {"openwhisk": "missing"}),
        (Script(), "some:body", None, {"openwhisk": "missing"}),
        (Script(), None, None, {"openwhisk": "missing"}),
    ],
)  # fmt: skip
def test_reach_key_and_limits(
    monkeypatch: pytest.MonkeyPatch,
    script: Script,
    key: str | None,
    namespace: str | None,
    expected: dict[str, Any],
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MY_KEY", key)
    with servers.serving() as start:
        url, _ = fake_openwhisk(start, script)
        found = check_openwhisk(url, namespace, "MY_KEY")
    assert {one.name: one.state for one in found} == expected
    assert all(one.meaning for one in found)
    assert not script.entities


def test_an_address_that_is_none() -> None:
    (found,) = check_openwhisk("nonsense")
    assert found.state == "missing"
    assert "is not an address" in found.found
