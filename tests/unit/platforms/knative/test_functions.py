"""What a few fields of a function become: objects of Knative, annotations as its admission takes them, bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from towtank.platforms.knative.config import KnativeConfig
from towtank.platforms.knative.functions import Function
from towtank.platforms.knative.services import manifests

BASE = {"platform": "knative", "context": "fake"}


def made(**fields: Any) -> list[dict[str, Any]]:
    return list(manifests("fn", Function.model_validate({"image": "registry.testbed/hello:1", **fields})))


def template(**fields: Any) -> dict[str, Any]:
    (thing,) = made(**fields)
    return thing["spec"]["template"]


def test_an_image_is_enough():
    assert made() == [
        {
            "apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "fn"},
            "spec": {"template": {"spec": {"containers": [{"image": "registry.testbed/hello:1"}]}}},
        }
    ]  # fmt: skip


def test_every_field_of_scaling_is_written_as_knative_reads_it():
    scaling = {
        "by": "kpa", "metric": "rps", "target": 12.5, "target_utilization": "70%", "min_scale": 1, "max_scale": 9,
        "initial_scale": 2, "activation_scale": 3, "window": "1m", "panic_window": 0.07, "panic_threshold": 2,
        "scale_down_delay": "5s", "retention": "1500ms", "burst_capacity": -1,
    }  # fmt: skip
    limits = {"connections": 10, "pending": 20, "requests": 30}
    found = template(scaling=scaling, ingress=limits, annotations={"own": "mark"})["metadata"]["annotations"]
    assert found == {
        "autoscaling.knative.dev/class": "kpa.autoscaling.knative.dev",
        "autoscaling.knative.dev/metric": "rps",
        "autoscaling.knative.dev/target": "12.5",
        "autoscaling.knative.dev/target-utilization-percentage": "70",
        "autoscaling.knative.dev/min-scale": "1",
        "autoscaling.knative.dev/max-scale": "9",
        "autoscaling.knative.dev/initial-scale": "2",
        "autoscaling.knative.dev/activation-scale": "3",
        "autoscaling.knative.dev/window": "60s",
        "autoscaling.knative.dev/panic-window-percentage": "7",
        "autoscaling.knative.dev/panic-threshold-percentage": "200",
        "autoscaling.knative.dev/scale-down-delay": "5s",
        "autoscaling.knative.dev/scale-to-zero-pod-retention-period": "1.5s",
        "autoscaling.knative.dev/target-burst-capacity": "-1",
        "projectcontour.io/max-connections": "10",
        "projectcontour.io/max-pending-requests": "20",
        "projectcontour.io/max-requests": "30",
        "own": "mark",
    }


def test_the_rest_becomes_the_container_and_its_revision():
    found = template(
        command=["/hello"], args=["-v"], env={"A": "1"}, port=9000, http2=True, probe="/healthz",
        requests={"cpu": "20m"}, limits={"memory": "64Mi", "cpu": 1}, container_concurrency=5, timeout="30s",
    )  # fmt: skip
    assert found["spec"] == {
        "containers": [
            {
                "image": "registry.testbed/hello:1", "command": ["/hello"], "args": ["-v"],
                "env": [{"name": "A", "value": "1"}], "ports": [{"name": "h2c", "containerPort": 9000}],
                "readinessProbe": {"httpGet": {"path": "/healthz"}},
                "resources": {"requests": {"cpu": "20m"}, "limits": {"cpu": "1", "memory": "64Mi"}},
            }
        ],
        "containerConcurrency": 5,
        "timeoutSeconds": 30,
    }  # fmt: skip


def test_a_split_is_a_route_to_configurations_that_differ_where_they_say_so():
    split = {
        "old": {"percent": 80},
        "new": {
            "percent": 20,
            "tag": "next",
            "image": "registry.testbed/hello:2",
            "scaling": {"max_scale": 3},
        },
    }
    old, new, route = made(env={"A": "1"}, scaling={"min_scale": 1}, split=split)
    assert [one["metadata"]["name"] for one in (old, new, route)] == ["fn-old", "fn-new", "fn"]
    assert [one["kind"] for one in (old, new, route)] == ["Configuration", "Configuration", "Route"]
    images = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in (old, new)]
    assert images == ["registry.testbed/hello:1", "registry.testbed/hello:2"]
    marks = new["spec"]["template"]["metadata"]["annotations"]
    assert marks == {"autoscaling.knative.dev/min-scale": "1", "autoscaling.knative.dev/max-scale": "3"}
    assert new["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert route["spec"]["traffic"] == [
        {"configurationName": "fn-old", "latestRevision": True, "percent": 80},
        {"configurationName": "fn-new", "latestRevision": True, "percent": 20, "tag": "next"},
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"image": None}, "`image` is missing"),
        (
            {"scaling": {"by": "hpa", "metric": "rps"}},
            "`metric: rps` does not go with hpa; allowed are cpu, memory",
        ),
        ({"scaling": {"by": "hpa", "panic_window": 0.1}}, "`panic_window` goes with kpa only"),
        ({"scaling": {"by": "hpa", "min_scale": 0}}, "keeps one instance"),
        ({"scaling": {"min_scale": 3, "max_scale": 2}}, "`max_scale` is 2, below `min_scale`, which is 3"),
        ({"scaling": {"window": "2s"}}, "greater than or equal to 6"),
        ({"scaling": {"window": "7500ms"}}, "7.5 s is no whole number of seconds"),
        ({"scaling": {"burst_capacity": -0.5}}, "allowed are -1, 0 and more"),
        ({"limits": {"cpu": "much"}}, "'much' is not a quantity of Kubernetes"),
        (
            {"split": {"a": {"percent": 50}, "b": {"percent": 40}}},
            "must add up to 100 percent; found a 50, b 40",
        ),
        (
            {"split": {"a": {"percent": 50, "tag": "x"}, "b": {"percent": 50, "tag": "x"}}},
            "the same tag: x, x",
        ),
    ],
)
def test_what_knative_would_refuse_is_refused_before(wrong, words):
    with pytest.raises(ValidationError, match=words):
        Function.model_validate({"image": "registry.testbed/hello:1", **wrong})


def test_targets_are_the_functions_unless_they_are_named():
    function = {"image": "registry.testbed/hello:1"}
    one = KnativeConfig.model_validate({**BASE, "functions": {"fn": function}})
    assert one.target_names() == ("app",)
    two = KnativeConfig.model_validate({**BASE, "functions": {"a": function, "b": function}})
    assert two.target_names() == ("a", "b")
    assert two.wanted_targets()["b"].knative == "b"
    named = {"next": {"knative": "a", "tag": "next"}}
    assert KnativeConfig.model_validate(
        {**BASE, "functions": {"a": function}, "targets": named}
    ).target_names() == ("next",)


def test_without_functions_and_manifests_there_is_nothing():
    with pytest.raises(ValidationError, match=r"needs exactly one of .*, or `functions`; found none of them"):
        KnativeConfig.model_validate(BASE)


def test_a_stored_config_reads_back_the_same():
    config = KnativeConfig.model_validate(
        {
            **BASE,
            "functions": {"fn": {"image": "i", "scaling": {"window": "6s", "target_utilization": "70%"}}},
        }
    )
    assert KnativeConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config
