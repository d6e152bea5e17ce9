"""Violins, heat maps, interaction plots and Pareto fronts: what they draw is what was measured, spread included."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from support.sample_analysis import sample_analysis
from towtank.errors import TowtankError
from towtank.report.figures.heat import heat
from towtank.report.figures.interaction import interactions
from towtank.report.figures.pareto import MAX_TREATMENTS, on_front, paretos
from towtank.report.figures.save import svg
from towtank.report.figures.violins import violins
from towtank.report.model import Figure
from towtank.report.naming import Names

PRIMARY = ("p95", "goodput")


def factorial(factors, scale=lambda levels: 1.0):
    """The sample's treatments at several levels, their numbers multiplied."""
    sample = sample_analysis()
    treatments = []
    for i, levels in enumerate(factors):
        origin = sample.treatments[i % 2]
        by = scale(levels)
        estimates = {
            name: replace(e, mean=e.mean * by, low=e.low * by, high=e.high * by)
            for name, e in origin.estimates.items()
            if e.mean is not None and e.low is not None
        }
        label = " ".join(map(str, levels.values()))
        treatments.append(
            replace(origin, treatment_id=f"t{i}", label=label, levels=levels, estimates=estimates)
        )
    return replace(sample, treatments=tuple(treatments))


def drawn(figure: Figure):
    return [svg(figure), svg(figure, narrow=True)]


def test_violins_hold_the_requests_and_say_what_failed():
    sample = sample_analysis()
    figure = violins(sample, Names(sample))
    boxes = {b["treatment"]: b for b in figure.datasets["boxes"]}
    line = sample.percentiles.set_index(["treatment_id", "percentile"]).latency_s
    for name, box in boxes.items():
        assert box["p50"] == pytest.approx(line[name, 50.0], rel=1e-3)
        assert box["p5"] <= box["p25"] <= box["p50"] <= box["p75"] <= box["p95"]
    assert boxes["two-processes-limited"]["failed"].endswith("failed")
    assert boxes["one-process"]["failed"] == ""
    for row, name in enumerate(boxes):
        shape = [s for s in figure.datasets["shapes"] if s["treatment"] == name]
        widest = max(shape, key=lambda s: s["bottom"] - s["top"])
        assert widest["bottom"] - widest["top"] == pytest.approx(0.8, rel=1e-3), (
            "each has the same widest place"
        )
        assert all(s["top"] + s["bottom"] == pytest.approx(2 * row, abs=1e-3) for s in shape)
    assert all("<svg" in picture for picture in drawn(figure))


def test_a_median_among_the_failures_reaches_the_edge():
    sample = sample_analysis()
    lost = sample.percentiles.latency_s.mask(
        (sample.percentiles.treatment_id == "one-process") & (sample.percentiles.percentile >= 40)
    )
    spoiled = replace(sample, percentiles=sample.percentiles.assign(latency_s=lost))
    figure = violins(spoiled, Names(spoiled))
    box = figure.datasets["boxes"][0]
    assert (box["median_known"], box["beyond"], box["p50_shown"]) == (0, 1, "failed")
    assert box["p75"] == box["p95"] > box["p25"]
    assert "among the failures" in figure.caption


def test_heat_maps_have_one_hue_per_deployment_and_shares_of_the_moment():
    sample = sample_analysis()
    (figure,) = heat(sample, Names(sample))
    cells, failed = figure.datasets["heat"], figure.datasets["failed"]
    assert {c["map"] for c in cells} == {0, 1, 2}
    assert {c["map"] for c in failed} == {2}, "two-processes-limited"
    moments: dict[tuple[int, float], float] = {}
    for cell in (*cells, *failed):
        key = cell["map"], cell["t"]
        moments[key] = moments.get(key, 0.0) + cell["share"]
    assert all(0.99 < total < 1.001 for total in moments.values())
    text = json.dumps(figure.wide)
    names = Names(sample)
    assert all(color in text for color in ("#0072b2", "#d55e00", "#0a9d7a"))
    assert names.legend[0][1].color == 0
    assert all("<svg" in picture for picture in drawn(figure))


def test_heat_maps_show_stages_and_faults_and_say_how_wide_their_bins_are():
    sample = sample_analysis()
    ids = [t.treatment_id for t in sample.treatments]
    longer = sample.heat.treatment_id == ids[1]
    fault = {
        "treatment_id": ids[0], "kind": "kill", "target": "app", "instances": ["app-1"], "start_s": 4.0, "end_s": 4.5,
    }  # fmt: skip
    wider = replace(
        sample,
        heat=sample.heat.assign(bin_s=sample.heat.bin_s.mask(longer, 2 * sample.heat.bin_s)),
        faults=(fault,),
    )
    (figure,) = heat(wider, Names(wider))
    assert "(500 ms to 1 s bins)" in figure.caption
    assert "Shaded: spike." in figure.caption
    assert "Red: while a fault was on (kill of app-1)." in figure.caption
    assert [s["name"] for s in figure.datasets["stages"]] == ["plateau", "spike", "plateau again"]
    assert figure.datasets["faults"][0]["start"] == 4.0
    assert all("<svg" in picture for picture in drawn(figure))


def test_an_interaction_needs_two_factors():
    sample = sample_analysis()
    assert interactions(sample, Names(sample), PRIMARY) is None


def test_interactions_show_every_mean_with_its_interval():
    factors = [{"users": u, "deployment": d} for u in (25, 50, 100) for d in ("nfs", "ceph")]
    crossing = factorial(factors, lambda at: at["users"] / 25 if at["deployment"] == "nfs" else 1.0)
    figure = interactions(crossing, Names(crossing), PRIMARY)
    rows = [r for r in figure.datasets["interaction"] if r["variable"] == "p95"]
    assert [r["level"] for r in rows] == ["25", "25", "50", "50", "100", "100"]
    assert all(r["low"] < r["value"] < r["high"] for r in rows)
    nfs = {r["level"]: r["value"] for r in rows if r["series"] == "nfs"}
    assert nfs["100"] == pytest.approx(4 * nfs["25"], rel=1e-3)
    assert len({r["place"] for r in rows}) == 2, "intervals lie beside each other"
    assert "deployment" in figure.title
    assert "users" in figure.title
    spec = json.dumps(figure.wide)
    assert '"strokeDash"' in spec
    assert '"shape"' in spec
    assert all("<svg" in picture for picture in drawn(figure))


def test_numbers_and_many_levels_go_along_the_axis():
    """The axis has room for an order; lines have not."""
    both = factorial(
        [{"region": r, "users": u, "deployment": d} for r in "abc" for u in (50, 25) for d in "xy"]
    )
    figure = interactions(both, Names(both), ("p95",))
    assert "depend on users?" in figure.title
    assert list(dict.fromkeys(r["level"] for r in figure.datasets["interaction"])) == ["50", "25"]
    assert '"domain": ["25", "50"]' in json.dumps(figure.wide)
    names_only = factorial(
        [{"zone": z, "region": r, "deployment": d} for z in "ab" for r in "abc" for d in "xy"]
    )
    assert "depend on region?" in interactions(names_only, Names(names_only), ("p95",)).title
    without = factorial([{"users": u, "backend": b} for u in (25, 50) for b in ("nfs", "ceph")])
    figure = interactions(without, Names(without), ("p95",))
    assert figure.title == "Does the effect of backend depend on users?"


def test_other_factors_become_panels_of_an_interaction():
    factors = [{"users": u, "deployment": d, "region": r} for r in "ab" for u in (1, 2) for d in ("x", "y")]
    many = factorial(factors)
    figure = interactions(many, Names(many), ("p95",))
    assert {r["plot"] for r in figure.datasets["interaction"]} == {0, 1, 2, 3}
    assert "region a" in json.dumps(figure.wide)


@pytest.mark.parametrize(
    ("values", "front"),
    [
        ([(1, 1)], [True]),
        ([(1, 4), (2, 2), (4, 1), (3, 3)], [True, True, True, False]),
        ([(1, 1), (1, 2), (2, 1)], [True, False, False]),
        ([(2, 2), (2, 2)], [True, True]),
        ([(1, math.inf), (2, 5), (2, math.inf)], [True, True, False]),
    ],
)
def test_who_is_on_the_front(values, front):
    assert on_front(values) == front


def test_a_pareto_front_of_any_two_variables_respects_which_way_is_better():
    factors = [{"deployment": d} for d in "abcd"]
    sizes = dict(zip("abcd", (1.0, 2.0, 3.0, 0.5), strict=True))
    spread = factorial(factors, lambda at: sizes[at["deployment"]])
    (figure,) = paretos(spread, Names(spread), [("throughput", "memory_bytes")])
    assert figure.id == "pareto-throughput-memory-bytes"
    points = {p["treatment"]: p for p in figure.datasets["points"]}
    rate = {name: p["x"] for name, p in points.items()}
    memory = {name: p["y"] for name, p in points.items()}
    for name, point in points.items():
        beaten = any(rate[o] >= rate[name] and memory[o] <= memory[name] for o in points if o != name)
        assert point["front"] == int(not beaten), name
        assert point["x_low"] <= point["x"] <= point["x_high"]
        assert point["y_low"] < point["y"] < point["y_high"]
    assert all("<svg" in picture for picture in drawn(figure))


def test_what_lies_among_failures_is_worse_than_anything():
    sample = sample_analysis()
    (figure,) = paretos(sample, Names(sample))
    assert figure.id == "pareto-cpu-cores-p95"
    points = {p["treatment"]: p for p in figure.datasets["points"]}
    assert points["two-processes-limited"]["above"] == 1
    assert points["two-processes-limited"]["front"] == 0
    assert "among the failures" in figure.caption


def test_labels_of_near_points_do_not_cover_each_other():
    near = factorial([{"deployment": f"deployment-{i}"} for i in range(9)], lambda at: 1.0)
    (figure,) = paretos(near, Names(near), [("cpu_cores", "p95")])
    shown = json.dumps(figure.wide).split('"oneOf": ')[1:]
    numbers = [n for s in shown for n in json.loads(s[: s.index("]") + 1])]
    assert len(numbers) == len(set(numbers)) < 9, "labels that would cover others are left to the tooltip"


def test_an_unknown_variable_is_named_with_those_there_are():
    sample = sample_analysis()
    with pytest.raises(TowtankError, match="cpu has no value") as caught:
        paretos(sample, Names(sample), [("cpu", "p95")])
    assert "cpu_cores" in caught.value.hint


def test_two_treatments_make_no_front_of_their_own_accord():
    sample = sample_analysis()
    two = replace(sample, treatments=sample.treatments[:2])
    assert paretos(two, Names(two)) == []
    assert len(paretos(two, Names(two), [("cpu_cores", "p95")])) == 1


def test_a_front_is_that_of_all_treatments_even_where_not_all_are_drawn():
    sample = sample_analysis()
    [first] = sample.treatments[:1]
    many = []
    for number in range(MAX_TREATMENTS + 3):
        cheap = replace(first.estimates["cpu_cores"], mean=100.0 - number)
        fast = replace(first.estimates["p95"], mean=1.0 - number / 100)
        name = f"t{number:02d}"
        many.append(
            replace(
                first, treatment_id=name, label=name, levels={"deployment": name},
                estimates={**first.estimates, "cpu_cores": cheap, "p95": fast},
            )
        )  # fmt: skip
    crowd = replace(sample, treatments=tuple(many))
    (figure,) = paretos(crowd, Names(crowd), [("cpu_cores", "p95")])
    points = figure.datasets["points"]
    assert len(points) == MAX_TREATMENTS
    assert [p["treatment"] for p in points if p["front"]] == [f"t{MAX_TREATMENTS + 2:02d}"]
    assert "3 more" in figure.caption
    assert "Without a value" not in figure.caption


def test_successes_only_do_not_rank_where_goodput_differs():
    sample = sample_analysis()
    said = "do not rank these treatments"
    (figure,) = paretos(sample, Names(sample), [("cpu_cores", "p95_ok")])
    assert said in figure.caption
    (figure,) = paretos(sample, Names(sample), [("cpu_cores", "p95")])
    assert said not in figure.caption
    alike = replace(sample, treatments=sample.treatments[:1] * 2)
    (figure,) = paretos(alike, Names(alike), [("cpu_cores", "p95_ok")])
    assert said not in figure.caption
