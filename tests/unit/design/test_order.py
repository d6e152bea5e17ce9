"""The order of runs: balanced, reproducible, independent between blocks, contiguous where a deployment lives on."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.design import extend, load_plan
from towtank.errors import DesignError

TEXT = """
experiment: order
question: In which order?
repetitions: {repetitions}
order: {order}
seed: {seed}
factors:
  deployment: [{names}]
  users: [{users}]
deployments:
{deployments}
workloads:
  w:
    load: {{model: closed, users: "${{{{ users }}}}", duration: 3s}}
    journey: {{steps: [{{name: a}}]}}
reset: none
"""

GOLDEN = [
    "b01-d1-users-2",
    "b01-d0-users-1",
    "b01-d0-users-2",
    "b01-d1-users-1",
    "b02-d1-users-2",
    "b02-d1-users-1",
    "b02-d0-users-2",
    "b02-d0-users-1",
]
GOLDEN_SEED = 8371441360600999031


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    path = tmp_path_factory.mktemp("order") / "experiment.yaml"

    def plan(lifetimes, *, users=(1, 2), repetitions=4, order="randomized-blocks", seed=7):
        names = [f"d{i}" for i in range(len(lifetimes))]
        deployments = "".join(
            f"  {name}: {{platform: external, url: 'http://127.0.0.1:{i + 1}', deploy: {lifetime}}}\n"
            for i, (name, lifetime) in enumerate(zip(names, lifetimes, strict=True))
        )
        text = TEXT.format(
            repetitions=repetitions, order=order, seed=seed, names=", ".join(names),
            users=", ".join(map(str, users)), deployments=deployments,
        )  # fmt: skip
        path.write_text(text, encoding="utf-8")
        return load_plan(path)

    return plan


def by_block(plan):
    blocks = {}
    for run in plan.runs:
        blocks.setdefault(run.block, []).append(run.treatment_id)
    return blocks


def plot(treatment_id):
    return treatment_id.split("-")[0]


def stretches(names):
    """Names without repetitions in a row."""
    return [name for name, _ in itertools.groupby(names)]


lifetimes = st.lists(st.sampled_from(["per-run", "per-block", "once"]), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(lifetimes=lifetimes, order=st.sampled_from(["randomized-blocks", "listed"]), seed=st.integers(0, 2**63 - 1),
       repetitions=st.integers(1, 5))  # fmt: skip
def test_every_block_has_every_treatment_once(make, lifetimes, order, seed, repetitions):
    plan = make(lifetimes, order=order, seed=seed, repetitions=repetitions)
    ids = sorted(t.id for t in plan.treatments)
    assert len({run.id for run in plan.runs}) == len(plan.runs)
    assert len({run.seed for run in plan.runs}) == len(plan.runs)
    for block, names in by_block(plan).items():
        assert sorted(names) == ids
        positions = [run.position for run in plan.runs if run.block == block]
        assert positions == list(range(1, len(ids) + 1))


@settings(max_examples=40, deadline=None)
@given(lifetimes=lifetimes, seed=st.integers(0, 1000))
def test_what_lives_on_is_contiguous(make, lifetimes, seed):
    plan = make(lifetimes, seed=seed, users=(1, 2, 3))
    kinds = {f"d{i}": lifetime for i, lifetime in enumerate(lifetimes)}
    whole = stretches(
        [plot(run.treatment_id) for run in plan.runs if kinds[plot(run.treatment_id)] == "once"]
    )
    assert len(whole) == len(set(whole)), "a deployment that lives once is one stretch of the experiment"
    for names in by_block(plan).values():
        inside = [plot(name) for name in names if kinds[plot(name)] == "per-block"]
        assert len(stretches(inside)) == len(set(inside))
        places = [i for i, name in enumerate(names) if kinds[plot(name)] == "per-block"]
        for name in set(inside):
            own = [i for i in places if plot(names[i]) == name]
            assert own == list(range(own[0], own[0] + 3)), "nothing comes between its runs"


def test_the_order_is_the_one_of_the_seed(make):
    """Written down: an order must be the same with every version of Python, on every machine."""
    plan = make(["per-run", "per-run"], seed=7)
    assert [run.id for run in plan.runs[:8]] == GOLDEN
    assert plan.runs[0].seed == GOLDEN_SEED
    assert make(["per-run", "per-run"], seed=8).runs != plan.runs


def test_adding_blocks_changes_none_of_the_earlier(make):
    short = make(["per-run", "per-block"], repetitions=3)
    long = make(["per-run", "per-block"], repetitions=8)
    assert extend(short, 5).runs == long.runs
    assert extend(short, 0) == short
    assert extend(extend(short, 2), 3).runs == long.runs
    with pytest.raises(ValueError, match="must be ≥ 0"):
        extend(short, -1)


def test_listed_is_the_order_of_the_file(make):
    plan = make(["per-run", "per-run"], order="listed", repetitions=2)
    ids = [t.id for t in plan.treatments]
    assert ids == ["d0-users-1", "d0-users-2", "d1-users-1", "d1-users-2"]
    assert [run.treatment_id for run in plan.runs] == ids * 2


def test_once_in_a_listed_order_keeps_deployments_together(make):
    plan = make(["once", "once"], order="listed", repetitions=2, users=(1,))
    assert [(run.treatment_id, run.block) for run in plan.runs] == [
        ("d0-users-1", 1), ("d0-users-1", 2), ("d1-users-1", 1), ("d1-users-1", 2),
    ]  # fmt: skip


def test_every_permutation_is_equally_likely(make):
    """Three treatments, 1200 blocks: six orders, chi-squared with 5 degrees of freedom below its 99.9 % quantile."""
    plan = make(["per-run"], users=(1, 2, 3), repetitions=1200)
    counts = Counter(tuple(names) for names in by_block(plan).values())
    assert len(counts) == 6
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 20.5
    pairs = Counter(itertools.pairwise(tuple(names) for names in by_block(plan).values()))
    assert len(pairs) == 36, "one block's order says nothing about the next"


def test_once_excludes_adaptive_repetitions_only_with_several_plots(make):
    rule = "{at_least: 8, at_most: 9, until: {p95: 5%}}"
    assert len(make(["once"], repetitions=rule).runs) == 16
    with pytest.raises(DesignError, match="needs all blocks of a deployment together"):
        make(["once", "per-run"], repetitions=rule)
