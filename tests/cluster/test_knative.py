"""Knative Serving on the testbed: served through Envoy, from zero and back, split and tagged, limited and counted.

They need a testbed with Knative (`make testbed-up KNATIVE=1`); where none is up, they bring one up and take it down.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from support import knative
from support.cluster import Cluster, eventually, run_testbed
from support.knative import Functions
from support.machine import picture

pytestmark = [pytest.mark.cluster, pytest.mark.knative, pytest.mark.timeout(900)]

SOON_ZERO = {
    "autoscaling.knative.dev/window": "6s",
    "autoscaling.knative.dev/scale-to-zero-pod-retention-period": "0s",
}
STAYS = {"autoscaling.knative.dev/min-scale": "1", "autoscaling.knative.dev/max-scale": "1"}
LIMIT = "projectcontour.io/max-"
ZERO_WITHIN_S = 150
"""Six seconds without requests, 30 s of grace, and a machine that others use."""
ASKED = 500


@pytest.fixture(scope="session")
def functions(with_knative: Cluster) -> Iterator[Functions]:
    """A namespace with all Services of these tests, made at once: what goes to zero does so while others are asked."""
    name = f"towtank-test-{secrets.token_hex(4)}"
    with_knative.kubectl("create", "namespace", name)
    made = Functions(with_knative, name)
    quick = {"periodSeconds": 1, "httpGet": {"path": "/healthz", "port": 8080}}
    made.apply("sleeper", {"metadata": {"annotations": SOON_ZERO}, "container": {"readinessProbe": quick}})
    counted = {"metadata": {"name": "split-one", "annotations": STAYS}, "containerConcurrency": 50}
    made.apply("split", counted)
    narrow = {f"{LIMIT}connections": "1", f"{LIMIT}pending-requests": "1"}
    made.apply("narrow", {"metadata": {"name": "narrow-one", "annotations": {**STAYS, **narrow}}})
    yield made
    if Path(with_knative.kubeconfig).exists():  # the last of these tests takes it down, and all with it
        with_knative.kubectl("delete", "namespace", name, "--wait=true", "--timeout=180s")


def asked_at_once(functions: Functions, name: str, count: int, path: str) -> list[httpx.Response]:
    with ThreadPoolExecutor(count) as all_at_once:
        return list(all_at_once.map(lambda _: functions.ask(name, path), range(count)))


def revision_of(answer: httpx.Response) -> str:
    """Pods are called `<revision>-deployment-<hash>-<hash>`."""
    return answer.headers["X-Instance"].partition("-deployment-")[0]


def flags_of_envoy(functions: Functions, name: str) -> set[str]:
    """Why Envoy answered requests to a Service otherwise than with what it got."""
    said = functions.cluster.kubectl("-n", "projectcontour", "logs", "deployment/envoy", "--container=envoy")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {one["response_flags"] for one in lines if one["authority"] == functions.host(name)}


def test_a_service_is_ready_and_served_through_envoy_by_its_host(functions):
    found = functions.wait_ready("sleeper")
    assert found["status"]["url"] == f"http://{functions.host('sleeper')}"
    answer = functions.ask("sleeper")
    assert (answer.status_code, answer.headers["server"]) == (200, "envoy")
    assert answer.text.startswith("hello from sleeper-")
    other = functions.ask("nobody")
    assert (other.status_code, other.headers["server"]) == (404, "envoy")


def test_the_ingress_is_ready_only_when_it_was_probed_and_says_where_it_is(functions):
    functions.wait_ready("split")
    ingress = functions.cluster.get("kingress", "split", "-n", functions.namespace)
    conditions = {one["type"]: one["status"] for one in ingress["status"]["conditions"]}
    assert conditions == {"LoadBalancerReady": "True", "NetworkConfigured": "True", "Ready": "True"}
    (place,) = ingress["status"]["publicLoadBalancer"]["ingress"]
    assert place == {"domainInternal": "envoy.projectcontour.svc.cluster.local"}
    probed = httpx.get(
        f"{knative.INGRESS}/healthz",
        headers={"host": functions.host("split"), "K-Network-Probe": "probe", "K-Network-Hash": "override"},
        timeout=10, trust_env=False,
    )  # fmt: skip
    assert probed.headers["K-Network-Hash"]  # whoever answers probes knows the routes that it stands behind


def test_traffic_is_split_as_asked_and_a_tag_leads_to_one_revision(functions):
    functions.wait_ready("split")
    traffic = [
        {"revisionName": "split-one", "percent": 80},
        {"revisionName": "split-two", "percent": 20, "tag": "candidate"},
    ]
    functions.apply("split", {"metadata": {"name": "split-two", "annotations": STAYS}}, traffic=traffic)
    functions.wait_ready("split")
    with httpx.Client(
        base_url=knative.INGRESS, headers={"host": functions.host("split")}, timeout=30, trust_env=False
    ) as client:
        heard = Counter(revision_of(client.get("/")) for _ in range(ASKED))
    assert set(heard) == {"split-one", "split-two"}
    spread = (ASKED * 0.8 * 0.2) ** 0.5
    assert abs(heard["split-two"] - ASKED * 0.2) < 5 * spread, heard

    tagged = f"candidate-{functions.host('split')}"
    by_host = {revision_of(functions.ask("split", host=tagged)) for _ in range(10)}
    assert by_host == {"split-two"}
    header = {"Knative-Serving-Tag": "candidate"}
    by_header = {revision_of(functions.ask("split", **header)) for _ in range(10)}
    assert by_header == {"split-two"}


def test_what_is_too_much_is_answered_503_and_counted_by_envoy_itself(functions):
    functions.wait_ready("narrow")
    cluster = f"{functions.namespace}_narrow-one_80"
    assert functions.ask("narrow").status_code == 200
    before = {
        name: knative.counted(name, cluster) for name in ("upstream_rq_pending_overflow", "upstream_rq")
    }
    answers = asked_at_once(functions, "narrow", 20, "/?ms=300")
    status = Counter(answer.status_code for answer in answers)
    assert set(status) == {200, 503}
    assert {answer.headers.get("x-envoy-overloaded") for answer in answers if answer.status_code == 503} == {
        "true"
    }
    overflow = (
        knative.counted("upstream_rq_pending_overflow", cluster) - before["upstream_rq_pending_overflow"]
    )
    assert overflow == status[503]
    # Envoy writes down once a second; `UO` is its flag for an upstream that overflowed
    eventually(lambda: flags_of_envoy(functions, "narrow") == {"UO"}, 20, "a line of each")

    # another revision, another limit: Envoy and Contour are those that they were
    pods = functions.cluster.get("pods", "-n", "projectcontour")["items"]
    functions.apply("narrow", {"metadata": {"name": "narrow-two", "annotations": STAYS}})
    functions.wait_ready("narrow")
    wide = asked_at_once(functions, "narrow", 20, "/?ms=30")
    assert Counter(answer.status_code for answer in wide) == {200: 20}
    assert {one["metadata"]["uid"] for one in pods} == {
        one["metadata"]["uid"] for one in functions.cluster.get("pods", "-n", "projectcontour")["items"]
    }


def test_autoscaler_activator_and_queue_proxy_tell_their_numbers_to_the_host(functions):
    functions.wait_ready("split")
    of_revision = {"namespace_name": functions.namespace}

    def names(url: str) -> set[str]:
        return {one.name for one in knative.samples(url) if of_revision.items() <= one.labels.items()}

    def address(selector: str, namespace: str = "knative-serving") -> str:
        (pod,) = functions.cluster.get("pods", "-n", namespace, "--selector", selector)["items"]
        return str(pod["status"]["podIP"])

    functions.ask("split")
    autoscaler = f"http://{address('app=autoscaler')}:9090/metrics"
    wanted = {"desired_pods", "stable_request_concurrency", "panic_request_concurrency", "panic_mode"}
    wanted |= {"excess_burst_capacity", "target_concurrency_per_pod", "requested_pods", "actual_pods"}
    eventually(lambda: {f"autoscaler_{name}" for name in wanted} <= names(autoscaler), 30, "the autoscaler's")
    activator = f"http://{address('app=activator')}:9090/metrics"
    eventually(
        lambda: {"activator_request_concurrency", "activator_request_count"} <= names(activator), 30, "its"
    )
    queue = f"http://{address('serving.knative.dev/revision=split-one', functions.namespace)}:9091/metrics"
    wanted = {"revision_app_request_count", "revision_request_count", "revision_queue_depth"}
    eventually(lambda: wanted <= names(queue), 30, "the queue-proxy's")


def test_it_goes_to_zero_starts_cold_and_goes_to_zero_again(functions):
    functions.wait_ready("sleeper")
    for _ in range(2):
        eventually(lambda: not functions.pods("sleeper"), ZERO_WITHIN_S, "scaled to zero")
        begun = time.monotonic()
        answer = functions.ask("sleeper")
        took = time.monotonic() - begun
        assert answer.status_code == 200
        (pod,) = functions.pods("sleeper")
        assert answer.headers["X-Instance"] == pod["metadata"]["name"]
        assert took < 60  # it was held by the activator, not refused
    eventually(lambda: not functions.pods("sleeper"), ZERO_WITHIN_S, "scaled to zero again")


def test_down_leaves_nothing(goes_down):
    assert run_testbed("down").returncode == 0
    after = picture()
    for what, value in goes_down.items():
        assert after[what] == value, what
