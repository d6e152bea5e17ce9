"""Two-stage repetitions: decided once, from the pilot, the same again after resuming."""

from __future__ import annotations

import json

from support.campaign_bench import make_plan
from towtank.design.model import Adaptive, Answer


def adaptive_plan(at_most=11, until=0.02):
    return make_plan(
        ("one", "two"), blocks=8, max_invalid_repeats=0,
        repetitions=Adaptive.model_validate({"at_least": 8, "at_most": at_most, "until": {"p95": until}}),
        answer=Answer(primary=("p95",), baseline="one"), order="randomized-blocks",
    )  # fmt: skip


def vary(bench, spread_us):
    """Latencies of the second treatment that differ from block to block."""
    runs = {f"b{b:02d}_two_a1": {"p95_us": 1500 + spread_us * (b % 3)} for b in range(1, 30)}
    bench.engine(**runs)


def test_a_steady_pilot_is_enough(bench):
    vary(bench, 0)
    outcome = bench.run(adaptive_plan())
    assert outcome.plan.blocks == 8
    assert any("8 blocks in all" in note for note in bench.told.notes)


def test_a_varying_pilot_asks_for_more_blocks_once(bench):
    vary(bench, 200)
    outcome = bench.run(adaptive_plan())
    assert outcome.plan.blocks == 11
    assert len(bench.verdicts()) == 22
    assert json.loads((bench.folder / "plan.json").read_text())["runs"][-1]["block"] == 11
    again = bench.run(adaptive_plan())
    assert (again.done, again.plan.blocks) == (0, 11), "the stored decision stands"


def test_a_pilot_that_cannot_be_reckoned_with_asks_for_the_most(bench):
    bench.engine(**{f"b{b:02d}_two_a1": {"outcome": "check:status", "status": 503} for b in range(1, 30)})
    outcome = bench.run(adaptive_plan(at_most=9))
    assert outcome.plan.blocks == 9
    assert any("cannot be reckoned with" in note for note in bench.told.notes)
