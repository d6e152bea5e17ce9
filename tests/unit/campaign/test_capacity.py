"""The search for capacities over stored runs: what it plans next, how runs are judged, what it says in the end."""

import json
from dataclasses import dataclass, field, replace

import pytest

from support import capacities
from support.plans import make_plan
from support.run_tables import FakeRun, Req
from towtank.analysis import capacity as words
from towtank.analysis.capacity import Came, Rules, outcome_of
from towtank.analysis.load_line import ladder
from towtank.campaign.capacity import CapacitySearch
from towtank.design.capacity_file import CapacityFile, read_capacities
from towtank.design.laddered import check_ladderable, laddered
from towtank.design.model import OpenLoad
from towtank.errors import DesignError, NewerVersionError, ResultsError

SLO = {"p95": 0.3}
RULES = Rules(0.05, 5, 100)
SLOW = FakeRun([Req(2_000_000, 900_000)])
FAST = FakeRun([Req(2_000_000, 100_000)])


def the_plan(**options):
    return make_plan(("gke", "whisk"), blocks=1, slo=SLO, answered=False, **options)


def over(plan, rungs=None, rules=RULES):
    found = rungs or ladder(1, 1000)
    return CapacitySearch(laddered(plan, {one.id: found for one in plan.treatments}, rules="5%"), rules)


@dataclass
class Stored:
    """Results of deployments that carry a load each, without noise."""

    search: CapacitySearch
    carries: dict[str, float]
    spoiled: dict[str, list[FakeRun]] = field(default_factory=dict)

    def attempts(self, planned_id):
        if planned_id in self.spoiled:
            return self.spoiled[planned_id]
        base, rung = self.search.laddered.place(planned_id.split("-", 1)[1])
        return [FAST if self.search.laddered.rungs[base][rung] <= self.carries[base] else SLOW]


def carry_out(search, stored):
    plan = search.first_plan()
    while (longer := search.next_plan(stored, plan)) is not None:
        plan = longer
    return plan


def test_each_deployment_gets_its_own_search_and_they_share_rounds():
    search = over(the_plan())
    plan = carry_out(search, Stored(search, {"gke": 410.0, "whisk": 205.0}))
    gke, whisk = search.capacities(Stored(search, {"gke": 410.0, "whisk": 205.0}), plan)
    assert gke.holds <= 410 < gke.fails == pytest.approx(gke.holds * 1.05, rel=1e-3)
    assert whisk.holds <= 205 < whisk.fails
    assert (gke.why, gke.end, gke.model) == ({"p95": 5}, "found", "open")
    first = [run.treatment_id for run in plan.runs if run.block == 1]
    assert [one.split("-load-")[0] for one in first] == ["gke", "whisk"]
    assert len({run.id for run in plan.runs}) == len(plan.runs)


def test_the_loads_are_in_the_treatments_and_only_visited_ones_are_kept():
    search = over(the_plan())
    plan = carry_out(search, Stored(search, {"gke": 410.0, "whisk": 205.0}))
    kept = search.laddered.only_visited(plan)
    assert {t.id for t in kept.treatments} == {run.treatment_id for run in plan.runs}
    assert all(t.spec.workload.load.rate == t.levels["load"] for t in kept.treatments)
    again = over(the_plan())
    assert again.laddered.plan.digest == plan.digest
    assert over(the_plan(), rungs=ladder(2, 1000)).laddered.plan.digest != plan.digest


def test_users_stay_whole_and_come_in_the_same_time():
    plan = the_plan(closed=True)
    spec = plan.treatments[0].spec
    load = spec.workload.load.model_copy(update={"spawn_per_s": 1.0})
    spawning = replace(
        plan,
        treatments=(
            replace(
                plan.treatments[0],
                spec=spec.model_copy(update={"workload": spec.workload.model_copy(update={"load": load})}),
            ),
        ),
    )
    search = over(spawning, rungs=ladder(1, 100, whole=True))
    loads = [t.spec.workload.load for t in search.laddered.plan.treatments]
    assert all(
        isinstance(one.users, int) and one.users / one.spawn_per_s == pytest.approx(2) for one in loads
    )


def test_a_search_goes_on_from_what_is_stored():
    search = over(the_plan())
    stored = Stored(search, {"gke": 33.0, "whisk": 700.0})
    whole = carry_out(search, stored)
    for until in (1, 5, 12):
        cut = replace(whole, runs=tuple(run for run in whole.runs if run.block <= until))
        fresh = over(the_plan())
        longer = fresh.next_plan(Stored(fresh, stored.carries), cut)
        assert longer.runs == tuple(run for run in whole.runs if run.block <= until + 1)


def reasoned(*names):
    """Make a run that the instrument spoiled, for these reasons."""
    run = FakeRun([Req(2_000_000, 100_000)], instrument="invalid")
    verdicts = {
        "instrument": "invalid",
        "system": "intact",
        "instrument_reasons": [{"name": name, "message": name} for name in names],
    }

    class Spoiled(FakeRun):
        @property
        def record(self):
            return type(run.record).model_validate({**run.record.model_dump(), "verdicts": verdicts})

    return Spoiled(run.requests)


def test_runs_are_judged_by_objectives_collapse_and_generator():
    assert outcome_of(FAST, SLO) == Came("held")
    assert outcome_of(SLOW, SLO) == Came("failed", "p95")
    collapsed = FakeRun([Req(2_000_000, 100_000)], system="collapsed")
    assert outcome_of(collapsed, SLO) == Came("failed", "collapsed")
    assert outcome_of(reasoned("engine_late"), SLO) == Came("generator", "engine_late")
    assert outcome_of(reasoned("engine_late", "wrong_baseline"), SLO) is None
    assert outcome_of(reasoned("telemetry_gap"), SLO) is None
    assert outcome_of(FakeRun([], state="running"), SLO) is None


def test_an_objective_without_a_value_is_an_error():
    with pytest.raises(ResultsError, match=r"pods_ready of run .* has no value"):
        outcome_of(FAST, {"pods_ready": 1.0})


def test_a_spoiled_run_stops_its_own_search_only():
    search = over(the_plan())
    plan = search.first_plan()
    stuck = plan.runs[0].id
    stored = Stored(search, {"gke": 410.0, "whisk": 205.0}, {stuck: [reasoned("wrong_baseline")]})
    while (longer := search.next_plan(stored, plan)) is not None:
        plan = longer
    assert [one.deployment for one in search.capacities(stored, plan)] == ["whisk"]
    assert [run.id for run in plan.runs if run.treatment_id.startswith("gke")] == [stuck]
    stored.spoiled[stuck].append(FAST)  # repeated, and valid: it goes on
    assert search.next_plan(stored, plan) is not None


def test_where_the_generator_ends_that_is_said():
    search = over(the_plan())

    class Ending(Stored):
        def attempts(self, planned_id):
            _, rung = search.laddered.place(planned_id.split("-", 1)[1])
            ended = search.laddered.rungs["gke"][rung] > 100
            return [reasoned("engine_late")] * 3 if ended else super().attempts(planned_id)

    stored = Ending(search, {"gke": 410.0, "whisk": 50.0})
    gke, whisk = search.capacities(stored, carry_out(search, stored))
    assert (gke.end, gke.fails) == ("generator", None)
    assert gke.holds <= 100 < gke.holds * 1.06
    assert "at least" in words.sentence(gke)
    assert "the generator ends first" in words.sentence(gke)
    assert whisk.end == "found"


def capacity(**changes):
    known = {
        "treatment": "gke-50", "label": "GKE-50", "model": "closed", "why": {"p95": 5}, "lowest": 10.0, "runs": 23,
        "slo": SLO,
    }  # fmt: skip
    return capacities.capacity(**{**known, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "GKE-50 carries 410 users (holds at 410, fails at 430: p95 in 5 of 5 runs)"),
        ({"end": "top", "fails": None}, "carries at least 410 users: the highest load of the ladder"),
        ({"end": "bottom", "holds": None, "fails": 10.0}, "does not carry 10 users, the lowest load"),
        ({"end": "budget", "fails": None}, "at least 410 users: no load was refuted within 23 runs"),
        ({"end": "budget", "holds": None, "fails": None}, "nothing was confirmed within 23 runs"),
        ({"end": "generator", "holds": None, "fails": None}, "the generator ends before 10 users"),
        ({"end": "generator", "holds": None, "fails": 10.0}, "does not carry 10 users, the lowest load"),
        (
            {"end": "bottom", "holds": None, "fails": 11.0, "undecided": (10.0,)},
            "GKE-50: no load was confirmed, down to 10 users, the lowest of the ladder",
        ),
    ],
)
def test_every_end_has_its_sentence(changes, said):
    assert said in words.sentence(capacity(**changes))


def test_what_contradicts_the_bounds_stands_beside_them():
    told = words.remarks(capacity(undecided=(420.0,), against=((450.0, 1, 1), (300.0, 2, 3))))
    assert told[0].startswith("at 420 users the confirmations disagreed")
    assert "above the bounds, at 450 users, 1 of 1 runs held" in told[1]
    assert "below the bounds, at 300 users, 2 of 3 runs held" in told[2]


def test_a_capacity_is_a_factor_of_another_of_the_same_kind_only():
    whisk = capacity(label="OpenWhisk", holds=205.0, fails=215.0)
    assert words.factor(capacity(), whisk) == "GKE-50 carries 2 times what OpenWhisk carries (1.91 to 2.1)"
    assert "no load was confirmed of OpenWhisk" in words.factor(
        capacity(), capacity(label="OpenWhisk", holds=None)
    )
    assert words.factor(capacity(), capacity(label="b", model="open")).endswith(
        "no factor, since one was searched by users, the other by arrivals/s"
    )
    others = words.factor(capacity(), capacity(label="b", slo={"p95": 0.5, "goodput": 0.999}))
    assert "different objectives" in others
    assert "against p95 500 ms and goodput 99.9 %" in others
    assert "{" not in others


def test_a_factor_says_where_it_may_be_more_or_less():
    whisk, endless = (
        capacity(label="Whisk", holds=205.0, fails=215.0),
        capacity(label="top", holds=410.0, fails=None),
    )
    assert words.factor(endless, whisk) == (
        "top carries 2 times what Whisk carries, or more (at least 1.91): of top no load was refuted"
    )
    assert words.factor(whisk, endless) == (
        "Whisk carries 0.5 times what top carries, or less (at most 0.524): of top no load was refuted"
    )
    assert words.factor(endless, endless).endswith("or more, or less: no load was refuted of either")


def test_the_file_says_all_and_is_read_back(tmp_path):
    file = CapacityFile(experiment="x-capacity", digest="d", capacities=(capacity(),))
    place = tmp_path / "capacity.json"
    place.write_text(file.to_json())
    assert read_capacities(tmp_path) == read_capacities(place) == file
    place.write_text(json.dumps({**json.loads(file.to_json()), "version": 3}))
    with pytest.raises(NewerVersionError, match="version 3"):
        read_capacities(place)
    place.write_text('{"version": 1, "experiment": "x"}')
    with pytest.raises(ResultsError, match="cannot be used: digest"):
        read_capacities(place)
    place.unlink()
    with pytest.raises(ResultsError, match="there is no"):
        read_capacities(tmp_path)


def test_what_has_no_ladder_is_refused_with_every_reason():
    plan = make_plan(("gke",), blocks=1, answered=False)
    spec = plan.treatments[0].spec
    staged = OpenLoad.model_validate({"model": "open", "stages": [{"rate": 5, "hold": "2s"}]})
    changed = spec.model_copy(update={"workload": spec.workload.model_copy(update={"load": staged})})
    with pytest.raises(DesignError) as caught:
        check_ladderable(replace(plan, treatments=(replace(plan.treatments[0], spec=changed),)), "x.yaml")
    assert [one.path for one in caught.value.problems] == ["slo", "workloads.shop.load"]
    check_ladderable(the_plan(), "x.yaml")


@pytest.mark.parametrize("name", ["cost_per_1000", "timeshare_under", "slow_ratio"])
def test_an_objective_that_one_run_alone_does_not_say_is_refused(name):
    plan = make_plan(("gke",), blocks=1, slo={**SLO, name: 1.0}, answered=False)
    with pytest.raises(DesignError, match="by its requests and telemetry alone") as caught:
        check_ladderable(plan, "x.yaml")
    assert [problem.path for problem in caught.value.problems] == [f"slo.{name}"]
