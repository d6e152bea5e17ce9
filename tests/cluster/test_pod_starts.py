"""A scale-up of fifty pods: how each of them came up is in the report, and agrees with the pods' own times."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import small_study
from support.cluster import Cluster, eventually
from support.troubled_study import ENDED, Study, finished
from towtank.analysis.pods import pod_starts, read_pods
from towtank.store import Results

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.timeout(300)]
PODS = 50
AGREE_S = 1.25
"""Whole seconds, and the way of a message."""
STEPS = ("created", "scheduled", "started", "ready")
SECONDS = 75
LOG = logging.getLogger(__name__)
SMALL = "Deployment/app:spec.template.spec.containers[app].resources.requests.cpu"


def unix_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def own_times(pod: dict[str, Any]) -> dict[str, float]:
    """Step → when it was by the pod's own conditions, in whole seconds of the cluster's clock."""
    conditions = {
        c["type"]: c["lastTransitionTime"] for c in pod["status"]["conditions"] if c["status"] == "True"
    }
    (status,) = pod["status"]["containerStatuses"]
    found = {
        "created": pod["metadata"]["creationTimestamp"], "scheduled": conditions["PodScheduled"],
        "started": status["state"]["running"]["startedAt"], "ready": conditions["Ready"],
    }  # fmt: skip
    return {step: unix_s(text) for step, text in found.items()}


def test_fifty_pods_come_up_as_their_own_conditions_say(cluster: Cluster, tmp_path: Path) -> None:
    study = Study(
        cluster, tmp_path, seconds=SECONDS, keys={"set": {SMALL: "5m"}}, more={"observe": ["kubernetes"]}
    )
    study.write()
    process = study.start()
    place = study.namespace()
    cluster.kubectl("scale", "deployment/app", f"--replicas={PODS + 1}", "--namespace", place)

    def all_ready() -> list[dict[str, Any]]:
        pods = cluster.get("pods", "--namespace", place)["items"]
        ready = [
            p for p in pods if {"type": "Ready", "status": "True"}.items() <= _condition(p, "Ready").items()
        ]
        return ready if len(ready) == PODS + 1 else []

    try:
        pods = eventually(all_ready, SECONDS - 5, f"{PODS} more pods are ready")
        time.sleep(1)
    except BaseException:
        process.terminate()
        finished(process)
        raise
    done = finished(process, timeout_s=200)
    assert done.returncode in ENDED, done.stderr
    assert study.left() == []

    (run,) = Results.open(study.results).runs("complete")
    zero_s = unix_s(run.record.clock.zero_utc)
    seen = read_pods(run.samples(), run.events(), run.record.telemetry)
    own = {pod["metadata"]["uid"]: own_times(pod) for pod in pods}
    told = {uid: {step: zero_s + us / 1e6 for step, us in seen.lives[uid].items()} for uid in own}
    for uid, mine in told.items():
        assert mine.keys() >= {"created", "scheduled", "pulled", "started", "ready"}
        assert mine["created"] <= mine["scheduled"] <= mine["started"] <= mine["ready"], uid
    for step in STEPS:  # own times are truncated to seconds: half a second is added, and is their uncertainty
        late_s = [told[uid][step] - (own[uid][step] + 0.5) for uid in own]
        low, middle, high = np.percentile(late_s, (2, 50, 98))
        LOG.info("%s: message − own time: %+.2f s (%+.2f to %+.2f)", step, middle, low, high)
        assert low >= -1.0, (step, low)
        if step in ("created", "scheduled"):  # a busy kubelet is late to tell of the others
            assert middle <= 1.0, (step, middle)

    starts = pod_starts("all", [seen])
    phases = starts[starts.under_load].set_index("phase")
    LOG.info("\n%s", phases.to_string())
    took = [
        (told[uid]["ready"] - told[uid]["created"], own[uid]["ready"] - own[uid]["created"]) for uid in own
    ]
    new = [pair for uid, pair in zip(own, took, strict=True) if seen.lives[uid]["created"] >= 0]
    agreed = [
        (by_message, by_itself) for by_message, by_itself in new if abs(by_message - by_itself) <= AGREE_S
    ]
    assert len(new) == PODS
    assert phases.loc["created → ready", "n"] == len(agreed), "what disagrees with its own times is left out"
    for share, column in ((50, "p50_s"), (90, "p90_s")):
        by_itself = np.percentile([pair[1] for pair in agreed], share)
        assert abs(by_itself - phases.loc["created → ready", column]) <= AGREE_S

    # a single valid run is shown; where the machine was too busy for that, there is nothing to show
    if run.record.verdicts.instrument != "invalid":
        page = small_study.towtank("report", study.results)
        assert page.returncode == 0, page.stderr
        html = (study.results / "report" / "report.html").read_text("utf-8")
        assert "How long pods took to start" in html
        assert "How fast pods came up" in html


def _condition(pod: dict[str, Any], name: str) -> dict[str, Any]:
    found = [c for c in pod["status"].get("conditions") or [] if c["type"] == name]
    return dict(found[0]) if found else {}
