"""The contract of platforms, kept by `kubernetes` against a real cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.test_platform import (
    SECRET,
    Subject,
    test_a_stored_config_reads_back_the_same,
    test_check_finds_nothing_wrong_and_changes_nothing,
    test_description_is_json_and_tells_no_secret,
    test_events_may_be_asked_for_from_another_thread,
    test_it_can_be_removed_before_it_is_ready,
    test_life_of_a_deployment,
    test_sweeping_what_is_not_there_is_harmless,
    test_waiting_can_be_cancelled,
    test_what_never_becomes_ready_is_said_clearly,
)
from support.cluster_app import SUPPORT, config_for
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.platform import KubernetesPlatform

__all__ = [
    "test_a_stored_config_reads_back_the_same",
    "test_check_finds_nothing_wrong_and_changes_nothing",
    "test_description_is_json_and_tells_no_secret",
    "test_events_may_be_asked_for_from_another_thread",
    "test_it_can_be_removed_before_it_is_ready",
    "test_life_of_a_deployment",
    "test_sweeping_what_is_not_there_is_harmless",
    "test_waiting_can_be_cancelled",
    "test_what_never_becomes_ready_is_said_clearly",
]

pytestmark = pytest.mark.cluster


@pytest.fixture
def subject(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Subject:
    monkeypatch.setenv("SUBJECT_SECRET", SECRET)
    return Subject(
        KubernetesPlatform(),
        lambda **keys: config_for(cluster, **keys),
        {"set": {"Deployment/app:spec.replicas": 0}, "ready": {"http": "/healthz", "timeout": "2s"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
        address="http://",
    )


@pytest.fixture
def context(cluster: Any, tmp_path: Path) -> Iterator[DeployContext]:
    token = f"tt-contract-{secrets.token_hex(4)}"
    yield DeployContext("subject", token, tmp_path / "data", tmp_path / "logs", SUPPORT)
    assert cluster.get("namespaces", "--selector", f"towtank.dev/token={token}")["items"] == []
