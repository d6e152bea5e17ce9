"""`demand`: a calibration is carried by treatments; one that does not fit is refused at its place."""

import json
import math

import pytest

from support.capacities import record
from towtank.design.capacity_file import CapacityFile
from towtank.design.plan import Plan
from towtank.errors import DesignError
from towtank.variables import DEMAND_VARIABLES

SECTION = ("seed: 1\n", "seed: 1\ndemand: {calibration: capacity.json, deployment: fixed, least: 0}\n")


@pytest.fixture
def found(tmp_path):
    def write(*levels, **changes):
        capacities = [
            record(
                **{
                    "treatment": f"fixed-{n}", "label": f"fixed, {n}", "deployment": "fixed", "workload": "w",
                    "levels": {"replicas": n}, "holds": holds, "fails": fails, **changes,
                }
            )
            for n, holds, fails in levels
        ]  # fmt: skip
        file = CapacityFile.model_validate({"experiment": "x", "digest": "d", "capacities": capacities})
        (tmp_path / "capacity.json").write_text(file.to_json())

    return write


def said(load, *changes):
    with pytest.raises(DesignError) as caught:
        load(*changes)
    (problem,) = caught.value.problems
    assert problem.path == "demand.calibration"
    return problem.message


def test_treatments_carry_the_calibration_and_the_plan_keeps_its_file(found, small):
    found((2, 190.0, 200.0), (1, 100.0, None))
    plan = small(SECTION)
    demand = plan.treatments[0].spec.demand
    assert [(one.replicas, one.holds, one.fails) for one in demand.levels] == [(1, 100, None), (2, 190, 200)]
    assert (demand.deployment, demand.least, demand.slo) == ("fixed", 0, {"p95": 0.3})
    assert "capacity.json" in plan.files
    assert Plan.from_json(plan.to_json()).treatments[0].spec.demand == demand


def test_without_it_a_plan_is_the_same_as_ever(small, found):
    plain = small()
    assert plain.treatments[0].spec.demand is None
    found((1, 100.0, 105.0))
    assert small(SECTION).digest != plain.digest


def test_what_does_not_calibrate_is_refused(found, small):
    found((2, 190.0, 200.0))
    assert "1 must be among them" in said(small, SECTION)
    found((1, 100.0, 105.0), (1, 100.0, 105.0))
    assert "two capacities with 1 replicas" in said(small, SECTION)
    found((1, None, 105.0))
    assert "calibrates nothing" in said(small, SECTION)
    found((1, 100.0, 105.0), deployment="other")
    assert "no calibration of 'fixed'" in said(small, SECTION)
    found((1, 100.0, 105.0), levels={"replicas": 1.5})
    assert "1.5 is no number of replicas" in said(small, SECTION)
    found((1, 100.0, 105.0), (10**9, 200.0, 210.0))
    assert "1000000000 is no number of replicas; allowed is from 1 to 100,000" in said(small, SECTION)
    found((1, 100.0, 105.0), model="closed")
    assert "counts something else" in said(small, SECTION)


def test_levels_with_other_objectives_are_no_calibration_together(found, small, tmp_path):
    found((1, 100.0, 105.0), (2, 190.0, 200.0))
    place = tmp_path / "capacity.json"
    file = json.loads(place.read_text())
    file["capacities"][1]["slo"] = {"p95": 0.5}
    place.write_text(json.dumps(file))
    assert "fixed, 2 was searched for the objectives p95 500 ms, fixed, 1 for p95 300 ms" in said(
        small, SECTION
    )


@pytest.mark.parametrize(
    ("loads", "words"),
    [((math.nan, None), "finite"), ((math.inf, None), "finite"), ((-5.0, None), "greater than 0"),
     ((100.0, 90.0), "capacities.0: it holds at 100 and fails at 90")],
)  # fmt: skip
def test_loads_that_cannot_be_are_refused(found, small, tmp_path, loads, words):
    found((1, 100.0, 105.0))
    place = tmp_path / "capacity.json"
    file = json.loads(place.read_text())
    file["capacities"][0].update(zip(("holds", "fails"), loads, strict=True))
    place.write_text(json.dumps(file))
    assert words in said(small, SECTION)


def test_a_file_that_is_not_there_is_named(small):
    assert "there is no file 'capacity.json'" in said(small, SECTION)


def test_whose_instances_count_is_carried(found, small):
    found((1, 100.0, 105.0))
    changed = (SECTION[0], SECTION[1].replace("least: 0", "scaled: Deployment/shop"))
    assert small(changed).treatments[0].spec.demand.scaled == "Deployment/shop"


@pytest.mark.parametrize("name", DEMAND_VARIABLES)
def test_variables_of_demand_need_one(small, name):
    with pytest.raises(DesignError) as caught:
        small(("seed: 1\n", f"seed: 1\nslo: {{{name}: 1}}\n"))
    assert any("with `demand`, and there is none" in one.message for one in caught.value.problems)
