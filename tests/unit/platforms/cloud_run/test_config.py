"""The `cloud_run` platform's part of an experiment file, and what Cloud Run is given for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from support.on_cloud_run import config, context
from towtank.platforms.cloud_run.services import body, in_words, label, labels, service_id

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"project": "P"}, "should match pattern"),
        ({"region": "europe"}, "should match pattern"),
        ({"services": {}}, "at least 1 item"),
        ({"services": {"a": {}}}, "Field required"),
        (
            {"services": {"a": {"image": "i", "min_instances": 3, "max_instances": 2}}},
            "below `min_instances`",
        ),
        ({"services": {"a": {"image": "i", "cpu": "500m", "concurrency": 2}}}, "one request at a time"),
        ({"services": {"a": {"image": "i", "timeout": "1500ms"}}}, "no whole number of seconds"),
        ({"services": {"a": {"image": "i", "timeout": "2h"}}}, "less than or equal to 3600"),
        ({"services": {"a": {"image": "i", "memory": "much"}}}, "much"),
        ({"endpoint": "unix:/run/socket"}, "allowed are http://HOST"),
        ({"targets": {"app": "nobody"}}, "names 'nobody', which is no service"),
    ],
)
def test_what_cannot_be_is_said(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        config(keys.pop("endpoint", URL), **keys)


def test_targets_that_are_not_written_are_known() -> None:
    assert config(URL).target_names() == ("app",)
    two = {"a": {"image": "i"}, "b": {"image": "j"}}
    assert config(URL, services=two).target_names() == ("a", "b")
    assert config(URL, services=two, targets={"web": "b"}).target_names() == ("web",)


def test_every_field_reaches_cloud_run() -> None:
    service = {
        "image": "i", "command": ["run"], "args": ["x"], "env": {"A": "1"}, "port": 9000, "http2": True, "cpu": "2",
        "memory": "1Gi", "concurrency": 40, "min_instances": 1, "max_instances": 7, "cpu_always": True,
        "startup_boost": True, "generation": 2, "timeout": "90s", "vpc": {"connector": "net", "egress": "all"},
        "service_account": "me@p.iam.gserviceaccount.com", "public": True,
    }  # fmt: skip
    marks = {"towtank-token": "tt"}
    assert body(config(URL, services={"a": service}).services["a"], marks) == {
        "labels": marks, "ingress": "INGRESS_TRAFFIC_ALL", "invokerIamDisabled": True,
        "template": {
            "labels": marks, "maxInstanceRequestConcurrency": 40, "timeout": "90s",
            "serviceAccount": "me@p.iam.gserviceaccount.com", "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",
            "scaling": {"minInstanceCount": 1, "maxInstanceCount": 7},
            "vpcAccess": {"connector": "net", "egress": "ALL_TRAFFIC"},
            "containers": [{
                "image": "i", "command": ["run"], "args": ["x"], "env": [{"name": "A", "value": "1"}],
                "ports": [{"name": "h2c", "containerPort": 9000}],
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "cpuIdle": False, "startupCpuBoost": True},
            }],
        },
    }  # fmt: skip


def test_what_is_not_said_is_left_to_cloud_run() -> None:
    made = body(config(URL).services["hello"], {})
    assert made["template"] == {
        "containers": [{"image": "europe-docker.pkg.dev/p/r/hello"}], "labels": {},
    }  # fmt: skip
    assert made["invokerIamDisabled"] is False
    assert body(config(URL, services={"a": {"image": "i", "cpu_always": False}}).services["a"], {})[
        "template"
    ]["containers"] == [{"image": "i", "resources": {"cpuIdle": True}}]


def test_names_and_labels_are_such_as_google_takes(tmp_path: Path) -> None:
    long = "a" * 49
    own = service_id(long, "tt-1")
    assert len(own) <= 49
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", own)
    assert service_id(long, "tt-1") == own
    assert service_id(long, "tt-2") != own
    assert service_id(long[:-1] + "b", "tt-1") != own
    for key, value in labels(context(tmp_path)).items():
        assert re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key), key
        assert re.fullmatch(r"[-_a-z0-9]{0,63}", value), value
    assert labels(context(tmp_path))["towtank-experiment"] == "cold-or-warm"
    assert label("A b.C" + "x" * 90) == ("a-b-c" + "x" * 58)


def test_bounds_of_use_are_those_of_all_services() -> None:
    services = {
        "a": {"image": "i", "cpu": "2", "memory": "1Gi", "min_instances": 1, "max_instances": 3}, "b": {"image": "j"},
    }  # fmt: skip
    wanted = config(URL, services=services)
    assert wanted.used_at_least() == (2.0, 2**30)
    assert wanted.used_at_most() == (2 * 3 + 100, 3 * 2**30 + 100 * 2**29)
    first, second = in_words(wanted)
    assert "2 CPU during requests, 1 GiB, 1 to 3 instances" in first
    assert "1 CPU during requests, 512 MiB, 0 to 100 instances" in second
