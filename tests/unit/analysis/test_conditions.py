"""What claims rest on is said from plan and records, whether or not anything went wrong."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from support.make_results import TreatmentModel, make_results
from support.plans import make_plan
from towtank.analysis import analyse
from towtank.analysis.conditions import conditions
from towtank.analysis.model import RunSummary, TreatmentSummary
from towtank.design.model import Fixture, Reset
from towtank.design.plan import Plan
from towtank.faults.model import Fault
from towtank.platforms.local_config import LocalConfig
from towtank.store import Results

OURS = LocalConfig.model_validate({"platform": "local", "command": ["app"]})
"""Something that Towtank deploys; `make_plan` makes deployments that were there before."""


def summary(name="one", n=8, **extra):
    base = {"n_invalid": 0, "n_collapsed": 0, "n_degraded": 0, "instances": {}} | extra
    return TreatmentSummary(
        treatment_id=name, label=name, levels={}, n_valid=n, estimates={}, pooled={}, outcomes={}, statuses={}, **base
    )  # fmt: skip


def run(instrument="valid", number=1):
    return RunSummary(f"r{number}", "one", 1, 1, 1, instrument, "intact", (), {}, {}, {}, {}, 1.0, 1)


def changed(plan: Plan, only: int | None = None, **spec):
    """A plan whose treatments' specifications differ in some fields."""
    treatments = tuple(
        replace(t, spec=t.spec.model_copy(update=spec)) if only in (None, t.index) else t
        for t in plan.treatments
    )
    return replace(plan, treatments=treatments)


def told(plan, topic, *, treatments=(), runs=(), deployments=None):
    found = conditions(plan, (), runs, treatments, deployments or {})
    return [(c.said, c.weakens, c.labels) for c in found if c.topic == topic]


@pytest.mark.parametrize(
    ("reset", "deploy", "said", "weakens"),
    [
        (None, "per-run", "as the deployment brings it, anew for every run", "the run before"),
        (None, "per-block", "not reset", "may depend on those before"),
        (Reset(run="restore.sh"), "per-run", "reset before every run, not verified", "taken on trust"),
        (Reset(run="restore.sh", verify={"pages": 3}), "once", "reset before every run, and verified", ""),
    ],
)
def test_the_state_of_the_data(reset, deploy, said, weakens):
    plan = changed(make_plan(), reset=reset, deploy=deploy, deployment=OURS)
    ((what, means, labels),) = told(plan, "data state")
    assert what.startswith(said)
    assert weakens in means
    assert bool(means) == bool(weakens)
    assert labels == ()


def test_treatments_are_named_where_they_differ():
    plan = changed(make_plan(), only=0, reset=Reset(run="restore.sh", verify={"pages": 3}))
    assert [labels for _, _, labels in told(plan, "data state")] == [("one",), ("two",)]


@pytest.mark.parametrize(
    ("deploy", "times", "said", "weak"),
    [
        ("per-run", 8, "deployed anew for every run (8 times)", False),
        ("per-block", None, "deployed anew for every block", False),
        ("once", 1, "deployed once, for all runs (1 time)", True),
        ("per-block", 1, "deployed anew for every block (1 time)", True),
    ],
)
def test_how_long_deployments_lived(deploy, times, said, weak):
    plan = changed(make_plan(("one",)), deploy=deploy, deployment=OURS)
    ((what, means, _),) = told(plan, "lifetime", deployments={"one": times} if times else None)
    assert what == said
    assert ("this deployment only" in means) == weak


@pytest.mark.parametrize("deploy", ["per-run", "once"])
def test_what_was_there_before_was_not_deployed_anew(deploy):
    """On the platform `external` nothing is deployed, whatever `deploy` says: its data go on from run to run."""
    plan = changed(make_plan(("one",)), deploy=deploy)
    assert told(plan, "lifetime", deployments={"one": 8}) == [
        (
            "not deployed: it was there before, for all runs",
            "certainty is about this deployment only, not about another one made the same way",
            (),
        )
    ]
    ((said, means, _),) = told(plan, "data state")
    assert said == "not reset: a run starts where the one before it ended"
    assert means == "a run may depend on those before it"


def test_fixtures_carry_over():
    kept = {"database": Fixture(), "cache": Fixture(lifetime="block"), "queue": Fixture()}
    lines = told(changed(make_plan(), fixtures=kept), "lifetime")
    assert "shared by the runs of the whole experiment: database, queue" in [said for said, _, _ in lines]
    assert "shared by the runs of a block: cache" in [said for said, _, _ in lines]


def test_where_the_load_came_from():
    plan = make_plan()
    generator = plan.treatments[0].spec.generator
    elsewhere = generator.model_copy(update={"where": ("ssh://a", "ssh://b"), "workers": 2})
    inside = generator.model_copy(update={"where": "cluster", "workers": 4})
    assert told(plan, "load generator")[0][0] == "1 worker on the machine that carried the experiment out"
    assert told(changed(plan, generator=elsewhere), "load generator")[0][0] == "2 workers on 2 other machines"
    said, weakens, _ = told(changed(plan, generator=inside), "load generator")[0]
    assert said == "4 workers in the cluster"
    assert "share nodes" in weakens


def test_faults_and_proxies_are_stand_ins():
    delay = Fault(kind="delay", at="1s", options={"between": "a>b"})
    none = Fault(kind="none", at="1s")
    plan = changed(make_plan(), only=0, faults=(delay,))
    lines = told(plan, "stand-ins")
    assert lines[0][0] == "faults are made on purpose: delay"
    assert lines[0][2] == ("one",)
    assert lines[1][0].startswith("a proxy stands on the ways")
    assert lines[1][2] == ()
    assert told(changed(make_plan(), faults=(none,)), "stand-ins") == []


@pytest.mark.parametrize(
    ("scaling", "names"),
    [({"kpa": {}}, ["Knative (KPA)"]), ({"openwhisk": {}}, ["OpenWhisk"]), ({"fixed": 2}, []), (None, [])],
)
def test_an_emulated_autoscaler_is_a_stand_in(scaling, names):
    scaled = LocalConfig.model_validate({"platform": "local", "command": ["app"], "scaling": scaling})
    found = [said for said, _, _ in told(changed(make_plan(), deployment=scaled), "stand-ins")]
    expected = [f"an emulation of {name}, with processes of one machine as its instances" for name in names]
    assert [said for said in found if "emulation" in said] == expected


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        (("a", "a"), ["the same machine, versions and engine for all runs"]),
        (("a", "b"), ["2 different ones"]),
        (("a", ""), ["not known of 1 of 2 runs"]),
        (("", ""), ["not known: no run says on which machine and with which versions it was made"]),
        (("a", "b", ""), ["not known of 1 of 3 runs", "2 different ones"]),
        ((), []),
    ],
)
def test_environments_that_no_run_tells_of_are_not_one(digests, said):
    counted = [
        SimpleNamespace(environment_digest=digest, treatment_label="one", deployment={}) for digest in digests
    ]
    found = conditions(make_plan(), counted, (), (), {})
    assert [c.said for c in found if c.topic == "environment"] == said


def test_collapses_are_counted_and_their_absence_is_said():
    fallen = told(make_plan(), "collapses", treatments=(summary("one"), summary("two", n_collapsed=3)))
    assert [(said, labels) for said, _, labels in fallen] == [("in 3 of 8 runs", ("two",))]
    assert told(make_plan(), "collapses", treatments=(summary("one"),)) == [("none", "", ())]
    assert told(make_plan(), "collapses", treatments=(summary("one", n=0),)) == []


def test_what_the_instrument_spoiled():
    runs = [run(), run("invalid", 2), run("suspect", 3), run("suspect", 4)]
    ((said, weakens, _),) = told(make_plan(), "instrument", runs=runs)
    assert said == "1 of 4 left out as invalid and 2 of 4 kept although suspect"
    assert weakens
    assert told(make_plan(), "instrument", runs=[run()])[0][:2] == ("1 of 1 attempts are valid", "")
    cut_off = [run(), run("incomplete", 2)]
    assert told(make_plan(), "instrument", runs=cut_off)[0][0] == "1 of 2 cut off before they were judged"
    assert told(make_plan(), "instrument") == []


def test_order():
    assert told(make_plan(), "order")[0][:2] == ("randomized blocks, seed 7", "")
    assert "drifted" in told(make_plan(order="listed"), "order")[0][1]


def test_they_are_part_of_the_analysis(tmp_path):
    treatments = {"one": TreatmentModel(), "two": TreatmentModel(collapsed=(1,), invalid=(2,))}
    folder = make_results(
        tmp_path / "results", treatments=treatments, blocks=2, rate_per_s=10.0, duration_s=2.0
    )
    found = {c.topic: c for c in analyse(Results.open(folder)).conditions}
    assert {"data state", "lifetime", "load generator", "order", "collapses", "instrument"} <= set(found)
    assert found["collapses"].labels == ("two",)
    assert "invalid" in found["instrument"].said


@pytest.mark.parametrize("ways", [("node_port", "node_port"), ("node_port", "ingress"), (None, None)])
def test_the_way_into_a_cluster_is_said(ways):
    counted = [
        SimpleNamespace(
            treatment_label=label,
            environment_digest="",
            deployment={"instances": [{"name": "app-0", "way": way} if way else "app-0"]},
        )
        for label, way in zip(("one", "two"), ways, strict=True)
    ]
    found = [c for c in conditions(make_plan(), counted, (), (), {}) if c.topic == "way in"]
    assert [c.labels for c in found] == ([()] if ways[0] == ways[1] else [("one",), ("two",)])[: len(found)]
    assert len(found) == len(set(filter(None, ways)))
    assert all("balance" in c.said and c.weakens for c in found)
