"""Speaking to a cluster in tests: the testbed, or one whose context was named; and to the testbed's command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from testbed.settings import NAME, REGISTRY, Folders

ROOT = Path(__file__).resolve().parents[2]
UP_TIMEOUT_S = 600
NOT_POSSIBLE = 3


def run_testbed(*words: str, **keywords) -> subprocess.CompletedProcess[str]:
    """Run `python -m testbed` as people do."""
    return subprocess.run(
        [sys.executable, "-m", "testbed", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=UP_TIMEOUT_S, check=False, **keywords,
    )  # fmt: skip


def why_not_possible() -> str:
    """Why this machine cannot carry the testbed now; empty when it can."""
    checked = run_testbed("check")
    if checked.returncode == NOT_POSSIBLE:
        return checked.stderr.strip()
    if not (Folders.from_environment().programs / ".built").exists():
        return (
            "the testbed's programs are not built; `make testbed-build` builds them (minutes the first time)"
        )
    return ""


@dataclass(frozen=True)
class Cluster:
    """A cluster to test with."""

    kubectl_program: str
    kubeconfig: str
    context: str
    is_testbed: bool
    image: str

    def kubectl(self, *words: str, text: str | None = None, fails: bool = False) -> str:
        """Run kubectl on this very context."""
        done = subprocess.run(
            [self.kubectl_program, "--kubeconfig", self.kubeconfig, "--context", self.context, *words],
            input=text, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert fails or done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *words: str) -> dict:
        """An object, or a list of them."""
        return json.loads(self.kubectl("get", *words, "--output", "json"))

    def marked(self, selector: str, kinds: str) -> list[str]:
        """Kind and name of all objects of these kinds (comma-separated) that a selector of labels chooses."""
        found = self.get(kinds, "--all-namespaces", "--selector", selector)["items"]
        return [f"{one['kind']}/{one['metadata']['name']}" for one in found]

    def ask(self, namespace: str, service: str, path: str) -> str:
        """Ask a service through the API server, which works on every cluster (never for measuring)."""
        return self.kubectl(
            "get", "--raw", f"/api/v1/namespaces/{namespace}/services/{service}:80/proxy{path}"
        )


def eventually(holds: Callable[[], object], timeout_s: float, what: str):
    """Ask until the answer is true; return it."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if answer := holds():
                return answer
            said = ""
        except AssertionError as early:
            said = str(early)
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what} {said}"
        time.sleep(0.2)


def testbed_cluster() -> Cluster:
    """The testbed, which must be up."""
    folders = Folders.from_environment()
    return Cluster(
        str(folders.programs / "kubectl"), str(folders.kubeconfig), NAME,
        is_testbed=True, image=f"{REGISTRY}/hello:1",
    )  # fmt: skip


testbed_cluster.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test


def named_cluster(context: str) -> Cluster:
    """The cluster of a context that was named; everything it takes must be named too."""
    kubeconfig, image = os.environ.get("KUBECONFIG"), os.environ.get("TOWTANK_TEST_IMAGE")
    built = Folders.from_environment().programs / "kubectl"
    program = shutil.which("kubectl") or (str(built) if built.exists() else None)
    for name, value in (
        ("KUBECONFIG", kubeconfig), ("TOWTANK_TEST_IMAGE", image), ("kubectl in PATH", program),
    ):  # fmt: skip
        if not value:
            pytest.fail(f"TOWTANK_CONTEXT is {context}, which needs {name} too; see docs/testbed.md")
    return Cluster(program, kubeconfig, context, is_testbed=False, image=image)
