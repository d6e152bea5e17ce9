"""A study of one run on a real cluster, for tests that make trouble for it; and what is left of it in the cluster."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import small_study
from support.cluster import Cluster
from support.cluster_app import IMAGE, SUPPORT

KINDS = "namespaces,all,leases,persistentvolumeclaims,configmaps,secrets"
ENDED = (0, 6)
"""Exit codes of a campaign that came to its end; 6 where somebody else kept the machine busy."""


@dataclass
class Study:
    """One treatment, one repetition, never repeated by itself.

    Parameters
    ----------
    cluster : Cluster
    folder : Path
    seconds : float
        Length of the load.
    keys : dict
        Of the deployment, beside its context and manifest.
    more : dict
        Of the experiment.
    kubeconfig : str, optional
        Another one than the cluster's.
    gone_within_s : float
        What is still there this long after its deletion is given up.
    """

    cluster: Cluster
    folder: Path
    seconds: float = 6.0
    keys: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    kubeconfig: str = ""
    gone_within_s: float = 100.0
    name: str = field(default_factory=lambda: f"trouble-{secrets.token_hex(4)}")

    def write(self) -> Path:
        """Write the experiment file and its manifest."""
        app = {
            "platform": "kubernetes", "context": self.cluster.context,
            "kubeconfig": str(Path(self.kubeconfig or self.cluster.kubeconfig).resolve()),
            "manifests": ["app.yaml"], "ready": {"http": "/healthz", "timeout": "60s"}, **self.keys,
        }  # fmt: skip
        app["set"] = {IMAGE: self.cluster.image, **app.get("set", {})}
        content = {
            "experiment": self.name, "question": "What becomes of a run that meets trouble?", "repetitions": 1,
            "seed": 5, "max_invalid_repeats": 0, "deployments": {"app": app},
            "workloads": {"reads": {
                "timeout": "1s", "connections": "new",
                "load": {"model": "open", "rate": "20/s", "duration": f"{self.seconds:g}s"},
                "journey": {"steps": [{"name": "read", "path": "/"}]},
            }},
            "settle": {"timeout": "60s"}, **self.more,
        }  # fmt: skip
        path = self.folder / "experiment.yaml"
        path.write_text(json.dumps(content, indent=1))  # JSON is YAML
        for manifest in app["manifests"]:
            source = SUPPORT / "manifests" / manifest
            if source.exists():
                (self.folder / manifest).write_text(source.read_text())
        return path

    @property
    def results(self) -> Path:
        """The result folder."""
        return self.folder / "results" / self.name

    @property
    def command(self) -> list[str]:
        """`towtank run`, which may give up what does not go after seconds instead of minutes."""
        hurried = (
            "from towtank.platforms.kubernetes import creating\n"
            f"creating.delete_all.__kwdefaults__['timeout_s'] = {self.gone_within_s}\n"
            "from towtank.cli.main import main\nmain()"
        )
        return [
            sys.executable,
            "-c",
            hurried,
            "run",
            str(self.folder / "experiment.yaml"),
            "--plain",
            "--no-report",
        ]

    def run(self, *, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
        """The whole command."""
        return subprocess.run(
            self.command, capture_output=True, text=True, check=False, env=small_study.environment(), timeout=timeout_s
        )  # fmt: skip

    def start(self) -> subprocess.Popen[str]:
        """Begin, and come back when the load is on."""
        process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=small_study.environment()
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while not any(log.stat().st_size for log in self.results.glob("runs/*/requests/thread-*.log")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "no load within 120 s"
            time.sleep(0.05)
        return process

    def records(self) -> list[dict[str, Any]]:
        """run.json of every attempt that is complete, oldest first."""
        return [one for one in small_study.records(self.results).values() if one["state"] == "complete"]

    @property
    def selector(self) -> str:
        """What finds everything of this study in the cluster."""
        return f"towtank.dev/experiment={self.name}"

    def namespace(self) -> str:
        """The one that Towtank has made."""
        (found,) = self.cluster.get("namespaces", "--selector", self.selector)["items"]
        return str(found["metadata"]["name"])

    def left(self) -> list[str]:
        """What is of this study in the cluster."""
        return self.cluster.marked(self.selector, KINDS)


def finished(process: subprocess.Popen[str], *, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
    """What a command that was started has said by its end."""
    out, err = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def reasons(record: dict[str, Any], axis: str) -> dict[str, str]:
    """Name → message of what was found on an axis."""
    return {one["name"]: one["message"] for one in record["verdicts"][f"{axis}_reasons"]}


def carried_out(
    study: Study, meddle: Callable[[Study], None], *, codes: tuple[int, ...] = ENDED
) -> dict[str, Any]:
    """The record of a run that was meddled with while its load was on."""
    study.write()
    process = study.start()
    try:
        meddle(study)
    except BaseException:
        process.terminate()
        finished(process)
        raise
    done = finished(process)
    assert done.returncode in codes, done.stderr
    (record,) = study.records()
    return record


def goes_on(study: Study, *, repeated: bool) -> dict[str, Any]:
    """The same command again ends the study: it repeats a run that was spoiled, and no other."""
    before = study.records()
    spoiled = before[-1]["verdicts"]["instrument"] == "invalid"  # a busy machine may have done that, too
    done = study.run()
    assert done.returncode in ENDED, done.stderr
    after = study.records()
    assert len(after) == len(before) + (repeated or spoiled), done.stderr
    assert study.left() == []
    assert not list(study.results.glob("intents/*.json"))
    return after[-1]
