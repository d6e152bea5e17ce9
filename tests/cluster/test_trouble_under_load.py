"""Trouble while the load is on: each kind ends in its verdict on its axis, a clean cluster, and a study that goes on.

What the cluster does to the deployment is the treatment's result and never repeated; what keeps Towtank from seeing it
spoils the run, and the same command repeats that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.troubled_study import Study, carried_out, finished, goes_on, reasons

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
HOLD = "towtank.dev/test-hold"


# --- what the cluster does to the deployment: the system's axis ---------------------------------------------------


def ask_for_memory(study: Study) -> None:
    study.cluster.kubectl(
        "get", "--raw", f"/api/v1/namespaces/{study.namespace()}/services/app:80/proxy/allocate?mib=200", fails=True
    )  # fmt: skip


def test_memory_that_runs_out_is_the_treatments_result(cluster: Cluster, tmp_path: Path) -> None:
    study = Study(cluster, tmp_path, seconds=8)
    record = carried_out(study, ask_for_memory)
    found = reasons(record, "system")
    assert "the kernel killed it for want of memory" in found["oom_killed"], record["verdicts"]
    assert record["verdicts"]["system"] in ("degraded", "collapsed")
    assert "platform_lost" not in reasons(record, "instrument")
    goes_on(study, repeated=False)


# --- what keeps Towtank from seeing: the instrument's axis ------------------------------------------------------------


def test_a_lease_that_somebody_deleted_spoils_the_run(cluster: Cluster, tmp_path: Path) -> None:
    study = Study(cluster, tmp_path, seconds=4)

    def delete(started: Study) -> None:
        cluster.kubectl("delete", "lease", "--all", "--namespace", started.namespace())

    record = carried_out(study, delete)
    assert record["verdicts"]["instrument"] == "invalid"
    assert "was deleted by somebody" in reasons(record, "instrument")["platform_lost"]
    again = goes_on(study, repeated=True)
    assert "platform_lost" not in reasons(again, "instrument")


# --- what does not go afterwards --------------------------------------------------------------------------------


def test_a_namespace_that_does_not_go_keeps_what_was_measured(cluster: Cluster, tmp_path: Path) -> None:
    study = Study(cluster, tmp_path, seconds=4, gone_within_s=8)
    place = ""

    def hold(started: Study) -> None:
        nonlocal place
        place = started.namespace()
        holding = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": [HOLD]},
        }
        cluster.kubectl("create", "--namespace", place, "--filename", "-", text=json.dumps(holding))

    def release() -> None:
        patch = '{"metadata": {"finalizers": null}}'
        cluster.kubectl(
            "patch", "configmap", "held", "--namespace", place, "--type=merge", f"--patch={patch}"
        )

    study.write()
    process = study.start()
    try:
        hold(study)
        done = finished(process)
        assert done.returncode == 4, done.stderr
        # Waited for once more where its pod had gone meanwhile.
        assert re.search(
            rf"Namespace/{place} is still there (8|16)(\.\d)? s after its deletion", done.stderr
        ), done.stderr
        assert HOLD in done.stderr
        assert "towtank clean" in done.stderr
        (record,) = study.records()
        assert "platform_lost" not in reasons(record, "instrument")
    finally:
        release()
    goes_on(study, repeated=False)
