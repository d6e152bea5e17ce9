"""Threats to validity, each from the record that shows it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from support.plans import make_plan
from towtank.analysis import Quantity
from towtank.analysis.comparison import compare
from towtank.analysis.deployments import deployments_of
from towtank.analysis.engine_findings import engine_findings
from towtank.analysis.findings import findings
from towtank.analysis.headline import headline, is_decided
from towtank.analysis.model import TreatmentSummary
from towtank.design.model import Adaptive
from towtank.store.run_record import Reason, RunRecord, Verdicts
from towtank.store.schemas import EVENTS


def record(treatment="one", block=1, *, attempt=1, reasons=(), **extra):
    verdicts = Verdicts(
        instrument=extra.pop("instrument", "valid"), system=extra.pop("system", "intact"),
        instrument_reasons=tuple(reasons),
    )  # fmt: skip
    return RunRecord(
        state="complete", run_id=f"b{block:02d}-{treatment}-a{attempt}", planned_id=f"b{block:02d}-{treatment}",
        experiment="small", treatment_id=treatment, treatment_label=treatment, levels={}, block=block, position=1,
        attempt=attempt, seed=1, started_utc="2026-01-05T09:00:00Z", verdicts=verdicts, **extra,
    )  # fmt: skip


def summary(treatment="one", n=8, **extra):
    base = {"n_invalid": 0, "n_collapsed": 0, "n_degraded": 0, "instances": {}} | extra
    return TreatmentSummary(
        treatment_id=treatment, label=treatment, levels={}, n_valid=n, estimates={}, pooled={}, outcomes={},
        statuses={}, **base,
    )  # fmt: skip


def found(plan=None, records=(), treatments=None, comparisons=(), **extra):
    plan = plan or make_plan()
    listed = [summary(t.id) for t in plan.treatments] if treatments is None else treatments
    got = findings(plan, records, (), listed, comparisons, **extra)
    return {f.name: f for f in got}


def complete(plan):
    return [record(p.treatment_id, p.block) for p in plan.runs]


def test_a_clean_experiment_has_no_warnings():
    plan = make_plan()
    got = found(plan, complete(plan))
    assert {f.severity for f in got.values()} <= {"info"}
    assert set(got) == {"data_state"}


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (make_plan(closed=True), "closed_loop"),
        (make_plan(warmup=0), "no_warmup"),
        (make_plan(order="listed"), "listed_order"),
        (make_plan(answered=False), "no_answer_declared"),
        (make_plan(deploy="once"), "one_deployment_each"),
    ],
)
def test_threats_of_the_design(plan, name):
    assert name in found(plan, complete(plan))


def test_same_deployment_twice_is_no_split_plot():
    levels = {"a": {"deployment": "x", "users": 1}, "b": {"deployment": "x", "users": 2}}
    plan = make_plan(levels, baseline="a", deploy="once")
    same = plan.treatments[0].spec.deployment
    from dataclasses import replace

    shared = tuple(replace(t, spec=t.spec.model_copy(update={"deployment": same})) for t in plan.treatments)
    assert "one_deployment_each" not in found(replace(plan, treatments=shared), complete(plan))


def on(run, *before):
    """Of the same deployment as the runs before it."""
    return run.model_copy(update={"deployment": {"lifetime": "experiment", "runs_before": list(before)}})


def test_deployments_are_counted_from_records_and_not_from_the_plan():
    first = [record("one", block) for block in (1, 2, 3)]
    other = [record("two", block) for block in (1, 2, 3)]
    records = [
        on(first[0]), on(first[1], first[0].run_id), on(first[2]),  # interrupted after the second run
        on(other[0]), on(other[1], other[0].run_id), on(other[2], other[0].run_id, other[1].run_id),
    ]  # fmt: skip
    assert deployments_of(records) == {"one": 2, "two": 1}
    assert deployments_of([record("one", 1)]) == {}
    got = found(make_plan(deploy="once"), records, deployments=deployments_of(records))["one_deployment_each"]
    assert "two was deployed once, one twice" in got.message
    once = found(make_plan(deploy="once"), records[3:], deployments={"one": 1, "two": 1})
    assert "each was deployed once, for all runs" in once["one_deployment_each"].message


def test_limits_that_were_not_applied():
    limits = {
        "cpu": {"asked": 0.5, "applied": False, "note": "no cgroup is writable"},
        "memory": {"asked": 2**26, "applied": True, "note": ""},
    }
    got = found(records=[record(deployment={"instances": [{"name": "app-0", "limits": limits}]})])
    assert (
        got["limit_not_applied"].message == "cpu of one was asked for and not applied: no cgroup is writable"
    )
    assert got["limit_not_applied"].runs == ("b01-one-a1",)


def test_engine_findings_are_read_from_events_and_grouped():
    rows = [
        {
            "t_us": 1,
            "source": "engine",
            "kind": "in_flight_bound_reached",
            "instance": "",
            "message": m,
            "detail": d,
        }
        for m, d in (("200 in flight", '{"advice": "raise it"}'), ("again", "{}"))
    ]
    rows += [
        {"t_us": 2, "source": "local", "kind": "crashed", "instance": "app-0", "message": "", "detail": "{}"},
        {"t_us": 3, "source": "engine", "kind": "late", "instance": "", "message": "", "detail": "torn {"},
    ]
    said = engine_findings(pa.Table.from_pylist(rows, schema=EVENTS))
    assert [s.name for s in said] == ["in_flight_bound_reached", "late"]
    got = found(said={"b01-one-a1": said, "b02-one-a1": said})
    assert got["in_flight_bound_reached"].message == "The load engine reported in 2 runs: “200 in flight”."
    assert got["in_flight_bound_reached"].advice == "raise it"
    assert got["in_flight_bound_reached"].runs == ("b01-one-a1", "b02-one-a1")
    assert got["late"].message.endswith("“late”.")


def test_lag():
    got = found(records=[record(engine={"self": {"lag_p99_us": 2500}})])["engine_lag"]
    assert "2.5 ms" in got.message
    assert "engine_lag" not in found(records=[record(engine={"self": {"lag_p99_us": 200}})])


def test_reasons_of_the_instrument():
    reason = Reason(
        name="cpu_stolen", value=0.2, threshold=0.1, message="20 % stolen", advice="another machine"
    )
    got = found(records=[record(instrument="suspect", reasons=[reason])])["cpu_stolen"]
    assert got.message == "1 run suspect (kept, with care): 20 % stolen"


def invalid(block, *reasons):
    return record("one", block, instrument="invalid", reasons=reasons)


def reason(name, message, **extra):
    return Reason(name=name, message=message, **extra)


def test_what_leaves_a_run_suspect_is_not_told_as_why_it_is_invalid():
    mild = reason("busy_before", "a little busy", severe=False)
    got = found(records=[invalid(1, reason("foreign_load", "40 % foreign"), mild)])
    assert got["foreign_load"].message.startswith("1 run invalid")
    assert "busy_before" not in got


def test_without_a_valid_run_the_headline_names_the_cause():
    plan = make_plan()
    foreign = reason("foreign_load", "others used 40 %", advice="stop them")
    mild = reason("busy_before", "a little busy", severe=False)
    records = [
        invalid(1, foreign, mild),
        invalid(2, foreign, mild),
        invalid(3, reason("engine_late", "late")),
    ]
    told = headline(plan, [summary(n=0, n_invalid=3)], (), records)
    assert told.startswith(
        "No answer: all 3 judged runs are invalid, so nothing can be said about the system."
    )
    assert told.endswith(
        "Commonest reasons: foreign load in 2 (others used 40 %) and engine late in 1 (late). Advice: stop them."
    )


@pytest.mark.parametrize(("blocks", "advice"), [(4, "Use 8 repetitions"), (8, "Run the experiment again")])
def test_repetitions_that_were_declared_are_not_advised(blocks, advice):
    got = found(make_plan(blocks=blocks), treatments=[summary(n=0), summary("two", n=1)])
    assert got["few_blocks"].advice.startswith(advice)


def test_missing_runs_and_mixed_environments():
    plan = make_plan(blocks=2)
    got = found(plan, [record("one", 1, environment_digest="a"), record("two", 1, environment_digest="b")])
    assert got["missing_runs"].message.startswith("2 of 4 planned runs")
    assert got["missing_runs"].runs == ("b02-one", "b02-two")
    assert "2 different environments" in got["mixed_environments"].message


def test_uneven_spread():
    got = found(
        treatments=[summary(instances={"a": 900, "b": 100}), summary("two", instances={"a": 5, "b": 4})]
    )
    assert got["uneven_spread"].message.startswith("a of one got 90% of the requests")


def test_few_blocks_and_damage():
    got = found(treatments=[summary(n=3), summary("two", n=8)], damage=["runs/x/run.json: torn"])
    assert "only 3 valid run(s)" in got["few_blocks"].message
    assert "torn" in got["damaged_files"].message


def test_at_most_reached():
    plan = make_plan(adaptive=Adaptive(at_least=8, at_most=8, until={"p95": "5%"}))
    assert "at_most_reached" in found(plan, complete(plan))


def test_a_check_that_disagrees_is_told():
    """One block carries the t test of eight; the permutation does not confirm at the level of a family of two."""
    import numpy as np

    plan = make_plan(("one", "two", "three", "four", "five", "six", "seven", "eight"), matters=0.001)
    base = np.ones(8)
    rng = np.random.default_rng(1)
    values = {
        "p95": {
            t.id: {
                i + 1: Quantity(float(v))
                for i, v in enumerate(base * (0.7 * np.exp(rng.normal(0, 0.02, 8)) if t.index else 1))
            }
            for t in plan.treatments
        }
    }
    comparisons = compare(plan, values)
    assert all(c.verdict == "better" for c in comparisons)
    got = found(plan, complete(plan), comparisons=comparisons)["check_disagrees"]
    assert "0.0078" in got.message  # 2 / 2⁸ cannot reach 0.05 / 7
    assert is_decided(comparisons)
    told = headline(plan, [summary(t.id) for t in plan.treatments], comparisons)
    assert told.endswith("4 more contrasts, are in the table.")
    unknown = [replace(c, verdict="undecided") for c in comparisons]
    told = headline(plan, [summary(t.id) for t in plan.treatments], unknown)
    assert (
        told == "Undecided: none of 7 contrasts can be told from chance; the table says what each would take."
    )


def test_ranking_refused_is_told():
    plan = make_plan(primary=["p95_ok"])
    values = {
        "p95_ok": {
            t: {b: Quantity(1.0 + b * 0.01 + i) for b in range(8)} for i, t in enumerate(("one", "two"))
        },
        "goodput": {"one": {b: Quantity(1.0) for b in range(8)}, "two": {b: Quantity(0.5) for b in range(8)}},
    }
    comparisons = compare(plan, values)
    assert "ranking_refused" in found(plan, complete(plan), comparisons=comparisons)


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ("", "every estimate."),
        (
            "a result of this treatment: it could not serve the load",
            "every estimate. It could not serve the load.",
        ),
        ("a result of this treatment; was the address right?", "every estimate. Was the address right?"),
        ("a result of this treatment, if nothing else cut it", "every estimate, if nothing else cut it."),
        ("look at its log", "every estimate. Look at its log."),
    ],
)
def test_a_result_of_the_treatment_is_said_once(advice, said):
    reason = Reason(name="goodput_low", value=0.1, threshold=0.5, message="goodput fell", advice=advice)
    one = record()
    verdicts = one.verdicts.model_copy(update={"system": "collapsed", "system_reasons": (reason,)})
    got = found(records=[one.model_copy(update={"verdicts": verdicts})], treatments=[summary(n_collapsed=1)])
    assert got["collapsed"].advice == f"This is a result of the treatment and is part of {said}"
