"""`plan --power`: what an experiment needs, judged by runs made before."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.make_results import TreatmentModel, make_results
from support.plans import make_plan
from towtank.analysis.planning import Need, Needs, needs
from towtank.analysis.power import blocks_to_resolve, upper_sd
from towtank.cli.plan_power import lines
from towtank.store import Results

SMALL = {"duration_s": 2.0, "rate_per_s": 20.0}


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    path = make_results(
        tmp_path_factory.mktemp("pilot") / "results",
        treatments={"one": TreatmentModel(run_sd=0.2), "two": TreatmentModel(run_sd=0.2)},
        blocks=4, **SMALL,
    )  # fmt: skip
    return Results.open(path)


def test_it_is_the_scatter_of_the_pilots_blocks(pilot):
    plan = make_plan(("one", "two"), blocks=6, primary=["p95"])
    found = needs(plan, pilot, effect=0.1)
    [claim] = found.claims
    from towtank.analysis import analyse

    runs = {(r.treatment_id, r.block): r.values["p95"].value for r in analyse(pilot).runs}
    d = [math.log(runs["two", b] / runs["one", b]) for b in range(1, 5)]
    assert claim.n == 4
    assert claim.sd == pytest.approx(np.std(d, ddof=1))
    assert claim.enough == blocks_to_resolve(claim.sd, difference=math.log(1.1), confidence=0.95)
    assert claim.safe == blocks_to_resolve(
        upper_sd(claim.sd, 3, assurance=0.8), difference=math.log(1.1), confidence=0.95
    )
    assert claim.safe > claim.enough
    assert 0 < claim.power < 1
    assert found.safe == claim.safe


def test_more_claims_need_more_blocks(pilot):
    one = needs(make_plan(("one", "two"), primary=["p95"]), pilot, effect=0.1).claims[0]
    several = needs(make_plan(("one", "two"), primary=["p95", "throughput"]), pilot, effect=0.1)
    assert several.level == pytest.approx(0.975)
    assert several.claims[0].enough > one.enough


def test_a_pilot_of_other_treatments_lends_its_scatter(pilot):
    plan = make_plan(("one", "three"), primary=["p95"])
    [claim] = needs(plan, pilot, effect=0.1).claims
    assert claim.sd > 0
    assert claim.n == 8
    assert "single treatments" in claim.reason


def test_what_cannot_be_said_says_why(pilot, tmp_path):
    plan = make_plan(("one", "two"), primary=["collapsed"])
    [claim] = needs(plan, pilot, effect=0.1).claims
    assert (claim.sd, claim.enough) == (None, None)
    assert "counted" in claim.reason
    single = make_results(tmp_path / "one", treatments={"one": TreatmentModel()}, blocks=1, **SMALL)
    [claim] = needs(make_plan(("one", "two")), Results.open(single), effect=0.1).claims
    assert claim.enough is None
    assert "two runs that vary" in claim.reason
    with pytest.raises(ValueError, match="above 0"):
        needs(plan, pilot, effect=0.0)


def test_what_is_said_of_them_on_the_terminal():
    """Enough, the safe side, the scatter and what is planned; a claim that cannot be judged has its reason."""
    claim = Need("p95", "two", "one", "log", 4, sd=0.2, enough=34, safe=81, power=0.25)
    said = lines(Needs(effect=0.1, level=0.975, planned=6, claims=(claim,)))
    assert said[0] == "to find a true difference of 10 % with 80 % power, each interval at 97.5 %:"
    assert said[1:] == [
        "  p95, two against one: 34 blocks, 81 blocks on the safe side (scatter 20 % in 4); 6 find it with 25 % power",
        "  planned are 6 blocks; 81 are on the safe side, so they are too few to be sure",
    ]
    silent = Need("cold_p95", "two", "one", "log", 0, reason="the pilot has no runs of two")
    only = lines(Needs(effect=0.1, level=0.95, planned=90, claims=(silent,)))
    assert only[1:] == ["  cold_p95, two against one: cannot be said: the pilot has no runs of two"]
