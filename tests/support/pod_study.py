"""Studies of the small application in a cluster, with faults; and what becomes of one whose towtank is killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from support import small_study as study
from support.cluster import Cluster
from support.cluster_app import IMAGE, SUPPORT, wait_for


def write_study(
    folder: Path,
    name: str,
    levels: Sequence[str],
    faults: Sequence[Mapping[str, Any]],
    *,
    cluster: Cluster | None,
    duration: str,
    app: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Path:
    """Write an experiment whose only factor is `fault`, in two blocks, and return its file.

    Parameters
    ----------
    folder : Path
    name : str
    levels : sequence of str
        Of the factor.
    faults : sequence of mapping
    cluster : Cluster or None
        None where nothing is carried out.
    duration : str
        Of the load.
    app : mapping, optional
        More keys of the deployment.
    **keys
        More of the experiment, or other ones.
    """
    (folder / "app.yaml").write_text((SUPPORT / "manifests" / "app.yaml").read_text("utf-8"))
    place = (
        (cluster.context, str(Path(cluster.kubeconfig).resolve()), cluster.image) if cluster else ("any",) * 3
    )
    deployment = {
        "platform": "kubernetes", "context": place[0], "kubeconfig": place[1], "manifests": ["app.yaml"],
        "set": {IMAGE: place[2]}, "ready": {"http": "/healthz", "timeout": "120s"}, **(app or {}),
    }  # fmt: skip
    reads = {
        "timeout": "1s", "connections": "new",
        "load": {"model": "open", "rate": "40/s", "duration": duration, "warmup": "1s"},
        "journey": {"steps": [{"name": "read", "path": "/"}]},
    }  # fmt: skip
    experiment = {
        "experiment": name,
        "question": "What does this fault cost, and how soon is the service back?",
        "answer": {"primary": ["availability", "time_to_recover"], "baseline": "none"},
        "repetitions": 2,
        "max_invalid_repeats": 0,
        "factors": {"fault": list(levels)},
        "deployments": {"app": deployment},
        "workloads": {"reads": reads},
        "faults": [dict(fault) for fault in faults],
        "settle": {"timeout": "60s", "until": {"replicas": "baseline"}},
        **keys,
    }
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return file


def way_in(
    cluster: Cluster, experiment: str, answers: Callable[[str], bool], service: str | None = None
) -> str:
    """Where a study's Service (its only one, or that of a name) is on a node, once it answers; empty before."""
    chosen = f"towtank.dev/experiment={experiment}"
    found = cluster.get("services", "--all-namespaces", "--selector", chosen)["items"]
    found = [one for one in found if service in (None, one["metadata"]["name"])]
    if not found:
        return ""
    addresses = cluster.get("nodes")["items"][0]["status"]["addresses"]
    (address,) = [one["address"] for one in addresses if one["type"] == "InternalIP"]
    url = f"http://{address}:{found[0]['spec']['ports'][0]['nodePort']}/healthz"
    return url if answers(url) else ""


def kill_under_fault(file: Path, url: Callable[[], str], answers: Callable[[str], bool]) -> None:
    """Carry a study out until requests feel its fault, kill towtank, and see the fault undone without it.

    What it left is there afterwards, and `towtank clean` removes it.
    """
    with subprocess.Popen(
        study.command("run", file, "--plain"), cwd=file.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:  # fmt: skip
        try:
            found = wait_for(url, within_s=120)
            wait_for(lambda: not answers(found), within_s=120)
        finally:
            running.send_signal(signal.SIGKILL)
    wait_for(lambda: answers(found), within_s=20)
    (results,) = (one for one in (file.parent / "results").iterdir() if one.is_dir())
    done = study.towtank("clean", results, timeout=200)
    assert done.returncode == 0, done.stderr


def left_of(cluster: Cluster, experiment: str, kinds: str) -> list[str]:
    """What bears a study's mark in the cluster."""
    return cluster.marked(f"towtank.dev/experiment={experiment}", kinds)
