"""The `knative` platform on the testbed: a function comes up, is asked for, goes to zero, starts cold, and is gone."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.cluster import Cluster
from support.cluster_app import SUPPORT, wait_for
from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext, Deployment
from towtank.platforms.knative.config import KnativeConfig
from towtank.platforms.knative.platform import KnativePlatform
from towtank.platforms.kubernetes.config import Disturber

pytestmark = [pytest.mark.cluster, pytest.mark.knative, pytest.mark.timeout(600)]

SCALING = {"window": "6s", "retention": "0s", "max_scale": 2}
ZERO_WITHIN_S = 150


@pytest.fixture
def config(with_knative: Cluster) -> Callable[..., KnativeConfig]:
    """One function on the testbed; keys of it as a test says."""

    def made(**fields: Any) -> KnativeConfig:
        function = {
            "image": with_knative.image, "port": 8080, "probe": "/healthz", "timeout": "30s", "scaling": SCALING
        }  # fmt: skip
        return KnativeConfig.model_validate(
            {
                "platform": "knative",
                "context": with_knative.context,
                "kubeconfig": str(Path(with_knative.kubeconfig).resolve()),
                "ready": {"http": "/healthz", "timeout": "120s"},
                "functions": {"hello": {**function, **fields}},
            }
        )

    return made


@pytest.fixture
def own_context(with_knative: Cluster, tmp_path: Path) -> Iterator[DeployContext]:
    """A deployment of this test alone; nothing that bears its mark is left."""
    token = f"tt-test-{secrets.token_hex(4)}"
    yield DeployContext(
        "fn", token, tmp_path / "data", tmp_path / "logs", SUPPORT, experiment="cluster tests"
    )
    for kind in ("namespaces", "pods", "ksvc", "revisions.serving.knative.dev"):
        left = with_knative.get(kind, "--all-namespaces", "--selector", f"towtank.dev/token={token}")
        assert left["items"] == [], kind


def ask(deployment: Deployment, timeout_s: float = 60) -> httpx.Response:
    target = deployment.targets["app"]
    (instance,) = target.instances
    host = {"host": str(target.transport.host)}
    return httpx.get(f"{instance.url}/", headers=host, timeout=timeout_s, trust_env=False)


def test_a_function_from_a_few_fields_lives_goes_to_zero_and_leaves_nothing(config, own_context):
    limits = config(ingress={"pending": 64}, container_concurrency=5, env={"A": "1"})
    assert KnativePlatform().check(limits, SUPPORT) == []
    deployment = KnativePlatform().deploy(limits, own_context)
    try:
        deployment.wait_ready(cancelled=lambda: None)
        assert ask(deployment).status_code == 200
        said = deployment.describe()
        (revision,) = said["knative"]["revisions"]
        assert revision["container_concurrency"] == 5
        assert revision["annotations"]["projectcontour.io/max-pending-requests"] == "64"
        assert revision["annotations"]["autoscaling.knative.dev/window"] == "6s"
        assert said["knative"]["settings"]["config-network"]["ingress-class"].startswith("gateway-api.")

        assert "pod(s) are there" in deployment.above_zero()
        wait_for(lambda: deployment.above_zero() == "", ZERO_WITHIN_S)
        assert deployment.unsettled(cpu_below=None, replicas=True) == ""  # which is zero, too
        answer = ask(deployment)
        assert answer.status_code == 200
        assert answer.headers["X-Instance"].startswith("hello-00001-deployment-")
        assert "crashed" not in {event.kind for event in deployment.events()}
    finally:
        begun = time.monotonic()
        deployment.remove()
    assert time.monotonic() - begun < 120  # not as long as a request might take, twice over


def test_a_revision_that_cannot_start_is_said_with_its_reason(config, own_context):
    deployment = KnativePlatform().deploy(config(command=["/nothing"]), own_context)
    try:
        with pytest.raises(PlatformError, match="cannot come up") as caught:
            deployment.wait_ready(cancelled=lambda: None)
    finally:
        deployment.remove()
    assert "/nothing" in caught.value.message
    assert "hello-00001-deployment-" in caught.value.message


def test_the_pod_of_a_function_is_cut_off_by_its_nodes_disturber_and_back(
    with_knative, config, own_context, engine_image
):
    cut_off = config(scaling={**SCALING, "min_scale": 1, "max_scale": 1})
    disturbed = cut_off.model_copy(update={"disturber": Disturber(image=engine_image)})
    deployment = KnativePlatform().deploy(disturbed, own_context)
    try:
        deployment.wait_ready(cancelled=lambda: None)
        assert ask(deployment).status_code == 200
        (pod,) = deployment.victims("app")
        undo = deployment.cut_instance(pod, "instance", lasts_s=60)
        with pytest.raises(httpx.TimeoutException):
            ask(deployment, timeout_s=3)
        undo()
        wait_for(lambda: ask(deployment).status_code == 200, 60)
    finally:
        deployment.remove()
