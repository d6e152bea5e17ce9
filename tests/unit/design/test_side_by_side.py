"""Several workloads driven at the same time: how they are chosen, what must fit, and what is asked of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import refused
from towtank.design import forecast, load_plan
from towtank.design.plan import Plan
from towtank.errors import DesignError
from towtank.load import JobRequest, build_job
from towtank.platforms.base import Instance, Target
from towtank.variables import variable

FILE = """\
experiment: both
question: Do they disturb each other?
{answer}
repetitions: 4
factors: {{workload: [{levels}]}}
deployments:
  apps:
    platform: external
    targets: {{shop: "http://127.0.0.1:1", wiki: "http://127.0.0.1:2"}}
workloads:
  shop:
    load: {{model: open, rate: 10/s, duration: 10s, warmup: 2s}}
    feeds: {{people: a.csv}}
    journey: {{steps: [{{name: home, target: shop}}]}}
  wiki:
    load: {{model: closed, users: 3, duration: 20s}}
    feeds: {{{feed}: b.csv}}
    journey: {{steps: [{{name: home, target: wiki}}]}}
"""


def plan(folder, levels="shop, shop+wiki", answer="", feed="pages"):
    (folder / "a.csv").write_text("name\nada\n")
    (folder / "b.csv").write_text("name\nbob\n")
    path = folder / "experiment.yaml"
    path.write_text(FILE.format(levels=levels, answer=answer, feed=feed), "utf-8")
    return load_plan(path)


def problems(folder, **options):
    found = refused.problems(folder, lambda: plan(folder, **options))
    return [problem.removeprefix("experiment.yaml:") for problem in found]


def test_a_level_may_name_two(tmp_path):
    made = plan(tmp_path)
    alone, both = made.treatments
    assert (alone.id, both.id) == ("shop", "shop-wiki")
    assert both.label == "shop+wiki"
    assert (alone.spec.drive, both.spec.drive) == ("shop", "shop+wiki")
    assert both.spec.load_model == "mixed"
    assert set(both.spec.files) == {"a.csv", "b.csv"}
    assert Plan.from_json(made.to_json()).treatments == made.treatments


def test_the_job_drives_both(tmp_path):
    spec = plan(tmp_path).treatments[1].spec
    targets = {name: Target(name, (Instance(name, "http://127.0.0.1:1"),)) for name in ("shop", "wiki")}
    job = build_job(JobRequest("r", 0, Path("/r"), spec.driven, targets, spec.generator))
    assert [(w["name"], w["load"]["model"], w["warmup_us"]) for w in job["workloads"]] == [
        ("shop", "open", 2_000_000),
        ("wiki", "closed", 0),
    ]
    assert set(job["feeds"]) == {"people", "pages"}


def test_the_longer_one_decides_how_long_it_takes(tmp_path):
    alone, both = forecast(plan(tmp_path)).treatments
    assert (alone.load_s, both.load_s) == (10, 20)
    assert alone.requests.exact
    assert alone.requests.low == 100
    assert both.requests.low >= 100
    assert not both.requests.exact


def test_levels_must_exist(tmp_path):
    assert problems(tmp_path, levels="shop, shop+wikki") == [
        "5:28: factors.workload: there is no workload 'wikki'; there are shop, wiki (did you mean 'wiki'?)"
    ]
    assert problems(tmp_path, levels="shop, shop+shop") == [
        "5:28: factors.workload: 'shop+shop' drives a workload beside itself (give a copy of it another name)"
    ]


def test_feeds_share_their_names(tmp_path):
    assert problems(tmp_path, feed="people") == [
        (
            "17:13: workloads.wiki.feeds.people: workload 'shop', which is driven at the same time, has another feed "
            "'people' (give one of them another name)"
        )
    ]


def test_variables_of_one_workload(tmp_path):
    answer = 'answer: {primary: ["p95[shop]", "goodput[wiki]"], baseline: shop}'
    assert plan(tmp_path, answer=answer).experiment.answer.primary == ("p95[shop]", "goodput[wiki]")
    found = variable("p99.9_ok[my-shop]")
    assert (found.base, found.workload, found.percentile) == ("p99.9_ok", "my-shop", 99.9)
    wrong = 'answer: {primary: ["p95[shoop]", "cpu_cores[shop]"], baseline: shop}'
    first, second = problems(tmp_path, answer=wrong)
    assert first == "3:20: answer.primary[0]: 'p95[shoop]': there is no workload 'shoop'"
    assert second.startswith("3:34: answer.primary[1]: there is no response variable 'cpu_cores[shop]'")


def test_without_a_factor_both_ways_are_said(tmp_path):
    (tmp_path / "a.csv").write_text("name\nada\n")
    (tmp_path / "b.csv").write_text("name\nbob\n")
    path = tmp_path / "experiment.yaml"
    text = FILE.format(levels="", answer="", feed="pages").replace("factors: {workload: []}\n", "")
    path.write_text(text, "utf-8")
    with pytest.raises(DesignError, match=r"workload: \[shop\+wiki\]"):
        load_plan(path)


def test_loads_that_are_never_measured_together_are_refused(tmp_path, monkeypatch):
    short = FILE.replace("duration: 20s", "duration: 1s")
    monkeypatch.setitem(globals(), "FILE", short)
    (said,) = problems(tmp_path)
    assert said.startswith("12:5: workloads.shop.load: it is measured from 2 s to 10 s, and 'wiki'")
    assert "at the same time, from 0 s to 1 s: there is no time" in said
    assert "shorten the warm-up" in said


@pytest.mark.parametrize(("arrivals", "refused"), [(11, True), (20, True), (22, False), (10_000, False)])
def test_a_count_ends_even_arrivals_before_their_duration(tmp_path, monkeypatch, arrivals, refused):
    """At 10/s the 21st and last arrival is due after 2 s, when the measurement of the other begins."""
    by_count = f"{{{{model: open, rate: 10/s, max_arrivals: {arrivals}}}}}"
    short = FILE.replace("{{model: closed, users: 3, duration: 20s}}", by_count)
    assert short != FILE
    monkeypatch.setitem(globals(), "FILE", short)
    if refused:
        (said,) = problems(tmp_path)
        assert f"from 0 s to {(arrivals - 1) / 10:g} s: there is no time" in said
    else:
        plan(tmp_path)
