"""What observing a cluster costs and how soon it sees: watch to store, and a loaded node with and without all sources.

Needs a cluster that was named: `KUBECONFIG`, `TOWTANK_CONTEXT` and `TOWTANK_TEST_IMAGE`, as the tests do (docs/testbed.md).
"""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks import engine
from benchmarks.markdown import left_out, ratios
from benchmarks.measure import Sample, Setting, Unmeasurable, interleaved, say, spread
from towtank.clock import RunClock
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.connection import Connection, connect
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry import registry
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.sampler import Sampler

TITLE = "Observing a cluster"
SOURCES = ("host", "kubernetes", "kubelet", "metrics-server")
CONNECTIONS = 16
OBSERVED, PLAIN = "observed", "not observed"
_APP = Path(__file__).resolve().parents[2] / "tests" / "support"
_IMAGE = "Deployment/app:spec.template.spec.containers[app].image"
_WAIT_S = 30.0


def run(setting: Setting) -> dict[str, Any]:
    """Both measurements, against one pod of the small server of the tests."""
    context, image = os.environ.get("TOWTANK_CONTEXT"), os.environ.get("TOWTANK_TEST_IMAGE")
    if not context or not image or not os.environ.get("KUBECONFIG"):
        raise Unmeasurable("no cluster was named: set KUBECONFIG, TOWTANK_CONTEXT and TOWTANK_TEST_IMAGE")
    config = KubernetesConfig.model_validate(
        {"platform": "kubernetes", "context": context, "manifests": ["manifests/app.yaml"], "set": {_IMAGE: image},
         "ready": {"http": "/healthz", "timeout": "120s"}}
    )  # fmt: skip
    with _deployed(config) as deployment:
        delays = _watch_to_store(config, deployment.view(), changes=20 if setting.fast else 300)
        observing = _observing(deployment, setting)
    return {"delay": delays, "observing": observing, "connections": CONNECTIONS, "seconds": setting.seconds}


@contextmanager
def _deployed(config: KubernetesConfig) -> Iterator[KubernetesDeployment]:
    """One pod behind a Service; nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
        place, token = Path(name), f"bench-{secrets.token_hex(4)}"
        context = DeployContext("bench", token, place / "data", place / "logs", _APP, experiment="benchmarks")
        deployment = KubernetesPlatform().deploy(config, context)
        try:
            deployment.wait_ready(cancelled=lambda: None)
            yield deployment
        finally:
            deployment.remove()


# --- how soon ---------------------------------------------------------------------------------------------------------


def _watch_to_store(config: KubernetesConfig, view: ClusterView, *, changes: int) -> dict[str, Any]:
    """Label a pod again and again: from the answer to each change until the watch's store has it.

    Both instants are on one clock. The answer comes after the change was stored, so the message may overtake it: from
    when the change was asked for is the upper bound.
    """
    connection = connect(config.context, config.kubeconfig, None)
    try:
        watcher = view.watchers["pods"]
        (name,) = [str(pod["metadata"]["name"]) for pod in watcher.things]
        path = POD.path(view.namespace, name)
        asked, answered = [], []
        for number in range(changes):
            begun, changed, seen = _one_change(connection, path, number, lambda: watcher.things)
            asked.append((seen - begun) * 1000)
            answered.append((seen - changed) * 1000)
            time.sleep(0.02)
    finally:
        connection.api.close()
    return {"changes": changes, "from_asked_ms": _quantiles(asked), "from_answered_ms": _quantiles(answered)}


def _one_change(
    connection: Connection, path: str, number: int, store: Callable[[], list[dict[str, Any]]]
) -> tuple[float, float, float]:
    """When a change was asked for, was answered, and was in the store."""
    pod = connection.api.get(path)
    pod["metadata"].setdefault("labels", {})["towtank.dev/bench"] = str(number)
    found: list[float] = []
    ready = threading.Event()

    def look() -> None:
        ready.set()
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            if any(one["metadata"]["labels"].get("towtank.dev/bench") == str(number) for one in store()):
                found.append(time.monotonic())
                return
            time.sleep(0.0002)

    looking = threading.Thread(target=look)
    looking.start()
    ready.wait()
    begun = time.monotonic()
    connection.api.replace(path, pod)
    changed = time.monotonic()
    looking.join()
    if not found:
        raise Unmeasurable(f"a change of a pod was not seen within {_WAIT_S:g} s")
    return begun, changed, found[0]


def _quantiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {name: round(cuts[at - 1], 2) for name, at in (("p50", 50), ("p90", 90), ("p99", 99))}


# --- at which price ---------------------------------------------------------------------------------------------------


def _observing(deployment: KubernetesDeployment, setting: Setting) -> dict[str, Any]:
    """A closed load at the node's capacity, with all sources each second and with none, in turn."""
    url = deployment.targets["app"].instances[0].url
    own: list[float] = []

    def turn(*, observed: bool) -> Sample:
        before, begun, mine = psutil.cpu_times(), time.monotonic(), time.process_time()
        sampler = _sampler(deployment) if observed else None
        try:
            done = engine.measure(url, engine.closed(CONNECTIONS, setting.seconds), core=setting.load_core)
        finally:
            if sampler is not None:
                sampler.stop()
        wall_s = time.monotonic() - begun
        if observed:
            own.append((time.process_time() - mine) / wall_s)
        sample = done.sample()
        return Sample(sample.requests, _busy_s(before), sample.failed, setting.seconds)

    contenders = {OBSERVED: lambda: turn(observed=True), PLAIN: lambda: turn(observed=False)}
    rounds = interleaved(contenders, setting.rounds, reference=None)
    throughput = [one[OBSERVED].requests / one[PLAIN].requests for one in rounds.kept]
    say(f"  towtank itself used {statistics.median(own):.3f} of a core")
    return {
        **rounds.facts(setting.seconds),
        "ratios": rounds.ratios(OBSERVED, [PLAIN]),
        "throughput_ratio": spread(throughput),
        "own_cores": spread(own),
        "sources": list(SOURCES),
    }


def _sampler(deployment: KubernetesDeployment) -> Sampler:
    clock = RunClock(time.monotonic_ns())
    context = ObserveContext(clock, 1.0, [], deployment=deployment)
    sampler = Sampler([(registry.create(name), context) for name in SOURCES])
    sampler.start()
    return sampler


def _busy_s(before: Any) -> float:  # noqa: ANN401 - psutil's own tuple
    """CPU time of the whole machine since then: load, server, cluster and observer, and whoever else is there."""
    now = psutil.cpu_times()
    idle = ("idle", "iowait", "guest", "guest_nice", "steal")
    return sum(getattr(now, name) - getattr(before, name) for name in now._fields if name not in idle)


def show(result: dict[str, Any]) -> str:
    """Two paragraphs and a table."""
    delay, observing = result["delay"], result["observing"]
    asked, answered = delay["from_asked_ms"], delay["from_answered_ms"]
    share, own = observing["throughput_ratio"], observing["own_cores"]
    return f"""A pod was labelled {delay["changes"]} times. From the API server's answer until the watch's store had the change: median **{answered["p50"]} ms**,
p90 {answered["p90"]} ms, p99 {answered["p99"]} ms (below 0: the message overtook the answer); from the request for it: median {asked["p50"]} ms, p99 {asked["p99"]} ms.

One pod of the tests' small server at its capacity: {result["connections"]} connections of the engine, {result["seconds"]} s a turn, {observing["rounds_kept"]} rounds; with the
sources {", ".join(observing["sources"])} each second, and with none. *CPU a request* is what the whole machine used (load, server, cluster, observer) ÷ requests.
Throughput with ÷ without: **{share["median"]}** ({share["min"]} – {share["max"]}). Towtank itself used {own["median"]} of a core ({own["min"]} – {own["max"]}).

{ratios(observing)}{left_out(observing)}"""
