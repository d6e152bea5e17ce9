"""Responses over load: which treatments make a curve, where it turns, how throughput scales."""

from dataclasses import replace

import numpy as np
import pytest

from support import capacities
from support.plans import make_plan
from towtank.analysis.load_curves import load_curves, load_points, scaling_laws, variables_of
from towtank.analysis.load_levels import load_families
from towtank.analysis.model import Quantity, RunSummary

SLO = {"p95": 0.3, "goodput": 0.99}


def at_loads(loads, *, closed=False, deployments=("gke",), slo=SLO, journeys=None):
    """A plan with a factor that sets the load, and perhaps nothing else."""
    names = {f"{d}-{load:g}": {"deployment": d, "users": load} for d in deployments for load in loads}
    plan = make_plan(names, blocks=2, slo=slo, answered=False, closed=closed)
    changed = []
    for one in plan.treatments:
        load = {"users" if closed else "rate": one.levels["users"]}
        workload = one.spec.workload
        workload = workload.model_copy(update={"load": workload.load.model_copy(update=load)})
        same = plan.treatments[0].spec.deployment
        spec = one.spec.model_copy(update={"workload": workload, "deployment": same})
        changed.append(replace(one, spec=spec))
    return replace(plan, treatments=tuple(changed))


def runs_of(plan, respond, runs=2):
    """Runs of every treatment whose values are functions of its load."""
    return {
        one.id: [
            RunSummary(
                run_id=f"b0{number}-{one.id}-a1", treatment_id=one.id, block=number, position=1, attempt=1,
                instrument="valid", system="intact", reasons=(), values=respond(float(one.levels["users"]), number),
                outcomes={}, statuses={}, instances={}, window_s=3.0, due=10,
            )
            for number in range(1, runs + 1)
        ]
        for one in plan.treatments
    }  # fmt: skip


def queue(load, number):
    """A response that turns at 60."""
    noise = 1 + 0.01 * (-1) ** number
    p95 = 0.05 * np.exp(0.001 * load + 0.08 * max(0.0, load - 60)) * noise
    above = p95 > 2
    return {
        "p95": Quantity(2.0 if above else p95, above=above),
        "goodput": Quantity(0.9 if above else 1.0),
        "throughput": Quantity(min(load, 70.0) * noise),
    }


def test_treatments_that_differ_in_load_only_are_one_curve():
    (gke, whisk) = load_families(at_loads((10, 20, 40), deployments=("gke", "whisk")))
    assert (gke.label, whisk.label, gke.model) == ("gke", "whisk", "open")
    assert gke.loads == {"gke-10": 10, "gke-20": 20, "gke-40": 40}
    (closed,) = load_families(at_loads((5, 10, 20), closed=True))
    assert (closed.model, closed.pauses) == ("closed", False)


def test_two_loads_or_other_differences_are_no_curve():
    assert load_families(at_loads((10, 20))) == ()
    plan = at_loads((10, 20, 40))
    first = plan.treatments[0]
    other = replace(first, spec=first.spec.model_copy(update={"slo": {"p95": 0.5}}))
    assert load_families(replace(plan, treatments=(other, *plan.treatments[1:]))) == ()
    assert load_families(make_plan(("one", "two", "three"), answered=False)) == ()


def test_every_run_is_a_point_that_kept_its_objective_or_not():
    plan = at_loads((10, 50, 90, 110))
    points = load_points(load_families(plan), runs_of(plan, queue))
    p95 = points[points.variable == "p95"].set_index("load")
    assert p95.loc[10].kept.tolist() == [True, True]
    assert p95.loc[110].kept.tolist() == [False, False]
    assert p95.loc[110].above.all()
    assert points[points.variable == "throughput"].kept.isna().all()
    assert variables_of(load_families(plan)[0]) == ("p95", "goodput", "throughput")
    assert variables_of(load_families(at_loads((1, 2, 3), slo={"goodput": 0.9}))[0])[1] == "p95"


def test_the_load_at_which_latency_turns_is_found_and_what_is_left_out_is_counted():
    plan = at_loads((10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120))
    curves = load_curves(load_families(plan), load_points(load_families(plan), runs_of(plan, queue)), seed=7)
    p95, throughput = curves
    assert [one.variable for one in curves] == ["p95", "throughput"], "goodput is no latency"
    assert p95.turning.low <= 60 <= p95.turning.high
    assert p95.left_out == 2, "both runs at 120 lie among failures"
    assert p95.turning.slope_before < 0.01 < p95.turning.slope_after
    assert throughput.turning.low <= 70 <= throughput.turning.high


def test_a_response_that_does_not_turn_has_no_such_place():
    plan = at_loads((10, 20, 30, 40, 50, 60))
    curves = load_curves(load_families(plan), load_points(load_families(plan), runs_of(plan, queue)), seed=7)
    assert [one.turning.at for one in curves] == [None, None]
    assert all(one.turning.reason for one in curves)


def test_scaling_is_fitted_to_the_same_families_that_are_drawn():
    """Two of one label are told apart by their numbers, and one of them has too few levels for a law."""
    many = at_loads((1, 2, 4, 8, 16), closed=True)
    few = at_loads((1, 2, 4), closed=True, slo={"p95": 0.2})
    renamed = (replace(one, id=f"few-{one.id}") for one in few.treatments)
    both = replace(many, treatments=(*renamed, *many.treatments))
    families = load_families(both)
    assert [one.label for one in families] == ["gke (1)", "gke (2)"]
    (found,) = scaling_laws(families, load_points(families, runs_of(both, law)), ())
    assert found.label == "gke (2)"
    assert found.law.levels == 5


def law(users, number):
    done = 10 * users / (1 + 0.05 * (users - 1) + 0.002 * users * (users - 1))
    return {"throughput": Quantity(done * (1 + 0.002 * (-1) ** number)), "p95": Quantity(0.1)}


def test_throughput_over_users_has_a_law_and_arrivals_have_none():
    plan = at_loads((1, 2, 4, 8, 16, 32, 64), closed=True)
    (found,) = scaling_laws(load_families(plan), load_points(load_families(plan), runs_of(plan, law)), ())
    assert (found.of, found.by) == ("throughput", "users")
    assert found.law.contention.low <= 0.05 <= found.law.contention.high
    assert found.law.crosstalk.low <= 0.002 <= found.law.crosstalk.high
    assert found.law.peak_at == pytest.approx(np.sqrt(0.95 / 0.002), rel=0.1)
    opened = at_loads((1, 2, 4, 8, 16))
    assert (
        scaling_laws(load_families(opened), load_points(load_families(opened), runs_of(opened, law)), ())
        == ()
    )


def capacity(replicas, holds):
    return capacities.capacity(
        treatment=f"r{replicas}", label=f"replicas={replicas}", deployment="app", levels={"replicas": replicas},
        holds=holds, fails=holds * 1.05, slo=SLO,
    )  # fmt: skip


def test_capacity_over_replicas_has_a_law_from_four_numbers_on():
    plan = make_plan(("one",), answered=False)
    points = load_points(load_families(plan), {})
    searched = [capacity(n, 50 * n / (1 + 0.1 * (n - 1))) for n in (1, 2, 4, 8)]
    (found,) = scaling_laws(load_families(plan), points, searched)
    assert (found.label, found.of, found.by) == ("app", "capacity", "replicas")
    assert found.law.contention.value == pytest.approx(0.1, abs=0.01)
    assert any("4 levels are few" in one for one in found.cautions)
    assert any("rungs of a ladder" in one for one in found.cautions)
    assert scaling_laws(load_families(plan), points, searched[:3]) == ()
