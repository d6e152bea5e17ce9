"""What is derived of a run is kept: the analysis stays the same, and one more run means reading one run."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections import Counter
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from support.make_results import TreatmentModel, make_results
from towtank.analysis import analyse
from towtank.analysis import kept_runs as kept_module
from towtank.analysis.cold_starts import ColdStarts
from towtank.analysis.demand import Judged
from towtank.analysis.distribution import Distribution, Pool, merge
from towtank.analysis.elasticity import Adaptation, Elasticity
from towtank.analysis.hops import RunHops, Sums
from towtank.analysis.kept_runs import kept_runs
from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.paid import Paid, Series, Work
from towtank.analysis.pods import Pods
from towtank.analysis.predicted_scaling import RunPredictions
from towtank.analysis.run_facts import CountedFacts, RunFacts
from towtank.analysis.scaling import METRICS as ELASTICITY
from towtank.analysis.scaling import RunScaling
from towtank.analysis.scaling_agreement import Prediction
from towtank.analysis.who_answered import Answered, RunAnswers
from towtank.design.model import Answer
from towtank.store import Results, RunFolder
from towtank.store.packing import PackedError, pack, unpack


def assert_same(one, other, where="it"):
    """Equal all the way down, types included; nan equals nan."""
    assert type(one) is type(other), where
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, obj=where)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, err_msg=where)
        assert one.dtype == other.dtype, where
    elif dataclasses.is_dataclass(one):
        for part in dataclasses.fields(one):
            assert_same(getattr(one, part.name), getattr(other, part.name), f"{where}.{part.name}")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{index}]")
    else:
        both_nan = isinstance(one, float) and math.isnan(one) and math.isnan(other)
        assert both_nan or one == other, f"{where}: {one!r}, {other!r}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs of every kind: valid, suspect, spoiled and repeated, collapsed, cut off; a variable in SQL."""
    slow = {
        "sql": "select avg((latency_us > 12000)::int) from requests where in_window and ok", "better": "lower",
    }  # fmt: skip
    return make_results(
        tmp_path_factory.mktemp("kept") / "results",
        treatments={
            "one": TreatmentModel(median_ms=10, invalid=(2,), suspect=(3,), errors=0.01),
            "two": TreatmentModel(median_ms=5, collapsed=(1,), unfinished=(4,)),
        },
        blocks=4, rate_per_s=20.0, duration_s=3.0,
        answer=Answer(primary=("p95",), baseline="one", variables={"slow_ratio": slow}),
    )  # fmt: skip


@pytest.fixture
def folder(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "results"))


@pytest.fixture
def read(monkeypatch):
    """Run → how many of its tables were read."""
    seen = Counter()
    for name in ("counts", "totals", "samples", "events", "spans", "request_batches"):
        plain = getattr(RunFolder, name)

        def counted(self, *args, _plain=plain, **options):
            seen[self.run_id] += 1
            return _plain(self, *args, **options)

        monkeypatch.setattr(RunFolder, name, counted)
    return seen


def analysed(folder):
    results = Results.open(folder)
    derived = kept_runs(results)
    return analyse(results, derived=derived), derived


def test_one_more_run_means_reading_one_run(folder, read, tmp_path):
    runs = Results.open(folder).runs("all")
    fresh = analyse(Results.open(folder))
    late = next(r for r in runs if r.record.planned_id == "b03-two")
    shutil.move(late.path, tmp_path / "later")
    without, derived = analysed(folder)
    assert len(without.runs) == len(runs) - 1
    assert (derived.found, len(derived.missed)) == ([], len(runs) - 1)

    shutil.move(tmp_path / "later", late.path)
    read.clear()
    found, derived = analysed(folder)
    assert set(read) == {late.run_id}, "tables of other runs were read"
    assert derived.missed == [late.run_id]
    assert_same(found, fresh)

    read.clear()
    again, derived = analysed(folder)
    assert not read
    assert derived.missed == []
    assert_same(again, fresh)


def test_a_run_that_changed_is_read_again_and_only_that(folder, read):
    analysed(folder)
    run = Results.open(folder).runs()[0]
    os.utime(run.layout.counts, ns=(1, 1))
    read.clear()
    analysed(folder)
    assert set(read) == {run.run_id}
    assert len(list((folder / "report" / ".derived").iterdir())) == len(Results.open(folder).runs("all")), (
        "what does not fit any more is replaced"
    )


def test_another_version_of_a_library_reads_again(folder, read, monkeypatch):
    analysed(folder)
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.1" if name == "duckdb" else version(name))
    kept_module._code.cache_clear()
    read.clear()
    try:
        analysed(folder)
    finally:
        kept_module._code.cache_clear()
    assert len(read) == len(Results.open(folder).runs("all"))


def test_other_questions_read_again(folder, read):
    analysed(folder)
    plan = folder / "plan.json"
    plan.write_text(plan.read_text().replace("latency_us > 12000", "latency_us > 13000"))
    read.clear()
    analysed(folder)
    assert len(read) == len(Results.open(folder).runs("all"))


def test_what_is_kept_may_be_damaged_gone_or_elsewhere(folder, read, tmp_path):
    fresh = analyse(Results.open(folder))
    analysed(folder)
    first, second, third, *_ = sorted((folder / "report" / ".derived").iterdir())
    first.write_bytes(first.read_bytes()[:-40])
    second.unlink()
    shutil.move(third, tmp_path / "elsewhere")
    third.symlink_to(tmp_path / "elsewhere")
    read.clear()
    found, derived = analysed(folder)
    assert len(derived.missed) == len(read) == 3
    assert_same(found, fresh)


def test_without_a_place_to_keep_it_everything_is_read(folder, read):
    (folder / "report").write_text("a file in the way")
    for _ in range(2):
        _, derived = analysed(folder)
        assert derived.found == []


def facts(**counted):
    summary = RunSummary(
        "b01-one-a1", "one", 1, 1, 1, "valid", "intact", (), {}, {}, {}, {}, window_s=3.0, due=10,
        answers={},
    )  # fmt: skip
    empty = {
        name: pd.DataFrame()
        for name in ("timeseries", "resources", "observed", "replicas", "usage", "each", "heat")
    }
    plain = CountedFacts(
        latency=Distribution.of([3, 5, 5]), steps=(), pods=Pods(pd.DataFrame(), {}, {}), crowded=(), bursts=(),
        hops=None, steadiness=None, scaling=None, cold=None, predicted=None, answers=None, phases={},
        **empty,
    )  # fmt: skip
    return RunFacts(summary, (), dataclasses.replace(plain, **counted))


def test_pods_and_hops_come_back_as_they_were(tmp_path):
    counts = pd.DataFrame({"t_us": [0, 5], "metric": ["nodes", "nodes"], "value": [1.0, float("nan")]})
    lives = {"uid": {"created": 3, "ready": 9}}
    pods = Pods(
        counts, lives, {"app-0": "Deployment/app"}, {"uid": {"created": 1.5}}, [(1, 2)], gaps_unlisted=True,
        named={"app-0": "uid"}, told_by={"uid": "kubernetes"}, started_within_us={"uid": 400},
    )  # fmt: skip
    hops = RunHops("b01", {("get", "median"): Sums(2, 9, {("span", "app", "GET /"): (1, 2, 3)})}, 2, 0, 0, 1)
    lasting = dict.fromkeys(ELASTICITY, 0.5)
    scaling = RunScaling(
        "one", "b01", Judged(Elasticity(60.0, **lasting)), (Adaptation(1.0, 1.0, 2.0, None, 3.0),), counts
    )
    answers = RunAnswers("one", {"503": Answered(5, {"ingress": 3}, 2, 0)})
    cold = ColdStarts(counts, {"ready": 100})
    predicted = RunPredictions("one", "b01", (Prediction("app", "KPA", "load", 2, 0.5, 1, counts),))
    kept = facts(
        pods=pods,
        hops=hops,
        bursts=({"t_s": 1.0, "bytes": 7},),
        scaling=scaling,
        cold=cold,
        predicted=predicted,
        answers=answers,
        phases={"ttfb": Distribution.of([1, 4, 4])},
    )
    pack(kept, tmp_path / "one")
    assert_same(unpack(tmp_path / "one", RunFacts), kept)


def test_what_is_paid_for_comes_back_as_it_was(tmp_path):
    series = Series(np.array([-5, 7]), np.array([2.0, 3.0]))
    paid = Paid(
        3, 0.1, 2, 4, Quantity(None, reason="r"), 17.0, None, Work(1.5, "about"), {"nodes": series}, Series()
    )
    kept = dataclasses.replace(facts(), paid=paid)
    pack(kept, tmp_path / "one")
    assert_same(unpack(tmp_path / "one", RunFacts), kept)


def test_a_file_with_a_damaged_byte_is_none_of_ours_and_no_fault(tmp_path):
    """Every byte of the first 600, where the values stand compressed, and of the last, where the archive lists them."""
    pack(facts(), tmp_path / "one")
    whole = (tmp_path / "one").read_bytes()
    refused = 0
    for place in (*range(600), *range(len(whole) - 200, len(whole))):
        for changed in (0xFF, 0x55):
            (tmp_path / "two").write_bytes(
                whole[:place] + bytes([whole[place] ^ changed]) + whole[place + 1 :]
            )
            try:
                unpack(tmp_path / "two", RunFacts)
            except PackedError:
                refused += 1
    assert refused > 1000


def test_only_what_is_expected_is_unpacked(tmp_path):
    pack(facts(), tmp_path / "one")
    with pytest.raises(PackedError, match="RunFacts"):
        unpack(tmp_path / "one", RunSummary)
    with pytest.raises(TypeError, match="PosixPath cannot be packed"):
        pack(facts(each=tmp_path), tmp_path / "two")


def test_a_pool_is_what_merging_all_at_once_would_be(rng):
    parts = [
        Distribution.of(rng.integers(0, 90_000, 30_000), failures=int(rng.integers(0, 5))) for _ in range(9)
    ]
    pool = Pool()
    for part in parts:
        pool.add(part)
    assert_same(pool.all(), merge(parts))
    assert_same(pool.all(), merge(parts))
