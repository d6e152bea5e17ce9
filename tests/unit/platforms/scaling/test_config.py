"""The key `scaling`: one autoscaler, what the ingress is told, and what cannot be."""

from __future__ import annotations

import pytest

from towtank.platforms.local_config import LocalConfig
from towtank.platforms.scaling.config import Scaling


def local(**keys):
    return LocalConfig.model_validate({"platform": "local", "command": "app", **keys})


def scaling(**keys):
    return Scaling.model_validate(keys)


def test_each_kind_tells_the_ingress_what_its_platform_does():
    kpa = scaling(kpa={"container_concurrency": 3})
    assert kpa.limits() == {"pending": 1024, "held_timeout_ms": 300_000, "policy": "knative"}
    assert kpa.concurrency == 3
    assert scaling(fixed=2).limits()["policy"] == "random_choice_2"
    assert scaling(openwhisk={"concurrency": 2}).limits() == {
        "pending": None, "held_timeout_ms": 60_000, "policy": "first_available", "invocations_per_minute": 60,
        "concurrent_invocations": 30,
    }  # fmt: skip


def test_what_is_said_wins():
    said = scaling(fixed=2, pending=0, held_timeout="2s", spread="round_robin", container_concurrency=7)
    assert said.limits() == {"pending": 0, "held_timeout_ms": 2000, "policy": "round_robin"}
    assert said.concurrency == 7


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "none is given; allowed is exactly one of kpa, hpa, fixed, openwhisk"),
        ({"fixed": 1, "kpa": {}}, "kpa and fixed is given"),
        ({"fixed": 0}, "greater than or equal to 1"),
        ({"kpa": {}, "container_concurrency": 2}, "there it is `kpa.container_concurrency`"),
        ({"openwhisk": {}, "container_concurrency": 2}, "there it is `openwhisk.concurrency`"),
        ({"kpa": {"window": "5s"}}, "greater than or equal to 6"),
        ({"kpa": {"min_scale": 3, "max_scale": 2}}, "min_scale 3 is above max_scale 2"),
        ({"hpa": {"cpu": "50%"}}, "max_replicas"),
    ],
)
def test_what_cannot_be(keys, words):
    with pytest.raises(ValueError, match=words):
        scaling(**keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"replicas": 3}, "`replicas` stands beside `scaling`"),
        ({"tls": {"insecure": True}}, "speaks HTTP/1.1 without TLS"),
        ({"protocol": "http2"}, "speaks HTTP/1.1 without TLS"),
        (
            {"scaling": {"hpa": {"cpu": "50%", "max_replicas": 2}}},
            "give `limits.cpu`, or `scaling.hpa.cpu_request`",
        ),
    ],
)
def test_what_does_not_go_with_it(keys, words):
    with pytest.raises(ValueError, match=words):
        local(**{"scaling": {"fixed": 1}} | keys)


def test_cpu_is_a_share_of_what_is_requested():
    hpa = {"hpa": {"cpu": "50%", "max_replicas": 2}}
    assert local(scaling=hpa, limits={"cpu": "500m"}).limits.cpu == 0.5
    assert local(scaling={"hpa": {**hpa["hpa"], "cpu_request": "250m"}}).scaling.hpa.cpu_request == 0.25


def test_nobody_knows_the_names_of_its_instances_before():
    assert local(scaling={"fixed": 2}).instance_names("app") == ()
    assert list(local(scaling={"fixed": 2}, port=8000).resolved()["app"].ports()) == [8000]
