"""The source `knative`: what its parts publish, under the names of the source `scaling`, and who answered what."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from support import fake_knative_metrics as said
from support.fake_knative_metrics import AUTOSCALER, ENVOY, QUEUE_PROXY, REVISION, KnativeParts
from support.observed_cluster import observed_cluster
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.exposition import rows
from towtank.telemetry.knative import source as module
from towtank.telemetry.knative.numbers import Counted, take, wanted
from towtank.telemetry.knative.source import KnativeSource

S_US = 1_000_000
NS = "ns"


def taken(part, text, counted=None, pod="p"):
    return take(part, pod, rows(text, wanted(part)), NS, counted or Counted())


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_autoscalers_numbers_have_the_names_of_the_source_scaling():
    text = said.autoscaler(
        NS, desired_pods=3, actual_pods=2, stable_request_concurrency=4.5, panic_request_concurrency=6,
        target_concurrency_per_pod=1.4, excess_burst_capacity=-111, panic_mode=1,
    )  # fmt: skip
    assert taken("autoscaler", text) == {
        REVISION: {
            "autoscaler_desired": 3, "autoscaler_actual": 2, "autoscaler_stable": 4.5, "autoscaler_panic": 6,
            "autoscaler_target": 1.4, "autoscaler_excess_burst_capacity": -111, "autoscaler_panic_mode": 1,
        }
    }  # fmt: skip


def test_later_releases_have_other_names_for_the_same():
    own = 'k8s_namespace_name="ns",kn_revision_name="fn-00001"'
    text = "\n".join([
        f"kn_revision_pods_desired{{{own}}} 3", f"kn_revision_rps_stable{{{own}}} 40",
        f"kn_revision_capacity_excess{{{own}}} 7", f"kn_revision_panic_mode{{{own}}} 0",
    ])  # fmt: skip
    assert taken("autoscaler", text) == {
        REVISION: {
            "autoscaler_desired": 3, "autoscaler_stable": 40, "autoscaler_excess_burst_capacity": 7,
            "autoscaler_panic_mode": 0,
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        'autoscaler_desired_pods{namespace_name="other",revision_name="fn-00001"} 3',
        'autoscaler_desired_pods{namespace_name="ns"} 3',
        'autoscaler_desired_pods{namespace_name="ns",revision_name="fn"} NaN',
        "autoscaler_desired_pods 3",
        'autoscaler_desired_pods{namespace_name="ns",revision_name="fn"',
        'autoscaler_scrape_time_sum{namespace_name="ns",revision_name="fn"} 3',
    ],
)
def test_what_is_of_others_or_cannot_be_read_is_passed_over(line):
    assert taken("autoscaler", line) == {}


def test_counters_are_differences_and_begin_from_nothing_where_a_pod_is_new():
    counted = Counted()
    assert taken("queue-proxy", said.queue_proxy(NS, "p", depth=2, all="200:5"), counted) == {
        REVISION: {"queue_proxy_answered_200": 0}, "p": {"queue_depth": 2},
    }  # fmt: skip
    counted.begin()
    later = said.queue_proxy(NS, "p", depth=0, all="200:8 503:1", own="200:8")
    assert taken("queue-proxy", later, counted)[REVISION] == {
        "queue_proxy_answered_200": 3, "queue_proxy_answered_503": 1, "instances_answered_200": 8,
    }  # fmt: skip
    another = said.queue_proxy(NS, "q", all="200:4")
    assert taken("queue-proxy", another, counted, pod="q")[REVISION] == {"queue_proxy_answered_200": 4}
    again = said.queue_proxy(NS, "p", all="200:2")
    assert taken("queue-proxy", again, counted)[REVISION]["queue_proxy_answered_200"] == 2, "it began anew"


def test_envoys_counters_are_those_of_the_revision():
    counted = Counted()
    counted.begin()
    assert taken("envoy", said.envoy(NS, overflow=18, held=4, s200=50, s503=18), counted) == {
        REVISION: {
            "ingress_made_pending": 18, "ingress_held": 4, "ingress_answered_200": 50, "ingress_answered_503": 18,
        }
    }  # fmt: skip


# --- the source -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """One deployment for all: removing it takes seconds, and it is only looked at."""
    with observed_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def parts(observed):
    with KnativeParts(observed[0]) as found:
        yield found


@pytest.fixture
def namespace(observed):
    return observed[1].view().namespace


@pytest.fixture
def watched(observed):
    clock = RunClock(time.monotonic_ns())
    return ObserveContext(clock, 1.0, [], deployment=observed[1], options={"control": "port_forward"})


def values(samples, instance=REVISION):
    return {sample.metric: sample.value for sample in samples if sample.instance == instance}


def test_a_reading_asks_every_part_and_adds_up(parts, watched, namespace):
    parts.texts[AUTOSCALER] = said.autoscaler(namespace, desired_pods=2) + said.activator(namespace, s200=10)
    parts.texts[ENVOY] = said.envoy(namespace, s200=100)
    source = KnativeSource()
    source.start(watched)
    parts.texts[AUTOSCALER] = said.autoscaler(namespace, desired_pods=3, panic_mode=1) + said.activator(
        namespace, 4.0, s200=12, s503=1
    )
    parts.texts[ENVOY] = said.envoy(namespace, overflow=5, s200=110, s503=6)
    found = list(source.sample(watched.clock.now_us()))
    assert {sample.source for sample in found} == {"knative"}
    mine = values(found)
    rate = mine.pop("ingress_requests_per_s")
    assert rate > 0
    mine.pop("activator_requests_per_s")
    assert mine == {
        "autoscaler_desired": 3, "autoscaler_panic_mode": 1, "activator_concurrency": 4, "activator_answered_200": 2,
        "activator_answered_503": 1, "ingress_made_pending": 5, "ingress_held": 0, "ingress_answered_200": 10,
        "ingress_answered_503": 6,
    }  # fmt: skip
    assert list(source.close()) == []
    (event,) = source.events()
    assert event.kind == "ingress_answered_pending"
    assert "answered 5 requests with 503" in event.message
    facts = source.facts()
    assert facts["answered_by_activator"] == {"200": 2, "503": 1}
    assert facts["answered_by_ingress"] == {"pending": 5}
    assert facts["control"]["autoscaler"] == ["port_forward"]


def test_queue_proxies_are_those_of_the_deployments_pods(parts, watched, namespace, observed):
    cluster, deployment, _ = observed
    (pod, *_) = (pod["metadata"]["name"] for pod in deployment.view().pods)
    parts.texts[AUTOSCALER] = said.autoscaler(namespace, desired_pods=1)
    parts.texts[QUEUE_PROXY] = said.queue_proxy(namespace, pod, depth=3, all="200:7", own="200:7")
    source = KnativeSource()
    source.start(watched)
    assert "queue_depth" not in values(source.sample(watched.clock.now_us()), pod), "it is of no revision"

    def label(thing):
        thing["metadata"]["labels"]["serving.knative.dev/revision"] = REVISION

    cluster.change("pods", namespace, pod, label)
    until = time.monotonic() + 10
    found: list = []
    while not values(found, pod) and time.monotonic() < until:
        found = list(source.sample(watched.clock.now_us()))
    source.close()
    assert values(found, pod) == {"queue_depth": 3}
    assert values(found)["instances_answered_200"] == 7, "a pod that came later has counted from nothing"


def test_one_part_that_does_not_answer_is_told_once_and_the_others_go_on(parts, watched, namespace):
    parts.texts[AUTOSCALER] = said.autoscaler(namespace, desired_pods=1)
    parts.texts[ENVOY] = 503
    source = KnativeSource()
    source.start(watched)
    for _ in range(2):
        assert values(source.sample(watched.clock.now_us()))["autoscaler_desired"] == 1
    source.close()
    (event,) = source.events()
    assert (event.kind, event.instance) == ("not_read", "envoy-1")
    assert "port 8002/stats/prometheus answered 503" in event.message
    assert "control" in json.loads(event.detail)["advice"]


def test_a_cluster_whose_parts_all_fail_cannot_be_observed(parts, watched):
    parts.texts.update(dict.fromkeys(parts.texts, 500))
    with pytest.raises(TelemetryError, match="answered 500"):
        KnativeSource().start(watched)


def test_metrics_that_are_not_exposed_are_a_finding_with_what_to_do(parts, watched):
    source = KnativeSource()
    source.start(watched)
    assert list(source.sample(watched.clock.now_us())) == []
    source.close()
    (event,) = source.events()
    assert event.kind == "nothing_seen"
    assert "config-observability" in json.loads(event.detail)["advice"]


def test_an_ingress_that_is_not_there_is_told(parts, watched, namespace, observed):
    parts.texts[AUTOSCALER] = said.autoscaler(namespace, desired_pods=1)
    observed[0].drop("pods", "projectcontour", "envoy-1")
    source = KnativeSource()
    source.start(watched)
    assert [event.message for event in source.events()] == ["envoy: no pod of envoy was found"]
    source.close()
    source.start(replace(watched, options={"control": "port_forward", "envoy": None}))
    assert list(source.events()) == [], "where it is no Envoy, nobody looks for one"
    source.close()


def test_before_the_first_run_it_is_known_whether_there_is_a_knative(parts, observed, tmp_path):
    source, config = KnativeSource(), observed[2]
    assert source.look_ahead_at({}, [config], tmp_path) == []
    (problem,) = source.look_ahead_at({"namespace": "elsewhere"}, [config], tmp_path)
    assert "no autoscaler of Knative in the namespace elsewhere" in problem


def test_outside_of_a_cluster_it_says_so():
    source = KnativeSource()
    source.start(ObserveContext(RunClock(0), 1.0, ()))
    assert list(source.sample(0)) == []
    assert [event.kind for event in source.events()] == ["not_observable"]
    source.close()


def test_its_ports_are_those_that_knative_has():
    assert module.PORTS == {"autoscaler": 9090, "activator": 9090, "queue-proxy": 9091}
