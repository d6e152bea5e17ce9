"""The page about load models: every snippet on it makes a plan, with the load that the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towtank.design import forecast, load_plan

PAGE = Path(__file__).parents[3] / "docs" / "load-models.md"
SNIPPETS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
FRAME = """\
experiment: snippet
question: Which is faster?
factors: {deployment: [a, b]}
repetitions: 2
deployments:
  a: &targets
    platform: external
    targets: {TARGETS}
  b:
    platform: external
    targets: {TARGETS}
"""
ONE = "app: {url: 'http://127.0.0.1:1'}"
TWO = "fn-a: {url: 'http://127.0.0.1:1'}, fn-b: {url: 'http://127.0.0.1:2'}"
MINUTES = 1440
REQUESTS = {
    "hey": (100 * 60 / 30, 100 * 60 * 10 + 100),
    "wrk2": (60_000, 60_000),
    "ramping-arrival-rate": (111_000, 111_000),
    "shared-iterations": (200, 200),
    "rhythm": (182_250, 182_250),
    "independent": (120_000, 120_000),
    "replay": (3, 3),
    "limbo": (0.6, 0.6),
    "azure": (30 * 10 * 2, 30 * 10 * 2),
    "probe": (120, 120),
}
"""Requests of a run, at least and at most; a wave of whole periods has its mean."""


def plan_of(folder, snippet):
    (folder / "times.txt").write_text("0\n10\n20\n", "utf-8")
    (folder / "rates.csv").write_text("0.5,10\n1.5,20\n2.5,30\n", "utf-8")
    header = ",".join(["HashOwner,HashApp,HashFunction,Trigger", *map(str, range(1, MINUTES + 1))])
    rows = [",".join([f"o,a,f{n},http", *["2"] * MINUTES]) for n in range(12)]
    (folder / "invocations_per_function_md.anon.d01.csv").write_text("\n".join([header, *rows]), "utf-8")
    targets = TWO if "fn-a" in snippet else ONE
    path = folder / "experiment.yaml"
    frame = FRAME.replace("&targets", "").replace("TARGETS", targets)
    path.write_text(frame + snippet, "utf-8")
    return load_plan(path)


def test_the_page_has_a_snippet_for_every_row():
    assert len(SNIPPETS) == 12
    names = {re.search(r"workloads:\n  ([\w-]+):", snippet).group(1) for snippet in SNIPPETS}
    assert names == {*REQUESTS, "ramping-vus", "locust"}
    text = PAGE.read_text("utf-8")
    headings = {
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-")
        for h in re.findall(r"^## (.*)$", text, re.MULTILINE)
    }
    linked = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert linked <= headings


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: re.search(r"  ([\w-]+):", s).group(1))
def test_every_snippet_makes_a_plan(tmp_path, snippet):
    plan = plan_of(tmp_path, snippet)
    workload = plan.treatments[0].spec.workload_name
    requests = forecast(plan).treatments[0].requests
    if workload in REQUESTS:
        low, high = REQUESTS[workload]
        assert requests.low == pytest.approx(low, rel=1e-6)
        assert requests.high == pytest.approx(high, rel=1e-6)
