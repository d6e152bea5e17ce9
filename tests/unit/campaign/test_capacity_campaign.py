"""A search for capacities carried out as a campaign: real loop, fake engine; resumed, cut short, spoiled."""

from __future__ import annotations

import json

import pytest

from support.campaign_bench import make_plan
from towtank.analysis.capacity import Rules, sentence
from towtank.analysis.load_line import ladder
from towtank.campaign.capacity import CapacitySearch, keep_capacities
from towtank.design.capacity_file import read_capacities
from towtank.design.laddered import laddered
from towtank.errors import ChangedError, Interrupted

SLOW = {"p95_us": 900_000}
LATE = {"lag_p99_us": 900_000}
RUNGS = ladder(20, 700, step=0.25)


def search(*, most_runs=100, repeats=0, slo=None, rungs=RUNGS):
    """Put a ladder under a plan of short runs; two runs confirm."""
    plan = make_plan(
        ("one",), 1, rate=50, slo={"p95": 0.1} if slo is None else slo, max_invalid_repeats=repeats
    )
    return CapacitySearch(laddered(plan, {"one": rungs}, rules="25% 2"), Rules(0.25, 2, most_runs))


def carry_out(bench, searching):
    """Run it, and keep what it found."""
    outcome = bench.run(searching.first_plan(), extension=searching.extension)
    found = searching.capacities(outcome.results, outcome.plan)
    keep_capacities(outcome.results, searching.laddered, found)
    return outcome, found


def stored_plan(bench):
    return json.loads((bench.folder / "plan.json").read_text())


def test_a_search_is_carried_out_and_stored_like_an_experiment(bench):
    bench.engine(everywhere={"above": [[100, SLOW]]})
    outcome, (found,) = carry_out(bench, search())
    assert found.holds <= 100 < found.fails == pytest.approx(1.25 * found.holds, rel=1e-3)
    assert (found.end, found.why, found.runs) == ("found", {"p95": 2}, len(outcome.plan.runs))
    assert read_capacities(bench.folder).capacities == (found,)
    plan = stored_plan(bench)
    assert {t["id"] for t in plan["treatments"]} == {run["treatment_id"] for run in plan["runs"]}
    assert set(bench.verdicts().values()) == {"valid/intact"}
    assert bench.left_behind() == []
    again, _ = carry_out(bench, search())
    assert (again.done, again.kept) == (0, len(outcome.plan.runs)), "nothing is run twice"


def test_a_search_that_was_interrupted_or_cut_short_goes_on_where_it_was(bench):
    bench.engine(everywhere={"above": [[100, {**SLOW, "duration_s": 0.5}]]})
    asked = []

    def ask_during_the_third():
        if len(bench.told.runs) == 3 and not asked:
            asked.append(bench.stop.ask())

    bench.told.during_load = ask_during_the_third
    with pytest.raises(Interrupted):
        carry_out(bench, search())
    bench.stop = type(bench.stop)()
    bench.engine(everywhere={"above": [[100, SLOW]]})
    first, (cut,) = carry_out(bench, search(most_runs=4))
    assert (first.kept, len(first.plan.runs), cut.end) == (2, 4, "budget")
    assert "within 4 runs" in sentence(cut)
    second, (found,) = carry_out(bench, search())
    assert (second.kept, found.end) == (4, "found")
    assert second.plan.runs[:4] == first.plan.runs


def test_where_the_generator_ends_its_run_is_kept_and_the_system_is_not_blamed(bench):
    bench.engine(everywhere={"above": [[200, LATE]]})
    _, (found,) = carry_out(bench, search())
    assert (found.end, found.fails) == ("generator", None)
    assert found.holds <= 200 < 1.3 * found.holds
    assert "nothing is said of more" in sentence(found)
    assert "invalid/intact" in bench.verdicts().values()


def test_another_ladder_is_another_search(bench):
    bench.engine(everywhere={"above": [[100, SLOW]]})
    carry_out(bench, search(most_runs=2))
    with pytest.raises(ChangedError, match="never mixed"):
        carry_out(bench, search(rungs=ladder(20, 700, step=0.5)))
