"""The study of Knative by runtime: every profile of every file is a plan, and has the runs that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from towtank.design import forecast, load_plan
from towtank.design.dropped import NOT_RUN

STUDY = Path(__file__).resolve().parents[3] / "studies" / "knative-runtimes"
PAPER = {
    "cold-starts": 6,  # six functions
    "one-at-a-time": 2,  # 400 requests/s, and 500, which are ours
    "decisions": 2,
    "node-trouble": 2,
}
"""File → runs of a repetition set in the paper profile."""
PROFILES = ("smoke", "laptop", "testbed", "paper")
LAPTOP_S = 15 * 60
LEAST_BLOCKS, LEAST_LOAD_S = 3, 20


@pytest.fixture(scope="module", params=sorted(PAPER))
def plans(request):
    """All plans of a file by profile; None is the whole file."""
    path = STUDY / f"{request.param}.yaml"
    return request.param, {profile: load_plan(path, profile=profile) for profile in (None, *PROFILES)}


def test_no_file_is_left_out():
    assert {path.stem for path in STUDY.glob("*.yaml")} == set(PAPER)


def test_the_paper_profile_has_the_published_runs(plans):
    name, of = plans
    paper = of["paper"]
    assert len(paper.treatments) == PAPER[name]
    assert len(paper.runs) == PAPER[name] * paper.blocks
    assert {one.spec.deployment.platform for one in paper.treatments} == {"knative"}


def test_the_laptop_profile_needs_no_cluster_and_a_quarter_of_an_hour(plans):
    _, of = plans
    laptop, whole = of["laptop"], of[None]
    assert {one.spec.deployment.platform for one in laptop.treatments} == {"local"}
    assert laptop.blocks >= LEAST_BLOCKS
    takes = forecast(laptop)
    assert takes.estimate_s <= LAPTOP_S
    assert all(one.load_s >= LEAST_LOAD_S for one in takes.treatments)
    places = ("deployment",)  # what is left out without a cluster
    for factor in whole.experiment.factors:
        levels = {one.levels[factor] for one in laptop.treatments}
        assert len(levels) >= (1 if factor in places else 2), factor
    assert any(note.startswith(NOT_RUN) for note in laptop.notes)


def test_the_testbed_profile_has_every_cell(plans):
    _, of = plans
    sizes = ("instances",)  # how many there may be is a size, not a cell
    cells = [
        {tuple((k, v) for k, v in one.levels.items() if k not in sizes) for one in of[profile].treatments}
        for profile in (None, "testbed")
    ]
    assert cells[0] == cells[1]


def test_loads_of_the_paper_are_the_published_ones():
    slow = load_plan(STUDY / "one-at-a-time.yaml", profile="paper")
    assert sorted(one.spec.workload.load.rate for one in slow.treatments) == [400, 500]
    (scaling,) = {one.spec.deployment.functions["function"].scaling.max_scale for one in slow.treatments}
    assert scaling == 400
    cold = load_plan(STUDY / "cold-starts.yaml", profile="paper")
    assert {one.spec.workload.load.rate * 60 for one in cold.treatments} == {1}
