"""The study of granularity: its files are what the shop's placements say, its plans are the original's, and it runs."""

from __future__ import annotations

import csv
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.cli import towtank
from towtank.design import load_plan

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "studies" / "service-granularity"
SHOP = ROOT / "apps" / "boutique"
PLACEMENTS = {
    path.stem: tomllib.loads(path.read_text("utf-8")) for path in (SHOP / "placements").glob("*.toml")
}
COMPONENTS = {
    "frontend", "catalogue", "cart", "currency", "checkout", "payment", "shipping", "email", "recommendation", "ads",
    "cartcache",
}  # fmt: skip


def planned(file="experiment.yaml", profile=None):
    return load_plan(STUDY / file, profile=profile)


def machines(placement):
    """Process → machine, as boutique reads the file."""
    listed = placement.get("processes", {})
    apart = COMPONENTS - {component for process in listed.values() for component in process["components"]}
    return {
        **{name: process.get("machine", 1) for name, process in listed.items()},
        **dict.fromkeys(apart, placement.get("unlisted", {}).get("machine", 1)),
    }


@pytest.mark.parametrize(
    ("profile", "treatments", "repetitions"),
    [("smoke", 2, 2), ("laptop", 8, 3), ("testbed", 64, 3), ("paper", 64, 5), (None, 64, 3)],
)
def test_every_profile_is_planned(profile, treatments, repetitions):
    plan = planned(profile=profile)
    assert len(plan.treatments) == treatments
    assert len(plan.runs) == treatments * repetitions
    elsewhere = {treatment.spec.deployment.platform for treatment in plan.treatments}
    assert elsewhere == {"kubernetes" if profile in ("testbed", "paper") else "local"}


def test_the_original_is_eight_placements_at_eight_loads():
    plan = planned(profile="paper")
    cells = {(t.levels["deployment"], t.levels["users"]) for t in plan.treatments}
    assert cells == {(name, users) for name in PLACEMENTS for users in range(500, 2251, 250)}
    load = plan.treatments[0].spec.workload.load
    assert load.duration - load.warmup == 300


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_a_deployment_is_its_placement(name):
    deployment = next(t.spec.deployment for t in planned().treatments if t.levels["deployment"] == name)
    pinned = {process: component.cpus for process, component in deployment.components.items()}
    assert pinned == {process: (machine - 1,) for process, machine in machines(PLACEMENTS[name]).items()}
    for component in deployment.components.values():
        assert f"placements/{name}.toml" in component.command
        addressed = {word.split("=")[0] for word in component.env["BOUTIQUE_ADDRESSES"].split()}
        assert addressed == set(deployment.components)


@pytest.mark.parametrize(
    ("profile", "treatments", "repetitions"), [("smoke", 4, 2), ("laptop", 8, 3), (None, 8, 5)]
)
def test_every_profile_of_the_second_file_is_planned(profile, treatments, repetitions):
    plan = planned("resilience.yaml", profile)
    assert len(plan.treatments) == treatments
    assert len(plan.runs) == treatments * repetitions
    for treatment in plan.treatments:
        words = treatment.spec.deployment.components["frontend"].command
        flags = dict(
            zip(words[words.index("-retries") :: 2], words[words.index("-retries") + 1 :: 2], strict=True)
        )
        mended = treatment.levels["mended_by"]
        assert flags == {
            "-retries": "2" if mended in ("retry", "both") else "0",
            "-breaker": "on" if mended in ("breaker", "both") else "off",
            "-fault": f"frontend>cart={treatment.levels['fault']}",
        }


@pytest.fixture(scope="module")
def boutique():
    if shutil.which("go") is None:
        pytest.skip("go is missing: tools/system-packages.sh functions")
    subprocess.run([SHOP / "build.sh"], check=True, capture_output=True)


@pytest.mark.timeout(300)
def test_objects_of_kubernetes_are_current(boutique, tmp_path):
    copied = tmp_path / "studies" / "service-granularity"
    copied.mkdir(parents=True)
    shutil.copy(STUDY / "kubernetes.sh", copied)
    (tmp_path / "apps").symlink_to(ROOT / "apps")
    subprocess.run([copied / "kubernetes.sh", "node1", "node2", "registry.testbed/boutique:1"], check=True)
    made, kept = (
        {path.name: path.read_text("utf-8") for path in (folder / "kubernetes").glob("*.yaml")}
        for folder in (copied, STUDY)
    )
    assert made == kept, (
        "run studies/service-granularity/kubernetes.sh node1 node2 registry.testbed/boutique:1"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("file", ["experiment.yaml", "resilience.yaml"])
def test_its_smallest_shape_runs(boutique, tmp_path, file):
    done = towtank("run", STUDY / file, "--profile", "smoke", "--results", tmp_path, timeout=240)
    assert done.returncode in (0, 6), done.stderr  # 6: a busy machine spoiled a run
    found = towtank("sql", tmp_path, "select distinct step, outcome from requests", "--format", "csv")
    outcomes = {(row["step"], row["outcome"]) for row in csv.DictReader(found.stdout.splitlines())}
    assert {("first-home", "answered"), ("product", "answered")} <= outcomes
    calls = towtank(
        "sql", tmp_path, "select distinct instance from samples where source = 'calls' and metric = 'remote_calls'"
        " and value > 0", "--format", "csv",
    )  # fmt: skip
    assert {"load>frontend", "frontend>cart"} <= {line.strip('"') for line in calls.stdout.splitlines()}
