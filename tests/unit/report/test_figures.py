import json
import re
import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from altair import load_schema
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from support.sample_analysis import HOSTILE, sample_analysis
from towtank import report
from towtank.errors import TowtankError
from towtank.report.figures import base, save, svg
from towtank.report.figures.distribution import thin
from towtank.report.figures.percentiles import position

EXPECTED = [
    "forest",
    "timeseries",
    "percentiles",
    "ecdf",
    "violins",
    "heat",
    "intervals",
    "pareto-cpu-cores-p95",
    "outcomes",
    "instances",
    "forest-exploratory",
]


def figure(model, name):
    return next(f for f in model.figures if f.id == name)


def test_every_figure_is_there_and_says_what_is_seen(model):
    assert [f.id for f in model.figures] == EXPECTED
    for f in model.figures:
        assert len(f.caption) > 40, f.id
        assert len(f.alt) > 60, f.id
        assert "nan" not in f.alt, f.id


def test_specifications_fit_the_published_schema(model):
    schema = Draft7Validator(load_schema())  # altair carries the schema that it was generated from
    for f in model.figures:
        for narrow in (False, True):
            found = next(schema.iter_errors(f.spec(narrow=narrow)), None)
            assert found is None, (f.id, narrow, found and found.message)


def test_both_widths_share_one_set_of_numbers(model):
    for f in model.figures:
        for spec in (f.wide, f.narrow):
            assert "datasets" not in spec
            used = set(re.findall(r'"data": \{"name": "([^"]+)"\}', json.dumps(spec)))
            assert used <= set(f.datasets), f.id


def test_a_mean_never_stands_without_its_spread(model):
    means = figure(model, "intervals").datasets["means"]
    assert all(m["above"] or (m["low"] <= m["value"] <= m["high"]) for m in means)
    bands = figure(model, "timeseries").datasets["bands"]
    assert all(b["low"] <= b["mid"] <= b["high"] for b in bands if b["mid"] is not None)
    spec = json.dumps(figure(model, "intervals").wide)
    assert '"low"' in spec
    assert '"high"' in spec


def test_failures_are_visible_where_latency_is(model):
    failing = figure(model, "percentiles").datasets["failing"]
    assert [(f["treatment"], f["bound"]) for f in failing] == [("two-processes-limited", "> 2 s")]
    assert "&gt; 2 s" in svg(figure(model, "percentiles"))
    limited = [r for r in figure(model, "ecdf").datasets["ecdf"] if r["treatment"] == "two-processes-limited"]
    assert 0.9 < max(r["share"] for r in limited) < 1
    marked = [b for b in figure(model, "timeseries").datasets["bands"] if b["failing"] > 0]
    assert {b["treatment"] for b in marked} == {"two-processes-limited"}


def test_colour_is_consistent_and_never_the_only_code(model):
    looks = {}
    for f in model.figures:
        for match in re.finditer(
            r'"scale": (\{[^{}]*"domain": \[[^\]]*\], "range": \[[^\{\}]*?\]\})', json.dumps(f.wide)
        ):
            scale = json.loads(match.group(1))
            if scale["domain"][0] == "one-process" and str(scale["range"][0]).startswith("#"):
                for name, color in zip(scale["domain"], scale["range"], strict=True):
                    looks.setdefault(name, set()).add(color)
    assert len(looks) == 3
    assert all(len(colors) == 1 for colors in looks.values())
    for name in ("percentiles", "ecdf", "timeseries"):
        assert "strokeDash" in json.dumps(figure(model, name).wide), name
    assert '"shape"' in json.dumps(figure(model, "intervals").wide)


def test_names_from_outside_are_data_or_escaped_text(hostile):
    for f in hostile.figures:
        drawn = svg(f)
        assert "<img" not in drawn, f.id
        assert "<script" not in drawn, f.id
        assert "href" not in drawn, f.id


def test_no_expression_is_made_of_a_name(hostile):
    for f in hostile.figures:
        for spec in (f.wide, f.narrow):
            for expression in re.findall(
                r'"(?:labelExpr|expr|calculate)": "((?:[^"\\]|\\.)*)"', json.dumps(spec)
            ):
                assert "alert" not in expression
                assert HOSTILE[5][:3] not in expression


@given(st.integers(0, 400), st.integers(10, 60))
def test_thinning_keeps_ends_order_and_bound(size, points):
    x = np.arange(size, dtype=float)
    frame = pd.DataFrame({"x": x, "y": np.sqrt(x)})
    kept = thin(frame, "x", "y", points=points)
    assert len(kept) <= max(points + 1, 2)
    assert kept.x.is_monotonic_increasing
    if size:
        assert (kept.x.iloc[0], kept.x.iloc[-1]) == (0, size - 1)


def test_thinning_keeps_a_step():
    frame = pd.DataFrame({"x": np.arange(10_000.0), "y": (np.arange(10_000) > 7777).astype(float)})
    kept = thin(frame, "x", "y", points=50)
    assert {7777.0, 7778.0} & set(kept.x)


@pytest.mark.parametrize(("p", "x"), [(0, 0), (90, 1), (99, 2), (99.9, 3)])
def test_percentile_axis(p, x):
    assert position(p) == pytest.approx(x, abs=1e-6)


def test_ticks():
    assert base.log_ticks(0.004, 0.06) == [0.005, 0.01, 0.02, 0.05]
    assert base.log_ticks(1e-5, 2) == [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]
    assert [t / 2**20 for t in base.byte_ticks(60 * 2**20, 130 * 2**20)] == [60, 80, 100, 120]
    assert base.byte_ticks(0, 0)
    assert base.log_ticks(0.052, 0.088) == [0.06, 0.07, 0.08], "no axis without a number"


def test_latencies_of_other_tools_count_from_the_actual_start():
    sample = sample_analysis()
    assert base.latency_title(sample) == "latency from intended start"
    assert base.latency_title(replace(sample, meta={"tools": ["k6"]})) == "latency from the actual start"


def test_files_in_every_format(model, tmp_path):
    small = replace(model, sections=tuple(s for s in model.sections if s.id == "answer-section"))
    written = save(small, tmp_path / "figures", ("svg", "png", "pdf"))
    assert [p.name for p in written] == ["forest.svg", "forest.png", "forest.pdf"]
    assert written[0].read_text(encoding="utf-8").startswith("<svg")
    head = written[1].read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", head[16:20])[0] > 1500
    assert written[2].read_bytes()[:5] == b"%PDF-"


def test_an_unknown_format_names_those_that_are_allowed(model, tmp_path):
    with pytest.raises(TowtankError, match="gif; allowed is svg, png and pdf"):
        save(model, tmp_path, ("gif",))


def test_a_folder_that_cannot_be_written_is_named(model, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TowtankError, match="file/figures"):
        save(model, tmp_path / "file" / "figures", ("svg",))


def levels(analysis, factors):
    """Give treatments the levels of a factorial design."""
    treatments = tuple(
        replace(
            analysis.treatments[i % 3],
            treatment_id=f"t{i}",
            label=" · ".join(map(str, each.values())),
            levels=each,
        )
        for i, each in enumerate(factors)
    )
    origin = [t.treatment_id for t in analysis.treatments]

    def spread(frame):
        return pd.concat(
            [
                frame[frame.treatment_id == origin[i % 3]].assign(treatment_id=t.treatment_id)
                for i, t in enumerate(treatments)
            ]
        )

    return replace(
        analysis,
        treatments=treatments,
        stages=[
            {**stage, "treatment_id": t.treatment_id}
            for i, t in enumerate(treatments)
            for stage in analysis.stages
            if stage["treatment_id"] == origin[i % 3]
        ],
        comparisons=(),
        ecdf=spread(analysis.ecdf),
        percentiles=spread(analysis.percentiles),
        timeseries=spread(analysis.timeseries),
        resources=spread(analysis.resources),
    )


def test_several_factors_become_panels_with_one_colour_per_deployment():
    factors = [{"users": u, "deployment": d} for u in (25, 50) for d in ("nfs", "ceph")]
    model = report.build(levels(sample_analysis(), factors))
    assert [label for label, _ in model.legend] == ["nfs", "ceph"]
    assert {r["panel"] for r in figure(model, "ecdf").datasets["ecdf"]} == {"users 25", "users 50"}
    assert [f.id for f in model.figures if f.id.startswith("timeseries")] == ["timeseries-1", "timeseries-2"]
    for name in ("ecdf", "percentiles", "timeseries-1"):
        assert "<svg" in svg(figure(model, name), narrow=True)


def test_stages_are_those_of_the_treatments_that_are_drawn():
    """Each workload has stages of its own; what one figure's treatments do not share is not shaded."""
    factors = [{"users": u, "deployment": d} for u in (25, 50) for d in ("nfs", "ceph")]
    sample = levels(sample_analysis(), factors)
    others = [
        {**stage, "name": "steady"} if stage["treatment_id"] in ("t2", "t3") else stage
        for stage in sample.stages
    ]
    first, second = (
        figure(report.build(replace(sample, stages=others)), name).datasets["stages"]
        for name in ("timeseries-1", "timeseries-2")
    )
    assert [stage["name"] for stage in first] == [
        s["name"] for s in sample.stages if s["treatment_id"] == "t0"
    ]
    assert {stage["name"] for stage in second} == {"steady"}
    mixed = [{**stage, "end_s": 99.0} if stage["treatment_id"] == "t2" else stage for stage in sample.stages]
    assert figure(report.build(replace(sample, stages=mixed)), "timeseries-2").datasets["stages"] == []


def test_many_treatments_stay_legible():
    sample = sample_analysis()
    without_series = replace(
        sample, timeseries=sample.timeseries.iloc[:0], resources=sample.resources.iloc[:0]
    )
    model = report.build(levels(without_series, [{"deployment": f"d{i}"} for i in range(30)]))
    assert "24 treatments are shown" in figure(model, "intervals").caption
    assert len({style for _, style in model.legend}) == 30
    assert not [f for f in model.figures if f.id.startswith("timeseries")]


def test_an_open_interval_reaches_to_the_edge_and_is_said_in_words(model):
    rows = {r["row"]: r for r in figure(model, "forest").datasets["ratios"]}
    limited = rows["p95 latency ↓ · two-processes-limited"]
    assert limited["estimate"] is None
    assert limited["effect"] == "above × 19"
    assert limited["high"] > limited["low"] == 19
