"""Knative's manifests as they are taken from its modules, the limits of its ingress, and what is built when."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from testbed import __main__ as command_line
from testbed import cluster, knative, knative_parts
from testbed.errors import BuildError, TestbedError
from testbed.kubectl import filled
from testbed.settings import REGISTRY, Folders, Options

LIMITS = {"INGRESS_CONNECTIONS": "7", "INGRESS_PENDING": "5", "INGRESS_REQUESTS": "3"}


def contour(**limits: str) -> dict:
    """What Contour is configured with."""
    text = filled("ingress", {"REGISTRY": REGISTRY, "INGRESS_SERVICE": "198.19.0.80", **LIMITS, **limits})
    things = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}
    return yaml.safe_load(things["ConfigMap", "contour"]["data"]["contour.yaml"])


def test_limits_of_the_ingress_reach_its_configuration():
    settings = contour()
    assert settings["cluster"]["circuit-breakers"] == {
        "max-connections": 7, "max-pending-requests": 5, "max-requests": 3
    }  # fmt: skip
    assert "response_flags" in settings["json-fields"]


@pytest.mark.parametrize("wrong", [{"ingress_pending": 0}, {"ingress_requests": 2**31}])
def test_limits_have_bounds(wrong):
    with pytest.raises(TestbedError, match="allowed: 1 to"):
        Options(knative=True, **wrong)


def test_a_limit_without_an_ingress_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TOWTANK_TESTBED", str(tmp_path))
    assert command_line.main(["up", "--ingress-pending", "64"]) == 1
    assert (
        "ingress_pending is 64, and without Knative there is no ingress; add --knative"
        in capsys.readouterr().err
    )


def test_every_option_of_up_is_one_of_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("TOWTANK_TESTBED", str(tmp_path))
    wanted = []
    monkeypatch.setattr(cluster, "up", lambda _, options, __: wanted.append(options))
    words = "--nodes 2 --hpa-sync 5 --metrics 10 --kwok --knative --ingress-connections 9 --ingress-pending 8"
    assert command_line.main(["up", *words.split(), "--ingress-requests", "7"]) == 0
    assert wanted == [
        Options(
            2, 5, 10, kwok=True, knative=True, ingress_connections=9, ingress_pending=8, ingress_requests=7
        )
    ]
    assert command_line.main(["up"]) == 0
    assert wanted[1] is None


def test_an_object_of_a_module_gets_images_of_the_registry_and_small_requests():
    container = {
        "name": "queue",
        "image": f"ko://{knative_parts.SERVING}/cmd/queue",
        "resources": {"limits": {"cpu": 1}},
    }
    thing = {
        "kind": "Deployment", "metadata": {"name": "any"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }  # fmt: skip
    (found,) = knative_parts.adapted(thing)["spec"]["template"]["spec"]["containers"]
    assert found["image"] == "registry.testbed/knative-queue:1"
    assert found["resources"] == {"limits": {"cpu": 1}, "requests": knative_parts.REQUESTS}


def test_an_image_that_nobody_builds_is_named():
    thing = {
        "kind": "Deployment",
        "metadata": {"name": "new"},
        "spec": {"image": "ko://knative.dev/new/cmd/part"},
    }
    with pytest.raises(
        BuildError, match=r"Deployment/new has an image that is not built: ko://knative\.dev/new/cmd/part"
    ):
        knative_parts.adapted(thing)


def test_settings_are_added_to_those_of_knative_and_examples_left_out():
    thing = {
        "kind": "ConfigMap",
        "metadata": {"name": "config-deployment", "annotations": {"knative.dev/example-checksum": "1"}},
        "data": {"_example": "long", "queue-sidecar-image": f"ko://{knative_parts.SERVING}/cmd/queue"},
    }
    found = knative_parts.adapted(thing)
    assert found["data"] == {
        "queue-sidecar-image": "registry.testbed/knative-queue:1",
        **knative_parts.SETTINGS["config-deployment"],
    }
    assert found["metadata"]["annotations"] == {}


def test_every_program_that_is_packed_is_a_tool_of_the_module():
    text = (knative_parts.GO_FOLDER / "go.mod").read_text("utf-8")
    tools = set(re.findall(r"^\t(\S+/cmd/\S+)$", text, re.MULTILINE))
    assert tools == set(knative_parts.IMAGES)


def test_what_is_packed_is_what_manifests_name():
    text = filled("ingress", {"REGISTRY": REGISTRY, "INGRESS_SERVICE": "198.19.0.80", **LIMITS})
    named = set(re.findall(rf"{REGISTRY}/(\S+):1", text))
    assert named <= {*knative_parts.IMAGES.values(), "envoy"}


def test_steps_of_the_installation_wait_for_what_they_say(monkeypatch, tmp_path):
    said = []
    applied = []
    monkeypatch.setattr(knative, "apply", lambda _, text: applied.append(text))
    monkeypatch.setattr(knative, "kubectl", lambda _, *words, **__: said.append(words) or "")
    monkeypatch.setattr(knative, "deployments_ready", lambda _, namespace: namespace == "knative-serving")
    folders = Folders(tmp_path)
    (tmp_path / "knative").mkdir()
    for name in ("definitions", "objects"):
        (tmp_path / "knative" / f"{name}.yaml").write_text(json.dumps({"kind": name}), "utf-8")
    held = {what: holds() for what, holds in knative.steps(folders, Options(knative=True))}
    assert held == {
        "the kinds of Knative and its ingress": True,
        "Knative and its ingress created": True,
        "everything in knative-serving ready": True,
        "everything in projectcontour ready": False,
        "Knative looking at Services": True,
    }
    assert [json.loads(applied[0])["kind"], next(yaml.safe_load_all(applied[1]))["kind"]] == [
        "definitions",
        "objects",
    ]
    assert ("create", "--dry-run=server", "-f", "-") in said
