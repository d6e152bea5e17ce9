"""Trouble before the load: what a cluster refuses is said with what to do, nothing is left, and mended, it goes on."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testbed import components, images
from testbed.settings import REGISTRY, Folders

from support.cluster import Cluster, eventually
from support.cluster_app import IMAGE
from support.troubled_study import ENDED, Study

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
CLASS = "towtank-test-no-such-class"


@dataclass
class Scene:
    """A study that is to meet trouble, the namespace that it may be given, and what undoes the trouble."""

    study: Study
    namespace: str
    undone: ExitStack
    folder: Path

    def apply(self, *things: dict[str, Any]) -> None:
        """Make objects, which are gone at the end of the trouble."""
        kubectl, text = (
            self.study.cluster.kubectl,
            json.dumps({"apiVersion": "v1", "kind": "List", "items": things}),
        )
        kubectl("create", "--filename", "-", text=text)
        self.undone.callback(kubectl, "delete", "--filename", "-", "--wait=true", "--timeout=60s", text=text)


@pytest.fixture
def scene(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as undone:
        yield Scene(Study(cluster, tmp_path, seconds=2), namespace, undone, tmp_path)


def image_missing(scene: Scene) -> Callable[[], None]:
    if not scene.study.cluster.is_testbed:
        pytest.skip("pushes an image to the testbed's registry")
    tag = f"late:{secrets.token_hex(4)}"
    scene.study.keys = {"set": {IMAGE: f"{REGISTRY}/{tag}"}}

    def mend() -> None:
        recipe = images.Recipe(tag, {"/hello": Folders.from_environment().programs / "hello"}, ("/hello",))
        images.push(images.pack(recipe, scene.folder), components.REGISTRY_ADDRESS)

    return mend


def quota_exceeded(scene: Scene) -> Callable[[], None]:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": scene.namespace},
        "spec": {"hard": {"pods": "1"}},
    }  # fmt: skip
    scene.apply(quota)
    scene.study.keys = {"namespace": scene.namespace, "set": {"Deployment/app:spec.replicas": 2}}
    return scene.undone.close


def claim_never_binds(scene: Scene) -> Callable[[], None]:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pages"},
        "spec": {
            "storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
        },
    }  # fmt: skip
    (scene.folder / "claim.yaml").write_text(json.dumps(claim))
    volumes = {"volumes": [{"name": "pages", "persistentVolumeClaim": {"claimName": "pages"}}]}
    mounts = {"containers": [{"name": "app", "volumeMounts": [{"name": "pages", "mountPath": "/pages"}]}]}
    merge = {"spec": {"template": {"spec": {**volumes, **mounts}}}}
    scene.study.keys = {
        "manifests": ["claim.yaml", "app.yaml"], "ready": {"http": "/healthz", "timeout": "12s"},
        "patches": [{"target": "Deployment/app", "merge": merge}],
    }  # fmt: skip

    def mend() -> None:
        volume = {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": scene.study.name},
            "spec": {
                "storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"},
                "hostPath": {"path": "/tmp"}, "persistentVolumeReclaimPolicy": "Retain",
            },
        }  # fmt: skip
        scene.apply(volume)

    return mend


def policy_against(resource: str, group: str) -> Callable[[Scene], Callable[[], None]]:
    """A policy that lets nothing of that kind into the namespace."""

    def make(scene: Scene) -> Callable[[], None]:
        name, version = scene.study.name, "admissionregistration.k8s.io/v1"
        rule = {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": [resource],
        }
        policy = {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {
                        "expression": "'team' in object.metadata.?labels.orValue({})",
                        "message": "say whose it is: label team",
                    }
                ],
            },
        }  # fmt: skip
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}}
        binding = {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": here},
        }  # fmt: skip
        scene.apply(policy, binding)
        scene.study.keys = {"namespace": scene.namespace}
        kubectl = scene.study.cluster.kubectl
        trial = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial", "labels": {"a": "b"}},
                 "spec": {"containers": [{"name": "a", "image": "b"}]}}  # fmt: skip
        if resource == "deployments":
            trial = {
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "trial", "labels": {"a": "b"}},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                    "metadata": {"labels": {"a": "b"}}, "spec": trial["spec"]}},
            }  # fmt: skip

        def allowed() -> bool:
            words = ("create", "--namespace", scene.namespace, "--dry-run=server", "--filename", "-")
            return "created" in kubectl(*words, text=json.dumps(trial), fails=True)

        eventually(lambda: not allowed(), 60, "the policy is in force")

        def mend() -> None:
            scene.undone.close()
            eventually(allowed, 60, "the policy is in force no more")

        return mend

    return make


@dataclass(frozen=True)
class Refusal:
    """A kind of trouble.

    Parameters
    ----------
    make : callable
        Makes it, and gives what mends it.
    words : str
        What is to be said (a regular expression).
    hint : str
        What to do.
    """

    make: Callable[[Scene], Callable[[], None]]
    words: str
    hint: str


REFUSALS = {
    "image-missing": Refusal(
        image_missing, r"its image cannot be pulled: registry\.testbed/late:\w+", "is it in the registry"
    ),
    "quota-exceeded": Refusal(
        quota_exceeded, "its pods are refused: .*exceeded quota: few", "raise the quota or ask for less"
    ),
    "claim-never-binds": Refusal(
        claim_never_binds,
        f"a volume is missing: .*(?s:.)*{CLASS}",
        "is there a StorageClass that provides it",
    ),
    "policy-on-what-is-created": Refusal(
        policy_against("deployments", "apps"),
        "Deployment/app was refused: .*denied request: say whose it is: label team",
        "a policy of the cluster speaks against it",
    ),
    "policy-on-pods": Refusal(
        policy_against("pods", ""),
        "its pods are refused: .*denied request: say whose it is: label team",
        "a policy of the cluster speaks against it",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_is_said_and_when_mended_it_goes_on(scene: Scene, name: str) -> None:
    expected, study = REFUSALS[name], scene.study
    mend = expected.make(scene)
    study.write()
    done = study.run()
    assert done.returncode == 4, done.stderr
    assert re.search(expected.words, done.stderr), done.stderr
    assert expected.hint in done.stderr
    assert "Traceback" not in done.stderr
    assert study.left() == []
    assert not list(study.results.glob("intents/*.json"))
    assert study.records() == []
    mend()
    again = study.run()
    assert again.returncode in ENDED, again.stderr
    (record,) = study.records()
    assert "platform_lost" not in {one["name"] for one in record["verdicts"]["instrument_reasons"]}
    assert study.left() == []
